// The overview of the cluster: totals, live rates with history, brokers, and the groups with the highest lag.
import { batch, html, useEffect, useState } from "../app/html.js";
import { get, listen } from "../app/api.js";
import { masterless } from "../app/brokers.js";
import { Chart } from "../app/chart.js";
import { bytes, durationMs, number, percent, rate, short } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Card, Empty, Health, Loaded, Meter, Page, Stat } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href } from "../app/router.js";
import { Table } from "../app/table.js";
import { Attention } from "./attention.js";
import { useProgress } from "./progress.js";
import { SpanSelect, spanOf } from "./spans.js";

const POINTS = 300;
const LOOKED_AT = 200; // groups
const FIGURES = ["putTps", "getTps", "putBytes"];

// The cluster's figures: history, then live values while the page is visible.
function useFigures(seconds) {
  const [points, setPoints] = useState({ times: [], columns: FIGURES.map(() => []) });
  const [now, setNow] = useState(null);
  const [live, setLive] = useState(false);
  const [error, setError] = useState(null);

  useEffect(() => {
    let left = false;
    const abort = new AbortController();
    const step = seconds / POINTS;
    let known = { times: [], columns: FIGURES.map(() => []) };

    async function load() {
      try {
        const end = Date.now();
        const query = { series: "cluster", beginMs: end - seconds * 1000, endMs: end, points: POINTS };
        const past = await get("/history", query, abort.signal);
        known = { times: past.atMs.map((one) => one / 1000), columns: FIGURES.map((name) => past.values[name] ?? past.atMs.map(() => null)) };
        if (!left) setPoints(known);
      } catch (problem) {
        if (!left) setError(problem);
      }
    }

    function take(figures) {
      const at = figures.atMs / 1000;
      setNow(figures);
      const last = known.times.at(-1) ?? 0;
      if (at <= last) return;
      // In a long time range, the newest point is updated until the next step begins.
      const follows = known.times.length < 2 || at - known.times.at(-2) >= step;
      const from = known.times.findIndex((one) => one >= at - seconds);
      const cut = (list, value) => [...(follows ? list.slice(from) : list.slice(from, -1)), value];
      known = { times: cut(known.times, at), columns: known.columns.map((list, order) => cut(list, figures[FIGURES[order]])) };
      setPoints(known);
    }

    let stop = () => {};
    load().then(() => {
      if (left) return;
      stop = listen("/events", {}, {
        open: () => batch(() => (setLive(true), setError(null))),
        lost: () => setLive(false),
        cluster: take,
      });
    });
    return () => {
      left = true;
      abort.abort();
      stop();
    };
  }, [seconds]);

  return { points, now, live, error };
}

export default function Overview({ query }) {
  const totals = useResource((abort) => get("/cluster", null, abort), [], 30000);
  const { points, now, live, error } = useFigures(spanOf(query));
  const groups = useProgress({ sort: "name" }, 0, Math.min(totals.data?.groups ?? 0, LOOKED_AT), 30000);
  const rules = useResource((abort) => get("/alerts/rules", null, abort), [], 30000);
  return html`<${Page}
    title=${t("nav.overview")}
    actions=${html`<${Badge} tone=${live ? "good" : "warn"}>${live ? t("live.on") : t("live.off")}<//>
      <${SpanSelect} query=${query} />`}
  >
    <${Loaded} from=${totals} lines=${2}>
      ${(data) => html`<${Totals} data=${data} now=${now} />`}
    <//>
    <${Attention} brokers=${now?.brokers ?? []} groups=${[...groups.values()]} rules=${rules.data ?? []} />
    <div class="cards">
      <${Card} title=${t("overview.rates")}>
        <${Chart}
          label=${t("overview.rates")}
          times=${points.times}
          format=${rate}
          series=${[
            { name: t("figure.put"), colour: "chart-1", values: points.columns[0] },
            { name: t("figure.get"), colour: "chart-2", values: points.columns[1] },
          ]}
        />
        ${error && html`<p class="faint">${error.message}</p>`}
      <//>
      <${Card} title=${t("overview.bytes")}>
        <${Chart}
          label=${t("overview.bytes")}
          times=${points.times}
          binary
          format=${bytes}
          series=${[{ name: t("figure.putBytes"), colour: "chart-3", values: points.columns[2] }]}
        />
      <//>
    </div>
    <${Brokers} now=${now} />
    <div class="cards">
      <${Behind} groups=${groups} />
      <${Dead} />
    </div>
  <//>`;
}

function Totals({ data, now }) {
  const orphans = masterless(now?.brokers ?? []).length;
  const wrong = [data.brokersDown && t("overview.down", { n: data.brokersDown }), orphans && t("bar.masterless", { n: orphans })];
  return html`<div class="stats">
    <${Stat}
      label=${t("figure.brokers")}
      value=${data.brokersDown ? `${data.brokers - data.brokersDown} / ${data.brokers}` : number(data.brokers)}
      tone=${data.brokersDown || orphans ? "bad" : undefined}
      note=${wrong.filter(Boolean).join(", ") || t("overview.up")}
      href="#/cluster"
    />
    <${Stat} label=${t("nav.topics")} value=${number(data.topics)} href="#/topics" />
    <${Stat} label=${t("nav.groups")} value=${number(data.groups)} href="#/groups" />
    <${Stat} label=${t("figure.putTps")} value=${rate(now?.putTps ?? data.putTps)} note=${t("figure.perSecond")} />
    <${Stat} label=${t("figure.getTps")} value=${rate(now?.getTps ?? data.getTps)} note=${t("figure.perSecond")} />
    <${Stat} label=${t("figure.putToday")} value=${short(data.putToday)} note=${t("figure.getToday", { n: short(data.getToday) })} />
    <${Stat} label=${t("figure.log")} value=${bytes(data.logBytes)} note=${t("figure.log.note")} />
  </div>`;
}

function Brokers({ now }) {
  const rows = now?.brokers ?? [];
  const columns = [
    { id: "name", title: t("column.broker"), cell: (one) => html`<${Health} well=${one.up}><a class="name" href=${href(["cluster", one.name])}>${one.name}</a><//>` },
    { id: "id", title: t("column.role"), cell: (one) => html`<${Badge}>${one.id === 0 ? t("role.master") : t("role.slave", { id: one.id })}<//>` },
    { id: "address", title: t("column.address"), hide: true, cell: (one) => html`<code>${one.address}</code>` },
    { id: "put", title: t("figure.put"), num: true, cell: (one) => rate(one.putTps) },
    { id: "get", title: t("figure.get"), num: true, cell: (one) => rate(one.getTps) },
    { id: "bytes", title: t("figure.putBytes"), num: true, hide: true, cell: (one) => bytes(one.putBytes) },
    { id: "log", title: t("figure.log"), num: true, hide: true, cell: (one) => bytes(one.logBytes) },
    { id: "disk", title: t("figure.disk"), num: true, cell: (one) => html`<${Meter} ratio=${one.diskRatio} label=${t("figure.disk")} /> ${percent(one.diskRatio)}` },
  ];
  return html`<${Card} title=${t("figure.brokers")} flush>
    ${rows.length ? html`<${Table} columns=${columns} rows=${rows} label=${t("figure.brokers")} rowKey=${(one) => one.address} rowPlace=${(one) => [["cluster", one.name]]} />` : html`<${Empty} icon="cluster" title=${t("chart.waiting")} />`}
  <//>`;
}

// The groups with the highest lag, among the first two hundred.
function Behind({ groups }) {
  const rows = [...groups.values()]
    .filter((one) => one.progress?.lag > 0)
    .sort((one, other) => other.progress.lag - one.progress.lag)
    .slice(0, 8);
  const columns = [
    { id: "name", title: t("column.group"), cell: (one) => html`<a class="name" href=${href(["groups", one.name])}>${one.name}</a>` },
    { id: "members", title: t("column.members"), num: true, cell: (one) => number(one.members) },
    { id: "lag", title: t("column.lag"), num: true, cell: (one) => number(one.progress.lag) },
    { id: "time", title: t("column.lagTime"), num: true, cell: (one) => durationMs(one.progress.lagMs) },
  ];
  return html`<${Card} title=${t("overview.behind")} flush>
    ${rows.length
      ? html`<${Table} columns=${columns} rows=${rows} label=${t("overview.behind")} rowKey=${(one) => one.name} rowPlace=${(one) => [["groups", one.name]]} />`
      : html`<${Empty} icon=${groups.size ? "check" : "groups"} title=${t(groups.size ? "overview.nobehind" : "chart.waiting")} />`}
  <//>`;
}

function Dead() {
  const dead = useResource((abort) => get("/dlq", { limit: 50 }, abort), [], 30000);
  const columns = [
    { id: "group", title: t("column.group"), cell: (one) => html`<a class="name" href=${href(["dlq", one.group])}>${one.group}</a>` },
    { id: "messages", title: t("column.dead"), num: true, cell: (one) => number(one.messages) },
  ];
  return html`<${Card} title=${t("overview.dead")} flush>
    <${Loaded} from=${dead}>
      ${(page) => {
        const rows = page.items.filter((one) => one.messages > 0).slice(0, 8);
        return rows.length
          ? html`<${Table} columns=${columns} rows=${rows} label=${t("overview.dead")} rowKey=${(one) => one.group} rowPlace=${(one) => [["dlq", one.group]]} />`
          : html`<${Empty} icon="check" title=${t("overview.nodead")} />`;
      }}
    <//>
  <//>`;
}
