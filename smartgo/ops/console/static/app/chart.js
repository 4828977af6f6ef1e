// A line chart over time, by uPlot, in the colours of the theme, with a legend as text.
import { html, useEffect, useRef, useState } from "./html.js";
import { clock, dayTime } from "./format.js";
import { t } from "./i18n.js";
import { colour, isDark } from "./theme.js";

// uPlot is larger than the rest of the console and few pages use it: it is loaded with the first chart.
let Plot = null;
const coming = import("../../vendor/uPlot.mjs").then((found) => {
  Plot = found.default;
});
coming.catch(() => {}); // met where it is drawn

const SHORTEST = 60; // seconds from side to side
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);

const DAY = 86400; // seconds

// The range of the time axis; now, while there is no point.
function timeRange(_, first, last) {
  const end = last ?? Date.now() / 1000;
  return [Math.min(first ?? end, end - SHORTEST), end];
}

// A label's width on the axis, in pixels.
function widest(_, labels) {
  return Math.max(40, ...(labels ?? []).map((one) => one.length * 6.5 + 14));
}

// Insert a gap where no points were recorded: where a time step is much longer than its neighbours.
function holed(times, columns) {
  const holes = [];
  for (let at = 1; at < times.length - 1; at += 1) {
    const here = times[at] - times[at - 1];
    const around = Math.max(at > 1 ? times[at - 1] - times[at - 2] : 0, times[at + 1] - times[at]);
    if (around > 0 && here > 3 * around && here > 5) holes.push(at);
  }
  if (!holes.length) return [times, ...columns];
  const fill = (list, between) => {
    const whole = [];
    let from = 0;
    for (const at of holes) {
      whole.push(...list.slice(from, at), between(at));
      from = at;
    }
    return [...whole, ...list.slice(from)];
  };
  return [fill(times, (at) => (times[at] + times[at - 1]) / 2), ...columns.map((list) => fill(list, () => null))];
}

// `series`: [{ name, colour (of the style sheet), values: [number or null] }]; `times`: seconds since 1970.
// `binary`: the values are bytes, whose round numbers are powers of two.
export function Chart({ times, series, format, height = 180, label, binary = false }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const [ready, setReady] = useState(Plot !== null);
  const dark = isDark.value;
  const names = series.map((one) => one.name).join("|");

  useEffect(() => {
    let gone = false;
    if (!ready) coming.then(() => gone || setReady(true));
    return () => {
      gone = true;
    };
  }, []);

  useEffect(() => {
    if (!ready) return undefined;
    const node = box.current;
    const grid = { stroke: colour("chart-grid"), width: 1 };
    const axis = { stroke: colour("text-soft"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const made = new Plot(
      {
        width: node.clientWidth || 300,
        height,
        legend: { show: false },
        cursor: { y: false, points: { size: 7 }, drag: { setScale: false, x: false, y: false } },
        scales: { x: { time: true, range: timeRange }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.1] } },
        axes: [
          { ...axis, values: (_, splits) => splits.map((one) => (splits.at(-1) - splits[0] > DAY ? dayTime : clock)(one * 1000)), space: 90, size: 28 },
          { ...axis, values: (_, splits) => splits.map((one) => format(one)), size: widest, space: 34, ...(binary ? { incrs: BINARY } : {}) },
        ],
        series: [
          {},
          ...series.map((one) => ({
            stroke: colour(one.colour),
            fill: `${colour(one.colour)}1f`,
            width: 1.75,
            points: { show: false },
            spanGaps: false,
          })),
        ],
        hooks: { draw: [(one) => (node.dataset.begin = one.scales.x.min)], setCursor: [(one) => setAt(one.cursor.idx === null ? null : (one.data[0][one.cursor.idx] ?? null))] },
      },
      holed(times, series.map((one) => one.values)),
      node,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: node.clientWidth || 300, height }));
    watch.observe(node);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [ready, dark, names, height]);

  useEffect(() => {
    plot.current?.setData(holed(times, series.map((one) => one.values)));
  }, [times, series]);

  const found = at === null ? -1 : times.findIndex((one) => one >= at);
  const index = found < 0 ? times.length - 1 : found;
  const last = series.map((one) => one.values[index]);
  return html`<figure class="chart" aria-label=${label} data-points=${times.length} data-first=${times[0] ?? ""} data-last=${times.at(-1) ?? ""}>
    <div class="chart-legend">
      ${series.map(
        (one, order) =>
          html`<span key=${one.name} class="chart-name"
            ><i class=${`chart-key bg-${one.colour}`} aria-hidden="true"></i>${one.name}
            <b>${last[order] === null || last[order] === undefined ? "–" : format(last[order])}</b></span
          >`,
      )}
      <span class="chart-time">${times.length ? clock(times[index] * 1000) : t("chart.waiting")}</span>
    </div>
    <div class="chart-plot" ref=${box} style=${{ height: `${height}px` }}></div>
  </figure>`;
}
