// Topics: the list, and one topic.
import { html } from "../app/html.js";
import { del, get, path } from "../app/api.js";
import { attempt, confirm, openDialog } from "../app/dialog.js";
import { ago, duration, durationMs, number, rate, short } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Badge, Button, Card, Check, Code, Empty, Facts, LinkButton, Loaded, Page, Stat, Tabs, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { useRights } from "../app/rights.js";
import { go, href, setQuery } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";
import { emptyTopic } from "./emptying.js";
import { Newest } from "./newest.js";
import { SeriesCard, Unsampled, useSeries } from "./series.js";
import { SpanSelect, spanOf } from "./spans.js";
import { TopicForm } from "./topicform.js";

const KINDS = ["normal", "retry", "dead", "system"];
const TONES = { normal: "good", retry: "warn", dead: "bad", system: "plain" };

export default function Topics({ parts, query }) {
  return parts.length ? html`<${Topic} key=${parts[0]} name=${parts[0]} tab=${parts[1] ?? "messages"} query=${query} />` : html`<${List} query=${query} />`;
}

function Kind({ kind }) {
  return html`<${Badge} tone=${TONES[kind]}>${t(`kind.${kind}`)}<//>`;
}

function lostIn(topic) {
  const sum = (member) => topic.unreachable.reduce((total, one) => total + one[member], 0);
  return { messages: topic.unreachable.some((one) => one.messages === null) ? null : sum("messages"), queues: sum("queues") };
}

function lostText(lost) {
  const queues = number(lost.queues);
  return lost.messages === null ? t("topic.lost.unknown", { queues }) : tn("topic.lost", lost.messages, { queues });
}

// What of a topic cannot be reached, where that is anything.
function lostBadge(topic) {
  if (!topic.unreachable.length) return null;
  return html`<${Badge} tone="bad">${lostText(lostIn(topic))}<//>`;
}

function create() {
  openDialog(t("topic.new"), (close) => html`<${TopicForm} close=${(name) => (close(name), name && go(["topics", name]))} />`);
}

function List({ query }) {
  const kinds = query.kind ? query.kind.split(",") : ["normal"];
  const amounts = query.amounts !== "no";
  function toggle(kind, on) {
    const now = KINDS.filter((one) => (one === kind ? on : kinds.includes(one)));
    setQuery({ kind: (now.length ? now : ["normal"]).join(","), from: "" });
  }
  const columns = [
    { id: "name", title: t("column.topic"), sort: "name", cell: (one) => html`<a class="name" href=${href(["topics", one.name])}>${one.name}</a> ${lostBadge(one)}` },
    { id: "kind", title: t("column.kind"), sort: "kind", hide: true, cell: (one) => html`<${Kind} kind=${one.kind} />` },
    { id: "queues", title: t("column.queues"), sort: "writeQueues", num: true, cell: (one) => (one.readQueues === one.writeQueues ? number(one.readQueues) : t("topic.queues.both", { read: one.readQueues, write: one.writeQueues })) },
    { id: "perm", title: t("column.perm"), hide: true, cell: (one) => html`<span class="badges">${one.perm === "read-write" ? html`<span class="soft nowrap">${t("perm.read-write")}</span>` : html`<${Badge} tone="warn">${t(`perm.${one.perm}`)}<//>`}${one.order && html`<${Badge} tone="info">${t("topic.order")}<//>`}</span>` },
    { id: "brokers", title: t("column.brokers"), sort: "brokers", num: true, hide: true, cell: (one) => html`<span title=${one.brokers.join(", ")}>${number(one.brokers.length)}</span>` },
    { id: "messages", title: t("column.messages"), num: true, cell: (one) => number(one.amounts?.messages) },
    { id: "rate", title: t("column.putRate"), num: true, hide: true, cell: (one) => rate(one.amounts?.putTps) },
    { id: "last", title: t("column.lastMessage"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.amounts?.lastMs} relative />` },
  ];
  return html`<${Page}
    title=${t("nav.topics")}
    actions=${html`<${Button} needs="admin" kind="primary" icon="plus" onClick=${create}>${t("topic.new")}<//>`}
  >
    <${Card} flush>
      <${RemoteTable}
        where="/topics"
        query=${{ kind: kinds, amounts }}
        columns=${columns}
        defaultSort="name"
        label=${t("nav.topics")}
        filterText=${t("topic.filter")}
        rowKey=${(one) => one.name}
        rowPlace=${(one) => [["topics", one.name]]}
        every=${15000}
        extra=${html`<span class="checks" role="group" aria-label=${t("column.kind")}>
          ${KINDS.map((kind) => html`<${Check} key=${kind} label=${t(`kind.${kind}`)} checked=${kinds.includes(kind)} onChange=${(on) => toggle(kind, on)} />`)}
        </span>`}
        empty=${html`<${Empty} icon="topics" title=${t("topic.none")}>${t("topic.none.text")}<//>`}
      />
    <//>
  <//>`;
}

function Topic({ name, tab, query }) {
  const topic = useResource((abort) => get(path`/topics/${name}`, null, abort), [name], 10000);
  const data = topic.data;
  const refused = useRights({ topic: name });
  const tabs = ["messages", "queues", "groups", "charts", "route", "settings"].map((id) => [id, t(`topic.tab.${id}`), href(["topics", name, id])]);

  function edit() {
    openDialog(t("topic.edit", { name }), (close) => html`<${TopicForm} topic=${data} close=${(done) => (close(done), done && topic.reload())} />`);
  }
  async function remove() {
    const sure = await confirm({ title: t("topic.delete"), text: t("topic.delete.text", { name, n: number(data.amounts?.messages) }), action: t("action.delete"), typed: name });
    if (sure && (await attempt(() => del(path`/topics/${name}`), t("topic.deleted", { name })))) go(["topics"]);
  }
  const own = data && (data.kind === "normal" || data.kind === "retry" || data.kind === "dead");
  return html`<${Page}
    title=${name}
    crumbs=${[[t("nav.topics"), href(["topics"])]]}
    actions=${data &&
    html`<${LinkButton} icon="search" refused=${refused("GET", "/messages")} href=${href(["messages"], { topic: name })}>${t("nav.messages")}<//>
      <${LinkButton} icon="tail" refused=${refused("GET", "/tail")} href=${href(["tail"], { topic: name })}>${t("nav.tail")}<//>
      ${data.kind === "normal" && html`<${LinkButton} needs="publish" refused=${refused("POST", "/send")} icon="send" href=${href(["send"], { topic: name })}>${t("nav.send")}<//>`}
      <${Button} needs="admin" icon="edit" onClick=${edit}>${t("action.edit")}<//>
      ${(data.kind === "normal" || data.kind === "dead") && html`<${Button} needs="admin" icon="right" onClick=${() => emptyTopic(name).then(topic.reload)}>${t("topic.empty")}<//>`}
      ${own && html`<${Button} needs="admin" kind="danger-plain" icon="trash" onClick=${remove}>${t("action.delete")}<//>`}`}
  >
    <${Loaded} from=${topic}>
      ${(one) => html`<div class="stats">
          <${Stat} label=${t("column.messages")} value=${number(one.amounts?.messages)} />
          <${Stat} label=${t("column.putRate")} value=${rate(one.amounts?.putTps)} note=${t("figure.perSecond")} />
          <${Stat} label=${t("column.lastMessage")} value=${one.amounts?.lastMs ? ago(one.amounts.lastMs) : "–"} />
          <${Stat} label=${t("column.queues")} value=${one.readQueues === one.writeQueues ? one.readQueues : `${one.readQueues} / ${one.writeQueues}`} note=${t(`perm.${one.perm}`)} />
          <${Stat} label=${t("column.brokers")} value=${one.brokers.length} note=${t(`kind.${one.kind}`)} />
        </div>
        ${one.unreachable.map((lost) => html`<p key=${lost.broker} class="hint hint-bad" role="alert">${t("topic.lost.at", { broker: lost.broker })} ${lostText(lost)}</p>`)}
        <${Tabs} tabs=${tabs} chosen=${tab} label=${name} />
        ${draw(tab, one, query)}`}
    <//>
  <//>`;
}

function draw(tab, topic, query) {
  const { name } = topic;
  if (tab === "queues") return html`<${Queues} name=${name} />`;
  if (tab === "groups") return html`<${Readers} name=${name} />`;
  if (tab === "charts") return html`<${Charts} name=${name} query=${query} />`;
  if (tab === "route") return html`<${Route} name=${name} />`;
  if (tab === "settings") return html`<${Settings} topic=${topic} />`;
  return html`<${Newest} topic=${topic} />`;
}

function Charts({ name, query }) {
  const points = useSeries(`topic:${name}`, spanOf(query));
  return html`<${Unsampled} points=${points} kind="topics" />
    <div class="cards">
      <${SeriesCard} title=${t("topic.chart.rate")} points=${points} format=${rate} lines=${[["putTps", t("column.putRate"), "chart-1"]]} actions=${html`<${SpanSelect} query=${query} />`} />
      <${SeriesCard} title=${t("topic.chart.lag")} points=${points} format=${short} lines=${[["lag", t("column.lag"), "chart-3"]]} />
      <${SeriesCard} title=${t("topic.chart.time")} points=${points} format=${duration} lines=${[["lagSeconds", t("column.lagTime"), "chart-4"]]} />
    </div>`;
}

function Queues({ name }) {
  const columns = [
    { id: "queue", title: t("column.queue"), sort: "queue", cell: (one) => html`<span class="name">${one.broker}</span> <span class="soft">#${one.queueId}</span>` },
    { id: "min", title: t("column.minOffset"), num: true, hide: true, cell: (one) => number(one.minOffset) },
    { id: "max", title: t("column.maxOffset"), num: true, sort: "maxOffset", cell: (one) => number(one.maxOffset) },
    { id: "messages", title: t("column.messages"), num: true, sort: "messages", cell: (one) => number(one.messages) },
    { id: "first", title: t("column.retained"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.firstMs} relative />` },
    { id: "last", title: t("column.lastMessage"), num: true, sort: "lastMs", cell: (one) => html`<${Time} ms=${one.lastMs} relative />` },
    { id: "look", title: "", tight: true, cell: (one) => one.messages > 0 && html`<a href=${href(["messages"], { topic: name, broker: one.broker, queue: one.queueId, offset: one.maxOffset - 1 })}>${t("topic.look")}</a>` },
  ];
  return html`<${Card} flush>
    <${RemoteTable} where=${path`/topics/${name}/queues`} query=${{ ages: true }} columns=${columns} defaultSort="queue" label=${t("topic.tab.queues")} every=${10000} rowKey=${(one) => `${one.broker} ${one.queueId}`} />
  <//>`;
}

function Readers({ name }) {
  const columns = [
    { id: "group", title: t("column.group"), sort: "group", cell: (one) => html`<a class="name" href=${href(["groups", one.group])}>${one.group}</a>` },
    { id: "members", title: t("column.members"), num: true, cell: (one) => number(one.members) },
    { id: "lag", title: t("column.lag"), sort: "lag", num: true, cell: (one) => html`<span class=${one.lag > 0 ? "tone-warn" : ""}>${number(one.lag)}</span>` },
    { id: "time", title: t("column.lagTime"), sort: "lagMs", num: true, cell: (one) => durationMs(one.lagMs) },
    { id: "last", title: t("column.committedUpTo"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.lastMs} relative />` },
    { id: "queues", title: t("column.queues"), num: true, hide: true, cell: (one) => number(one.queues) },
  ];
  return html`<${Card} flush>
    <${RemoteTable}
      where=${path`/topics/${name}/lag`}
      columns=${columns}
      defaultSort="group"
      label=${t("nav.groups")}
      filterText=${t("group.filter")}
      every=${10000}
      rowKey=${(one) => one.group}
      rowPlace=${(one) => [["groups", one.group]]}
      empty=${html`<${Empty} icon="groups" title=${t("topic.noreaders")}>${t("topic.noreaders.text")}<//>`}
    />
  <//>`;
}

function Route({ name }) {
  const route = useResource((abort) => get(path`/topics/${name}/route`, null, abort), [name]);
  return html`<${Loaded} from=${route}>
    ${(found) => html`<div class="cards">
      ${found.brokers.map((broker) => {
        const queues = found.queues.find((one) => one.broker === broker.name);
        return html`<${Card} key=${broker.name} title=${broker.name}>
          <${Facts}
            rows=${[
              [t("column.cluster"), broker.cluster],
              queues && [t("column.queues"), t("topic.queues.both", { read: queues.readQueues, write: queues.writeQueues })],
              queues && [t("column.perm"), t(`perm.${queues.perm}`)],
              ...Object.entries(broker.addresses).map(([id, address]) => [id === "0" ? t("role.master") : t("role.slave", { id }), html`<${Code} copy>${address}<//>`]),
            ]}
          />
        <//>`;
      })}
      ${found.order && html`<${Card} title=${t("topic.orderconf")}><code>${found.order}</code><//>`}
    </div>`}
  <//>`;
}

function Settings({ topic }) {
  const columns = [
    { id: "broker", title: t("column.broker"), cell: (one) => html`<a class="name" href=${href(["cluster", one.broker])}>${one.broker}</a>` },
    { id: "read", title: t("topic.readQueues"), num: true, cell: (one) => one.readQueues },
    { id: "write", title: t("topic.writeQueues"), num: true, cell: (one) => one.writeQueues },
    { id: "perm", title: t("column.perm"), cell: (one) => t(`perm.${one.perm}`) },
    { id: "order", title: t("topic.order"), cell: (one) => (one.order ? t("yes") : t("no")) },
    { id: "filter", title: t("topic.filterType"), hide: true, cell: (one) => html`<code>${one.filterType}</code>` },
    { id: "attributes", title: t("topic.attributes"), hide: true, cell: (one) => html`<code>${Object.entries(one.attributes).map((pair) => pair.join("=")).join(", ") || "–"}</code>` },
  ];
  return html`<${Card} flush><${Table} columns=${columns} rows=${topic.settings} label=${t("topic.tab.settings")} rowKey=${(one) => one.broker} /><//>`;
}
