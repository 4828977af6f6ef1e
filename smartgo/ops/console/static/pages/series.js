// Charts of time series: what the server recorded, and one live point after it.
import { html, useMemo } from "../app/html.js";
import { get } from "../app/api.js";
import { Chart } from "../app/chart.js";
import { number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Card } from "../app/parts.js";
import { useResource } from "../app/resource.js";

const POINTS = 300;
const EVERY = 10000; // ms; the server samples brokers that often

// A time series of the last `seconds`: { times, values (by figure), sampled, error }.
// `live`: [{ at (s), values }]: figures newer than the last recorded point become one more point, their mean, so that
// no point of the chart is finer than the others.
export function useSeries(series, seconds, live = []) {
  const ask = (abort) => {
    const end = Date.now();
    return get("/history", { series, beginMs: end - seconds * 1000, endMs: end, points: POINTS }, abort);
  };
  const { data, error } = useResource(ask, [series, seconds], Math.max(EVERY, (seconds * 1000) / POINTS));
  return useMemo(() => {
    const past = data ?? { atMs: [], values: {}, sampled: true };
    const times = past.atMs.map((one) => one / 1000);
    const fresh = live.filter((one) => one.at > (times.at(-1) ?? 0));
    const known = Object.keys(past.values).length ? past.values : Object.fromEntries(Object.keys(fresh[0]?.values ?? {}).map((name) => [name, []]));
    if (!fresh.length) return { times, values: known, sampled: past.sampled, error };
    const mean = (name) => {
      const found = fresh.map((one) => one.values[name]).filter((one) => one !== null && one !== undefined);
      return found.length ? found.reduce((sum, one) => sum + one, 0) / found.length : null;
    };
    const values = Object.fromEntries(Object.entries(known).map(([name, list]) => [name, [...list, mean(name)]]));
    return { times: [...times, fresh.at(-1).at], values, sampled: past.sampled, error };
  }, [data, error, live]);
}

// A card with one chart; `lines`: [[figure, name, colour]].
export function SeriesCard({ title, points, lines, format, binary, actions }) {
  const series = useMemo(
    () => lines.map(([figure, name, colour]) => ({ name, colour, values: points.values[figure] ?? points.times.map(() => null) })),
    [points, ...lines.map((one) => one[1])],
  );
  return html`<${Card} title=${title} actions=${actions}>
    <${Chart} label=${title} times=${points.times} series=${series} format=${format} binary=${binary} />
    ${points.error && html`<p class="faint">${points.error.message}</p>`}
  <//>`;
}

// Say why a group or topic (`kind`) has no points: only the most active ones are sampled.
export function Unsampled({ points, kind }) {
  const coverage = useResource((abort) => (points.sampled ? Promise.resolve(null) : get("/history/coverage", null, abort)), [points.sampled]);
  const found = coverage.data?.[kind];
  if (points.sampled || !found || found.sampled >= found.known) return null;
  return html`<p class="hint" role="status" data-test="unsampled">
    ${t(`chart.unsampled.${kind}`, { sampled: number(found.sampled), known: number(found.known) })}
  </p>`;
}
