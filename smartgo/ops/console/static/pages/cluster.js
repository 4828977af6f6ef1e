// The cluster: registries, brokers with their slaves; and the details of one broker.
import { html } from "../app/html.js";
import { del, get, may, path, post, put } from "../app/api.js";
import { askBrokers, departureText, lossText, missingText, orphan, ProcessBadge, processName, RefusalBadge, unwell } from "../app/brokers.js";
import { attempt, confirm, toast } from "../app/dialog.js";
import { bytes, duration, number, percent, rate, short } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Health, Loaded, Meter, Page, Stat, Tabs, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { go, href } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";
import { BrokerOverview } from "./broker.js";

export default function Cluster({ parts, query }) {
  return parts.length ? html`<${Broker} key=${parts[0]} name=${parts[0]} tab=${parts[1] ?? "overview"} query=${query} />` : html`<${Everything} />`;
}

function Everything() {
  const brokers = useResource(askBrokers, [], 5000);
  const registries = useResource((abort) => get("/registries", null, abort), [], 10000);
  return html`<${Page} title=${t("nav.cluster")}>
    <${Card} title=${t("cluster.registries")}>
      <${Loaded} from=${registries} lines=${1}>
        ${(rows) => html`<div class="nodes">
          ${rows.map(
            (one) => html`<div class=${`node ${one.up ? "" : "node-down"}`} key=${one.address}>
              <${Health} well=${one.up}><code>${one.address}</code> ${!one.up && html`<${Badge} tone="bad">${t("broker.process.missing")}<//>`}<//>
              <p class="sub">
                ${one.up ? t("cluster.registry.up", { n: number(one.brokers), ms: number(one.milliseconds) }) : one.error}
              </p>
            </div>`,
          )}
        </div>`}
      <//>
    <//>
    <${Loaded} from=${brokers} lines=${6}>
      ${(page) => (page.items.length ? clusters(page.items) : html`<${Card}><${Empty} icon="cluster" title=${t("cluster.none")}>${t("cluster.none.text")}<//><//>`)}
    <//>
  <//>`;
}

// Brokers by cluster, masters before their slaves.
function clusters(rows) {
  const found = new Map();
  for (const row of rows) {
    if (!found.has(row.cluster)) found.set(row.cluster, new Map());
    const names = found.get(row.cluster);
    if (!names.has(row.name)) names.set(row.name, []);
    names.get(row.name).push(row);
  }
  return [...found].map(
    ([cluster, names]) => html`<${Card} key=${cluster} title=${cluster} actions=${html`<span class="sub">${tn("cluster.count", names.size)}, ${tn("cluster.processes", [...names.values()].flat().length)}</span>`}>
      <div class="nodes">
        ${[...names].map(([name, members]) => members.sort((one, other) => one.id - other.id).map((one) => html`<${Node} key=${one.address} one=${one} />`))}
      </div>
    <//>`,
  );
}

function Node({ one }) {
  return html`<a class=${`node node-broker ${one.up ? "" : "node-down"}`} href=${href(["cluster", one.name])}>
    <div class="node-head">
      <${Health} well=${!unwell(one)}><b>${one.name}</b> <${ProcessBadge} one=${one} /><${RefusalBadge} one=${one} /><//>
      <${Badge} tone=${one.id === 0 ? "info" : "plain"}>${one.id === 0 ? t("role.master") : t("role.slave", { id: one.id })}<//>
    </div>
    <code class="sub">${one.address}</code>
    ${one.up
      ? html`<dl class="node-facts">
          <div><dt>${t("figure.put")}</dt><dd>${rate(one.putTps)}/s</dd></div>
          <div><dt>${t("figure.get")}</dt><dd>${rate(one.getTps)}/s</dd></div>
          <div><dt>${t("figure.log")}</dt><dd>${bytes(one.logBytes)}</dd></div>
          <div><dt>${t("figure.disk")}</dt><dd>${percent(one.diskRatio)}</dd></div>
          <div><dt>${t("cluster.version")}</dt><dd>${one.version ?? "–"}</dd></div>
          <div><dt>${t("cluster.uptime")}</dt><dd>${one.bootMs ? duration((Date.now() - one.bootMs) / 1000) : "–"}</dd></div>
          ${one.slaves.map((slave) => html`<div key=${slave.address}><dt>${t("cluster.slave")}</dt><dd title=${slave.address}>${behind(slave.behind)}</dd></div>`)}
          ${one.following && html`<div><dt>${t(`follow.${one.following.state}`)}</dt><dd>${orphan(one) ? t("cluster.orphan") : behind(one.following.behind)}</dd></div>`}
        </dl>
        ${one.following?.reason && html`<p class="sub tone-bad">${one.following.reason}</p>`}`
      : one.state === "missing"
        ? html`<p class="sub tone-bad">${t("broker.missing.since")} <${Time} ms=${one.lastSeenMs} relative />. ${missingText(one)}</p>`
        : html`<p class="sub tone-bad">${one.error}</p>`}
  </a>`;
}

function behind(size) {
  if (size === null) return "–";
  return size === 0 ? t("cluster.level") : t("cluster.behind", { size: bytes(size) });
}

const CLEANS = ["queues", "topics", "log"];

function Broker({ name, tab, query }) {
  const broker = useResource((abort) => get(path`/brokers/${name}`, null, abort), [name], 5000);
  const tabs = ["overview", "figures", ...(may("admin") ? ["config", "care"] : [])].map((id) => [id, t(`cluster.tab.${id}`), href(["cluster", name, id])]);
  return html`<${Page} title=${name} crumbs=${[[t("nav.cluster"), "#/cluster"]]}>
    <${Loaded} from=${broker}>
      ${(one) => html`<div class="stats">
          <${Stat} label=${t("cluster.state")} value=${t(stateKey(one))} tone=${one.brokerState === "up" ? "good" : "bad"} note=${one.address} />
          <${Stat} label=${t("figure.putTps")} value=${rate(one.putTps)} note=${t("figure.perSecond")} />
          <${Stat} label=${t("figure.getTps")} value=${rate(one.getTps)} note=${t("figure.perSecond")} />
          <${Stat} label=${t("figure.putToday")} value=${short(one.putToday)} note=${t("figure.getToday", { n: short(one.getToday) })} />
          <${Stat} label=${t("figure.log")} value=${bytes(one.logBytes)} note=${html`${t("cluster.oldest")} <${Time} ms=${one.earliestMs} relative />`} />
          <${Stat} label=${t("figure.disk")} value=${percent(one.diskRatio)} note=${html`<${Meter} ratio=${one.diskRatio ?? 0} label=${t("figure.disk")} />`} />
        </div>
        ${one.error && one.state !== "missing" && html`<p class="hint hint-bad">${one.error}</p>`}
        ${one.state === "missing" && leavingText(one) && html`<p class="hint hint-bad">${leavingText(one)}</p>`}
        ${one.unreachable && html`<p class="hint hint-bad" role="alert">${lossText(one.unreachable)}</p>`}
        ${(one.members.length > 1 || one.brokerState !== "up") && html`<${Members} broker=${one} done=${broker.reload} />`}
        <${Tabs} tabs=${tabs} chosen=${tab} label=${name} />
        ${tab === "config" ? html`<${BrokerConfig} name=${name} />` : tab === "care" ? html`<${Care} name=${name} />` : tab === "figures" ? html`<${Runtime} runtime=${one.runtime} />` : html`<${BrokerOverview} broker=${one} query=${query} />`}`}
    <//>
  <//>`;
}

// How a missing process left, and what goes on without it; what cannot be reached has a line of its own.
function leavingText(one) {
  return one.unreachable ? departureText(one) : missingText(one);
}

// The key of the state of a broker: a registered master that is silent is down, and not missing.
function stateKey(broker) {
  const silent = broker.brokerState === "missing" && broker.members.some((one) => one.state !== "missing");
  return silent ? "cluster.down" : `broker.state.${broker.brokerState}`;
}

// The master and the slaves of a broker; those that are missing can be taken out of service.
function Members({ broker, done }) {
  async function forget(one) {
    let found;
    if (!(await attempt(async () => (found = await del(path`/brokers/${one.name}`, { id: one.id, dryRun: true }))))) return;
    const lines = [t("broker.forget.text", { name: processName(one), address: one.address })];
    if (found.unreachable) lines.push(lossText(found.unreachable), t("broker.forget.view"));
    if (found.staying.length && !found.staying.some((stays) => stays.id === 0)) lines.push(t("broker.forget.stays", { names: found.staying.map(processName).join(", ") }));
    const sure = await confirm({ title: t("broker.forget"), text: lines.join(" "), action: t("broker.forget"), typed: one.name });
    if (!sure || !(await attempt(() => del(path`/brokers/${one.name}`, { id: one.id })))) return;
    toast(t("broker.forgotten", { name: processName(one) }));
    if (broker.members.length === 1) go(["cluster"]);
    else done();
  }
  const columns = [
    { id: "name", title: t("column.role"), cell: (one) => html`<${Health} well=${!unwell(one)}>${one.id === 0 ? t("role.master") : t("role.slave", { id: one.id })} <${ProcessBadge} one=${one} /><${RefusalBadge} one=${one} /><//>` },
    { id: "address", title: t("column.address"), cell: (one) => html`<code>${one.address}</code>` },
    { id: "seen", title: t("broker.seen"), cell: (one) => html`<${Time} ms=${one.lastSeenMs} relative />` },
    { id: "forget", title: "", tight: true, cell: (one) => one.state === "missing" && html`<${Button} needs="admin" small kind="danger-plain" onClick=${() => forget(one)}>${t("broker.forget")}<//>` },
  ];
  return html`<${Card} title=${t("broker.members")} flush>
    <${Table} columns=${columns} rows=${broker.members} label=${t("broker.members")} rowKey=${(one) => one.id} />
  <//>`;
}

function nameAndValue(sort) {
  return [
    { id: "name", title: t("column.name"), sort, cell: (one) => html`<code>${one.name}</code>` },
    { id: "value", title: t("column.value"), cell: (one) => html`<code>${one.value}</code>` },
  ];
}

function Runtime({ runtime }) {
  const rows = Object.entries(runtime)
    .map(([name, value]) => ({ name, value }))
    .sort((one, other) => one.name.localeCompare(other.name));
  return html`<${Card} flush><${Table} columns=${nameAndValue()} rows=${rows} label=${t("cluster.tab.figures")} rowKey=${(one) => one.name} /><//>`;
}

function BrokerConfig({ name }) {
  return html`<${Card} flush>
    <${RemoteTable} where=${path`/brokers/${name}/config`} columns=${nameAndValue("name")} defaultSort="name" label=${t("cluster.tab.config")} filterText=${t("config.filter")} rowKey=${(one) => one.name} />
  <//>`;
}

function Care({ name }) {
  async function writable(on) {
    if (!on && !(await confirm({ title: t("cluster.wipe"), text: t("cluster.wipe.text", { name }), action: t("cluster.wipe"), typed: name }))) return;
    await attempt(() => put(path`/brokers/${name}/writable`, { writable: on }), t(on ? "cluster.restored" : "cluster.wiped", { name }));
  }
  async function clean(what) {
    const sure = await confirm({ title: t(`cluster.clean.${what}`), text: t(`cluster.clean.${what}.text`), action: t("cluster.clean"), typed: what === "log" ? name : undefined });
    if (sure) await attempt(() => post(path`/brokers/${name}/clean`, { what }), t("cluster.cleaned"));
  }
  return html`<div class="cards">
    <${Card} title=${t("cluster.writes")}>
      <p class="soft">${t("cluster.writes.text")}</p>
      <div class="form-foot space-above">
        <${Button} kind="danger-plain" icon="pause" onClick=${() => writable(false)}>${t("cluster.wipe")}<//>
        <${Button} icon="play" onClick=${() => writable(true)}>${t("cluster.restore")}<//>
      </div>
    <//>
    <${Card} title=${t("cluster.clean.title")}>
      <dl class="care">
        ${CLEANS.map(
          (what) => html`<div key=${what}>
            <dt>${t(`cluster.clean.${what}`)}<p class="sub">${t(`cluster.clean.${what}.text`)}</p></dt>
            <dd><${Button} small onClick=${() => clean(what)}>${t("cluster.clean")}<//></dd>
          </div>`,
        )}
      </dl>
    <//>
  </div>`;
}
