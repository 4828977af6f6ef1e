// Connected clients; and one client: its groups, and the details that it reports.
import { html, useState } from "../app/html.js";
import { del, get, path } from "../app/api.js";
import { attempt, openDialog, toast } from "../app/dialog.js";
import { number, rate } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Field, Loaded, Page, Select, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { go, href, setQuery } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";

export default function Clients({ parts, query }) {
  return parts.length ? html`<${Client} key=${parts[0]} id=${parts[0]} group=${query.group} />` : html`<${List} query=${query} />`;
}

function Role({ role }) {
  return html`<${Badge} tone=${role === "consumer" ? "info" : "good"}>${t(`client.${role}`)}<//>`;
}

function groupLink(one) {
  return one.role === "consumer" ? html`<a href=${href(["groups", one.group])}>${one.group}</a>` : one.group;
}

function List({ query }) {
  const columns = [
    { id: "id", title: t("column.client"), sort: "clientId", cell: (one) => html`<a class="name mono" href=${href(["clients", one.clientId])}>${one.clientId}</a>` },
    { id: "role", title: t("column.role"), sort: "role", cell: (one) => html`<${Role} role=${one.role} />` },
    { id: "group", title: t("column.group"), sort: "group", cell: groupLink },
    { id: "address", title: t("column.address"), sort: "address", hide: true, cell: (one) => html`<code>${one.address}</code>` },
    { id: "language", title: t("column.language"), sort: "language", hide: true, cell: (one) => one.language },
    { id: "brokers", title: t("column.brokers"), num: true, hide: true, cell: (one) => html`<span title=${one.brokers.join(", ")}>${number(one.brokers.length)}</span>` },
    { id: "beat", title: t("column.lastBeat"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.lastBeatMs} relative />` },
  ];
  return html`<${Page} title=${t("nav.clients")}>
    <${Card} flush>
      <${RemoteTable}
        where="/clients"
        query=${{ role: query.role }}
        columns=${columns}
        defaultSort="clientId"
        label=${t("nav.clients")}
        filterText=${t("client.filter")}
        rowKey=${(one) => `${one.clientId} ${one.role} ${one.group}`}
        rowPlace=${(one) => [["clients", one.clientId]]}
        every=${10000}
        extra=${html`<${Select} aria-label=${t("column.role")} value=${query.role ?? ""} onChange=${(role) => setQuery({ role, from: "" })} options=${[["", t("client.all")], ["consumer", t("client.consumer")], ["producer", t("client.producer")]]} />`}
        empty=${html`<${Empty} icon="clients" title=${t("client.none")}>${t("client.none.text")}<//>`}
      />
    <//>
  <//>`;
}

function Client({ id, group }) {
  const groups = useResource((abort) => get(path`/clients/${id}`, null, abort), [id], 10000);
  const columns = [
    { id: "role", title: t("column.role"), cell: (one) => html`<${Role} role=${one.role} />` },
    { id: "group", title: t("column.group"), cell: groupLink },
    { id: "address", title: t("column.address"), cell: (one) => html`<code>${one.address}</code>` },
    { id: "language", title: t("column.language"), hide: true, cell: (one) => `${one.language} (${one.version})` },
    { id: "brokers", title: t("column.brokers"), hide: true, cell: (one) => one.brokers.join(", ") },
    { id: "beat", title: t("column.lastBeat"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.lastBeatMs} relative />` },
  ];
  async function end() {
    if (await openDialog(t("client.close"), (close) => html`<${CloseForm} id=${id} close=${close} />`)) go(["clients"]);
  }
  return html`<${Page}
    title=${id}
    crumbs=${[[t("nav.clients"), "#/clients"]]}
    actions=${groups.data && html`<${Button} needs="admin" kind="danger-plain" icon="stop" onClick=${end}>${t("client.close")}<//>`}
  >
    <${Loaded} from=${groups}>
      ${({ items: rows }) => {
        const consuming = rows.filter((one) => one.role === "consumer").map((one) => one.group);
        const asked = group && consuming.includes(group) ? group : consuming[0];
        return html`<${Card} title=${t("nav.groups")} flush>
            <${Table} columns=${columns} rows=${rows} label=${t("nav.groups")} rowKey=${(one) => `${one.role} ${one.group}`} />
          <//>
          ${consuming.length > 1 && html`<div><${Select} aria-label=${t("column.group")} value=${asked} options=${consuming.map((one) => [one, one])} onChange=${(one) => setQuery({ group: one })} /></div>`}
          ${asked && html`<${Member} key=${asked} group=${asked} id=${id} />`}`;
      }}
    <//>
  <//>`;
}

// The dialog that asks for a reason before it closes a client's connections.
function CloseForm({ id, close }) {
  const [reason, setReason] = useState("");
  async function submit(event) {
    event.preventDefault();
    const done = await attempt(async () => {
      const { connections, elsewhere } = await del(path`/clients/${id}`, { reason: reason.trim() });
      toast(tn("client.closed", connections.length));
      if (elsewhere.length) toast(t("client.closed.elsewhere", { brokers: elsewhere.join(", ") }), "bad");
    });
    if (done) close(true);
  }
  return html`<form class="form" onSubmit=${submit}>
    <p class="dialog-text">${t("client.close.text", { id })}</p>
    <${Field} label=${t("client.close.reason")} hint=${t("client.close.reason.hint")}>${(field) => html`<input ...${field} maxlength="300" autocomplete="off" value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} />`}<//>
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-danger">${t("client.close.action")}</button>
    </div>
  </form>`;
}

function Member({ group, id }) {
  const info = useResource((abort) => get(path`/groups/${group}/clients/${id}`, null, abort), [group, id], 10000);
  const topics = [
    { id: "topic", title: t("column.topic"), cell: (one) => html`<a class="name" href=${href(["topics", one.topic])}>${one.topic}</a>` },
    { id: "pullTps", title: t("client.pullTps"), num: true, cell: (one) => rate(one.pullTps) },
    { id: "pullMs", title: t("client.pullMs"), num: true, hide: true, cell: (one) => number(one.pullMs) },
    { id: "tps", title: t("client.consumeTps"), num: true, cell: (one) => rate(one.consumeTps) },
    { id: "ms", title: t("client.consumeMs"), num: true, hide: true, cell: (one) => number(one.consumeMs) },
    { id: "failed", title: t("client.failedTps"), num: true, cell: (one) => rate(one.failedTps) },
  ];
  const queues = [
    { id: "queue", title: t("column.queue"), cell: (one) => html`<span class="name">${one.topic}</span> <span class="soft">${one.broker} #${one.queueId}</span>` },
    { id: "offset", title: t("column.position"), num: true, cell: (one) => number(one.offset) },
    { id: "cached", title: t("client.cached"), num: true, cell: (one) => number(one.cached) },
    { id: "state", title: t("column.state"), hide: true, cell: (one) => html`<span class="badges">${one.locked && html`<${Badge} tone="info">${t("client.locked")}<//>`}${one.dropped && html`<${Badge} tone="bad">${t("client.dropped")}<//>`}</span>` },
    { id: "pulled", title: t("client.lastPull"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.lastPullMs} relative />` },
    { id: "consumed", title: t("client.lastConsume"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.lastConsumeMs} relative />` },
  ];
  const facts = [
    { id: "name", title: t("column.name"), cell: (one) => html`<code>${one[0]}</code>` },
    { id: "value", title: t("column.value"), cell: (one) => html`<code>${one[1]}</code>` },
  ];
  return html`<${Loaded} from=${info}>
    ${(one) => html`<${Card} title=${t("client.rates")} flush><${Table} columns=${topics} rows=${one.topics} label=${t("client.rates")} rowKey=${(row) => row.topic} /><//>
      <${Card} title=${t("column.queues")} flush><${Table} columns=${queues} rows=${one.queues} label=${t("column.queues")} rowKey=${(row) => `${row.topic} ${row.broker} ${row.queueId}`} /><//>
      <${Card} title=${t("client.properties")} flush><${Table} columns=${facts} rows=${Object.entries(one.properties).sort()} label=${t("client.properties")} rowKey=${(row) => row[0]} /><//>`}
  <//>`;
}
