// Consumer groups: the list, and one group with lag over time, members, offsets.
import { html, useMemo, useState } from "../app/html.js";
import { del, get, path } from "../app/api.js";
import { attempt, confirm, openDialog } from "../app/dialog.js";
import { ago, duration, durationMs, number, rate, short } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Badge, Button, Card, Check, Empty, LinkButton, Loaded, Page, Stat, Tabs, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { go, href, setQuery } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";
import { GroupDamage } from "./groupdamage.js";
import { GroupForm } from "./groupform.js";
import { Positions } from "./positions.js";
import { useProgress } from "./progress.js";
import { SeriesCard, Unsampled, useSeries } from "./series.js";
import { SpanSelect, spanOf } from "./spans.js";

export default function Groups({ parts, query }) {
  return parts.length
    ? html`<${Group} key=${parts[0]} name=${parts[0]} tab=${parts[1] ?? "lag"} query=${query} />`
    : html`<${List} query=${query} />`;
}

function create() {
  openDialog(t("group.new"), (close) => html`<${GroupForm} close=${(name) => (close(name), name && go(["groups", name]))} />`);
}

// Return the time until the lag is 0, as text.
function drain(progress) {
  if (!progress) return "–";
  if (progress.lag === 0) return t("lag.none");
  return progress.drainSeconds === null ? t("lag.never") : duration(progress.drainSeconds);
}

// A sentence about the messages that wait for a group at a missing broker.
function lostText(lost) {
  if (lost.messages === null) return t("group.lost.unknown", { broker: lost.broker });
  return tn("group.lost", lost.messages, { broker: lost.broker, ago: ago(lost.countedMs) });
}

function List({ query }) {
  const [page, setPage] = useState(null);
  const { q, sort = "name" } = query;
  const system = query.system === "yes";
  const from = Math.max(0, Number.parseInt(query.from ?? "0", 10) || 0);
  const known = useProgress({ q, sort, system }, from, page?.items.length ?? 0, 15000);
  const told = (one, draw) => (known.has(one.name) ? draw(known.get(one.name)) : html`<span class="faint">…</span>`);
  const columns = [
    { id: "name", title: t("column.group"), sort: "name", cell: (one) => html`<a class="name" href=${href(["groups", one.name])}>${one.name}</a> ${!one.consumeEnabled && html`<${Badge} tone="bad">${t("group.disabled")}<//>`}` },
    { id: "members", title: t("column.members"), sort: "members", num: true, cell: (one) => told(one, ({ members }) => (members === 0 ? html`<span class="faint">0</span>` : number(members))) },
    { id: "model", title: t("column.model"), hide: true, cell: (one) => told(one, ({ model }) => (model ? t(`model.${model.toLowerCase()}`) : html`<span class="faint">–</span>`)) },
    { id: "lag", title: t("column.lag"), sort: "lag", num: true, cell: (one) => told(one, ({ progress, unreachable }) => html`${number(progress?.lag)}${unreachable.map((lost) => html`<span key=${lost.broker} class="sub tone-bad nowrap" title=${lostText(lost)}>${lost.messages === null ? "+ ?" : `+ ${number(lost.messages)}`} ${t("group.lost.short", { broker: lost.broker })}</span>`)}`) },
    { id: "time", title: t("column.lagTime"), sort: "lagMs", num: true, hide: true, cell: (one) => told(one, ({ progress }) => durationMs(progress?.lagMs)) },
    { id: "tps", title: t("column.consumeRate"), sort: "consumeTps", num: true, hide: true, cell: (one) => told(one, ({ progress }) => rate(progress?.consumeTps)) },
    { id: "drain", title: t("column.drain"), num: true, hide: true, cell: (one) => told(one, ({ progress }) => drain(progress)) },
    { id: "retry", title: t("column.retryMax"), sort: "retryMax", num: true, hide: true, cell: (one) => number(one.retryMax) },
  ];
  return html`<${Page} title=${t("nav.groups")} actions=${html`<${Button} needs="admin" kind="primary" icon="plus" onClick=${create}>${t("group.new")}<//>`}>
    <${Card} flush>
      <${RemoteTable}
        where="/groups"
        query=${{ system }}
        extra=${html`<${Check} label=${t("group.system")} checked=${system} onChange=${(on) => setQuery({ system: on ? "yes" : "", from: "" })} />`}
        columns=${columns}
        defaultSort="name"
        label=${t("nav.groups")}
        filterText=${t("group.filter")}
        rowKey=${(one) => one.name}
        rowPlace=${(one) => [["groups", one.name]]}
        every=${15000}
        onLoaded=${setPage}
        empty=${html`<${Empty} icon="groups" title=${t("group.none")}>${t("group.none.text")}<//>`}
      />
    <//>
  <//>`;
}

function Group({ name, tab, query }) {
  const group = useResource((abort) => get(path`/groups/${name}`, null, abort), [name], 5000);
  const data = group.data;
  const tabs = ["lag", "members", "positions", "settings"].map((id) => [id, t(`group.tab.${id}`), href(["groups", name, id])]);
  function edit() {
    openDialog(t("group.edit", { name }), (close) => html`<${GroupForm} group=${data} close=${(done) => (close(done), done && group.reload())} />`);
  }
  async function remove() {
    const sure = await confirm({ title: t("group.delete"), text: t("group.delete.text", { name, n: data.members ?? 0 }), action: t("action.delete"), typed: name });
    if (sure && (await attempt(() => del(path`/groups/${name}`), t("group.deleted", { name })))) go(["groups"]);
  }
  return html`<${Page}
    title=${name}
    crumbs=${[[t("nav.groups"), "#/groups"]]}
    actions=${data &&
    html`<${LinkButton} icon="dlq" needs="read" href=${href(["dlq", name])}>${t("nav.dlq")}<//>
      <${LinkButton} icon="explain" needs="read" href=${href(["explain"], { group: name })}>${t("nav.explain")}<//>
      <${Button} needs="admin" icon="edit" onClick=${edit}>${t("action.edit")}<//>
      <${Button} needs="admin" kind="danger-plain" icon="trash" onClick=${remove}>${t("action.delete")}<//>`}
  >
    <${Loaded} from=${group}>
      ${(one) => html`<div class="stats">
          <${Stat} label=${t("column.lag")} value=${number(one.progress?.lag)} note=${t("lag.messages")} tone=${one.progress?.lag > 0 ? "warn" : "good"} />
          <${Stat} label=${t("column.lagTime")} value=${durationMs(one.progress?.lagMs)} note=${t("lag.time.note")} />
          <${Stat} label=${t("column.consumeRate")} value=${rate(one.progress?.consumeTps)} note=${t("figure.perSecond")} />
          <${Stat} label=${t("column.putRate")} value=${rate(one.progress?.putTps)} note=${t("figure.perSecond")} />
          <${Stat} label=${t("column.drain")} value=${drain(one.progress)} note=${t("lag.drain.note")} />
          ${one.progress?.removedUnread > 0 && html`<${Stat} label=${t("lag.removed")} value=${number(one.progress.removedUnread)} note=${t("lag.removed.note")} tone="bad" />`}
          <${Stat} label=${t("column.members")} value=${number(one.members)} note=${one.model ? t(`model.${one.model.toLowerCase()}`) : t("group.nomembers")} tone=${one.members ? undefined : "warn"} />
        </div>
        ${one.unreachable.map((lost) => html`<p key=${lost.broker} class="hint hint-bad" role="alert">${lostText(lost)}</p>`)}
        <${Tabs} tabs=${tabs} chosen=${tab} label=${name} />
        ${tab === "members" ? html`<${Members} group=${one} />` : tab === "positions" ? html`<${Positions} group=${one} onMoved=${group.reload} />` : tab === "settings" ? html`<${Settings} group=${one} />` : html`<${GroupDamage} name=${name} /><${Lag} name=${name} progress=${one.progress} query=${query} />`}`}
    <//>
  <//>`;
}

function Lag({ name, progress, query }) {
  const live = useMemo(() => {
    if (!progress) return [];
    const seconds = progress.lagMs === null ? null : progress.lagMs / 1000;
    return [{ at: Date.now() / 1000, values: { lag: progress.lag, lagSeconds: seconds, consumeTps: progress.consumeTps, putTps: progress.putTps } }];
  }, [progress]);
  const points = useSeries(`group:${name}`, spanOf(query), live);
  const behind = query.behind === "yes";
  const columns = [
    { id: "topic", title: t("column.topic"), cell: (one) => html`<a class="name" href=${href(["topics", one.topic])}>${one.topic}</a>` },
    { id: "queue", title: t("column.queue"), sort: "queue", cell: (one) => html`${one.broker} <span class="soft">#${one.queueId}</span>` },
    { id: "lag", title: t("column.lag"), sort: "lag", num: true, cell: (one) => html`<span class=${one.lag > 0 ? "tone-warn" : ""}>${number(one.lag)}</span>` },
    { id: "offset", title: t("column.position"), sort: "offset", num: true, hide: true, cell: (one) => number(one.offset) },
    { id: "max", title: t("column.maxOffset"), num: true, hide: true, cell: (one) => number(one.maxOffset) },
    { id: "time", title: t("column.lagTime"), sort: "lagMs", num: true, cell: (one) => durationMs(one.lagMs) },
    { id: "last", title: t("column.committedUpTo"), sort: "lastMs", num: true, hide: true, cell: (one) => html`<${Time} ms=${one.lastMs} relative />` },
    { id: "owner", title: t("column.owner"), hide: true, cell: (one) => (one.owner ? html`<a href=${href(["clients", one.owner])}><code>${one.owner}</code></a>` : html`<span class="faint">–</span>`) },
  ];
  return html`<${Unsampled} points=${points} kind="groups" />
    <div class="cards">
      <${SeriesCard} title=${t("lag.chart")} points=${points} format=${short} lines=${[["lag", t("column.lag"), "chart-3"]]} actions=${html`<${SpanSelect} query=${query} />`} />
      <${SeriesCard} title=${t("lag.chart.time")} points=${points} format=${duration} lines=${[["lagSeconds", t("column.lagTime"), "chart-4"]]} />
      <${SeriesCard} title=${t("lag.chart.rates")} points=${points} format=${rate} lines=${[["consumeTps", t("column.consumeRate"), "chart-2"], ["putTps", t("column.putRate"), "chart-1"]]} />
      <${Card} title=${t("lag.topics")} flush><${Topics} name=${name} /><//>
    </div>
    <${Card} title=${t("column.queues")} flush>
      <${RemoteTable}
        where=${path`/groups/${name}/lag`}
        query=${{ owners: true, behind }}
        columns=${columns}
        defaultSort="-lag"
        label=${t("column.queues")}
        filterText=${t("topic.filter")}
        rowKey=${(one) => `${one.topic} ${one.broker} ${one.queueId}`}
        every=${5000}
        extra=${html`<${Check} label=${t("lag.behind")} checked=${behind} onChange=${(on) => setQuery({ behind: on ? "yes" : "", from: "" })} />`}
      />
    <//>`;
}

function Topics({ name }) {
  const topics = useResource((abort) => get(path`/groups/${name}/topics`, { sort: "-lag", limit: 8 }, abort), [name], 10000);
  const columns = [
    { id: "topic", title: t("column.topic"), cell: (one) => html`<a class="name" href=${href(["topics", one.topic])}>${one.topic}</a>` },
    { id: "queues", title: t("column.queues"), num: true, cell: (one) => number(one.queues) },
    { id: "lag", title: t("column.lag"), num: true, cell: (one) => number(one.lag) },
    { id: "time", title: t("column.lagTime"), num: true, cell: (one) => durationMs(one.lagMs) },
    { id: "last", title: t("column.committedUpTo"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.lastMs} relative />` },
  ];
  return html`<${Loaded} from=${topics}>
    ${(page) =>
      page.items.length
        ? html`<${Table} columns=${columns} rows=${page.items} label=${t("lag.topics")} rowKey=${(one) => one.topic} />`
        : html`<${Empty} icon="topics" title=${t("lag.notopics")} />`}
  <//>`;
}

function Members({ group }) {
  const columns = [
    { id: "id", title: t("column.client"), sort: "clientId", cell: (one) => html`<a class="name mono" href=${href(["clients", one.clientId], { group: group.name })}>${one.clientId}</a>` },
    { id: "address", title: t("column.address"), sort: "address", cell: (one) => html`<code>${one.address}</code>` },
    { id: "language", title: t("column.language"), sort: "language", hide: true, cell: (one) => one.language },
    { id: "version", title: t("column.version"), num: true, hide: true, cell: (one) => one.version },
  ];
  const subscriptions = [
    { id: "topic", title: t("column.topic"), cell: (one) => html`<a class="name" href=${href(["topics", one.topic])}>${one.topic}</a>` },
    { id: "expression", title: t("column.expression"), cell: (one) => html`<code>${one.expression}</code>` },
    { id: "type", title: t("column.type"), cell: (one) => html`<${Badge}>${one.type}<//>` },
  ];
  return html`<${Card} title=${t("column.members")} flush>
      <${RemoteTable}
        where=${path`/groups/${group.name}/clients`}
        columns=${columns}
        defaultSort="clientId"
        label=${t("column.members")}
        rowKey=${(one) => one.clientId}
        rowPlace=${(one) => [["clients", one.clientId], { group: group.name }]}
        every=${5000}
        empty=${html`<${Empty} icon="clients" title=${t("group.nomembers")}>${t("group.nomembers.text")}<//>`}
      />
    <//>
    <${Card} title=${t("group.subscriptions")} flush>
      ${group.subscriptions.length
        ? html`<${Table} columns=${subscriptions} rows=${group.subscriptions} label=${t("group.subscriptions")} rowKey=${(one) => one.topic} />`
        : html`<${Empty} icon="topics" title=${t("group.nosubscriptions")} />`}
    <//>`;
}

function Settings({ group }) {
  const yes = (value) => (value ? t("yes") : t("no"));
  const columns = [
    { id: "broker", title: t("column.broker"), cell: (one) => html`<a class="name" href=${href(["cluster", one.broker])}>${one.broker}</a>` },
    { id: "enabled", title: t("group.enabled"), cell: (one) => html`<${Badge} tone=${one.consumeEnabled ? "good" : "bad"}>${yes(one.consumeEnabled)}<//>` },
    { id: "min", title: t("group.fromMin"), hide: true, cell: (one) => yes(one.fromMinEnabled) },
    { id: "broadcast", title: t("group.broadcast"), hide: true, cell: (one) => yes(one.broadcastEnabled) },
    { id: "retries", title: t("group.retryMax"), num: true, cell: (one) => number(one.retryMax) },
    { id: "retryQueues", title: t("group.retryQueues"), num: true, hide: true, cell: (one) => number(one.retryQueues) },
    { id: "notify", title: t("group.notify"), hide: true, cell: (one) => yes(one.notifyChanges) },
  ];
  return html`<${Card} flush><${Table} columns=${columns} rows=${group.settings} label=${t("group.tab.settings")} rowKey=${(one) => one.broker} /><//>`;
}
