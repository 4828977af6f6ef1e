// The overview of the cluster: totals, live rates with history, brokers, and the groups with the highest lag.
import { batch, html, useEffect, useState } from "../app/html.js";
import { get, listen } from "../app/api.js";
import { askBrokers, lossText, masterless, ProcessBadge, RefusalBadge, unwell } from "../app/brokers.js";
import { bytes, durationMs, number, percent, rate, short } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Card, Empty, Health, Loaded, Meter, Page, Stat } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href } from "../app/router.js";
import { Table } from "../app/table.js";
import { Attention } from "./attention.js";
import { useProgress } from "./progress.js";
import { SeriesCard, useSeries } from "./series.js";
import { SpanSelect, spanOf } from "./spans.js";

const LOOKED_AT = 200; // groups
const KEPT = 60; // live figures, one a second

// The latest figures of the cluster while the page is visible, and those that are newer than a chart's last point.
function useLive() {
  const [now, setNow] = useState(null);
  const [live, setLive] = useState(false);
  const [fresh, setFresh] = useState([]);
  useEffect(
    () =>
      listen("/events", {}, {
        open: () => setLive(true),
        lost: () => setLive(false),
        cluster: (figures) =>
          batch(() => {
            setNow(figures);
            setFresh((before) => [...before.slice(-KEPT), { at: figures.atMs / 1000, values: figures }]);
          }),
      }),
    [],
  );
  return { now, live, fresh };
}

export default function Overview({ query }) {
  const totals = useResource((abort) => get("/cluster", null, abort), [], 30000);
  const { now, live, fresh } = useLive();
  const points = useSeries("cluster", spanOf(query), fresh);
  const groups = useProgress({ sort: "name", system: false }, 0, Math.min(totals.data?.applicationGroups ?? 0, LOOKED_AT), 30000);
  const rules = useResource((abort) => get("/alerts/rules", null, abort), [], 30000);
  const brokers = useResource(askBrokers, [], 5000);
  const registries = useResource((abort) => get("/registries", null, abort), [], 10000);
  return html`<${Page}
    title=${t("nav.overview")}
    actions=${html`<${Badge} tone=${live ? "good" : "warn"}>${live ? t("live.on") : t("live.off")}<//>
      <${SpanSelect} query=${query} />`}
  >
    <${Loaded} from=${totals} lines=${2}>
      ${(data) => html`<${Totals} data=${data} now=${now} />`}
    <//>
    <${Attention} brokers=${brokers.data?.items ?? []} registries=${registries.data ?? []} groups=${[...groups.values()]} rules=${rules.data ?? []} />
    <div class="cards">
      <${SeriesCard} title=${t("overview.rates")} points=${points} format=${rate} lines=${[["putTps", t("figure.put"), "chart-1"], ["getTps", t("figure.get"), "chart-2"]]} />
      <${SeriesCard} title=${t("overview.bytes")} points=${points} binary format=${bytes} lines=${[["putBytes", t("figure.putBytes"), "chart-3"]]} />
    </div>
    <${Brokers} now=${now} />
    <div class="cards">
      <${Behind} groups=${groups} count=${totals.data?.applicationGroups} />
      <${Dead} />
    </div>
  <//>`;
}

function Totals({ data, now }) {
  const orphans = masterless(now?.brokers ?? []).length;
  const silent = data.brokersDown - data.brokersMissing;
  const wrong = [
    data.brokersMissing && t("overview.missing", { n: data.brokersMissing }),
    silent && t("overview.down", { n: silent }),
    orphans && t("bar.masterless", { n: orphans }),
    lossText(data.unreachable),
  ];
  // Masters alone store; slaves deliver, too.
  const masters = data.uncounted.filter((one) => !one.includes("#"));
  const noted = (words, names) => (names.length ? `${words}, ${t("overview.without", { names: names.join(", ") })}` : words);
  return html`<div class="stats">
    <${Stat}
      label=${t("overview.processes")}
      value=${data.brokersDown ? `${data.brokers - data.brokersDown} / ${data.brokers}` : number(data.brokers)}
      tone=${data.brokersDown || orphans ? "bad" : undefined}
      note=${wrong.filter(Boolean).join(", ") || t("overview.up")}
      href="#/cluster"
    />
    <${Stat} label=${t("nav.topics")} value=${number(data.applicationTopics)} href="#/topics" />
    <${Stat} label=${t("nav.groups")} value=${number(data.applicationGroups)} href="#/groups" />
    <${Stat} label=${t("figure.putTps")} value=${rate(now?.putTps ?? data.putTps)} note=${noted(t("figure.perSecond"), masters)} />
    <${Stat} label=${t("figure.getTps")} value=${rate(now?.getTps ?? data.getTps)} note=${noted(t("figure.perSecond"), data.uncounted)} />
    <${Stat} label=${t("figure.putToday")} value=${short(data.putToday)} note=${noted(t("figure.getToday", { n: short(data.getToday) }), data.uncounted)} />
    <${Stat} label=${t("figure.log")} value=${bytes(data.logBytes)} note=${noted(t("figure.log.note"), masters)} />
  </div>`;
}

function Brokers({ now }) {
  const rows = now?.brokers ?? [];
  const columns = [
    { id: "name", title: t("column.broker"), cell: (one) => html`<${Health} well=${!unwell(one)}><a class="name" href=${href(["cluster", one.name])}>${one.name}</a> <${ProcessBadge} one=${one} /><${RefusalBadge} one=${one} /><//>` },
    { id: "id", title: t("column.role"), cell: (one) => html`<${Badge}>${one.id === 0 ? t("role.master") : t("role.slave", { id: one.id })}<//>` },
    { id: "address", title: t("column.address"), hide: true, cell: (one) => html`<code>${one.address}</code>` },
    { id: "put", title: t("figure.put"), num: true, cell: (one) => one.up ? rate(one.putTps) : "–" },
    { id: "get", title: t("figure.get"), num: true, cell: (one) => one.up ? rate(one.getTps) : "–" },
    { id: "bytes", title: t("figure.putBytes"), num: true, hide: true, cell: (one) => one.up ? bytes(one.putBytes) : "–" },
    { id: "log", title: t("figure.log"), num: true, hide: true, cell: (one) => one.up ? bytes(one.logBytes) : "–" },
    { id: "disk", title: t("figure.disk"), num: true, cell: (one) => (one.up ? html`<${Meter} ratio=${one.diskRatio} label=${t("figure.disk")} /> ${percent(one.diskRatio)}` : "–") },
  ];
  return html`<${Card} title=${t("figure.brokers")} flush>
    ${rows.length ? html`<${Table} columns=${columns} rows=${rows} label=${t("figure.brokers")} rowKey=${(one) => one.address} rowPlace=${(one) => [["cluster", one.name]]} />` : html`<${Empty} icon="cluster" title=${t("chart.waiting")} />`}
  <//>`;
}

// The groups with the highest lag, among the first two hundred.
function Behind({ groups, count }) {
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
  const known = groups.size > 0 || count === 0;
  return html`<${Card} title=${t("overview.behind")} flush>
    ${rows.length
      ? html`<${Table} columns=${columns} rows=${rows} label=${t("overview.behind")} rowKey=${(one) => one.name} rowPlace=${(one) => [["groups", one.name]]} />`
      : html`<${Empty} icon=${known ? "check" : "groups"} title=${t(known ? "overview.nobehind" : "chart.waiting")} />`}
  <//>`;
}

function Dead() {
  const dead = useResource((abort) => get("/dlq", { limit: 50 }, abort), [], 30000);
  const columns = [
    { id: "group", title: t("column.group"), cell: (one) => html`<a class="name" href=${href(["dlq", one.group])}>${one.group}</a>` },
    { id: "messages", title: t("dlq.open.column"), num: true, cell: (one) => html`<span class=${one.open ? "tone-bad" : "faint"}>${number(one.open)}</span> <span class="sub">/ ${number(one.messages)}</span>` },
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
