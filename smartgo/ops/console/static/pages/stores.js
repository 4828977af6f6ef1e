// The stores of brokers: the list, and one store with its log, disk, retention, damage, scrub, backups and timed messages.
import { html, useEffect, useState } from "../app/html.js";
import { get, path, post } from "../app/api.js";
import { attempt, confirm } from "../app/dialog.js";
import { ProcessBadge, RefusalBadge } from "../app/brokers.js";
import { bytes, clock, duration, number, percent, time } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Facts, Loaded, Meter, Page, Progress, Stat, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";
import { Backups } from "./backups.js";
import { Damage, Scrub } from "./integrity.js";

const AT_ONCE = 4; // requests
const EVERY = 15000;

export default function Stores({ parts }) {
  const id = Number(parts[1] ?? 0);
  return parts.length ? html`<${Store} key=${`${parts[0]} ${id}`} name=${parts[0]} id=${id} />` : html`<${List} />`;
}

const keyOf = (one) => `${one.name} ${one.id}`;

// The stores of some brokers, by broker and id: what the API answers, or the error. Loaded a few at a time.
function useStores(brokers) {
  const [stores, setStores] = useState(() => new Map());
  useEffect(() => {
    let left = false;
    const abort = new AbortController();
    const waiting = brokers.filter((one) => one.up);
    async function work() {
      for (let one = waiting.shift(); one && !left; one = waiting.shift()) {
        let found;
        try {
          found = await get(path`/brokers/${one.name}/store`, { id: one.id }, abort.signal);
        } catch (error) {
          found = error;
        }
        if (!left) setStores((before) => new Map(before).set(keyOf(one), found));
      }
    }
    for (let number = 0; number < AT_ONCE; number += 1) work();
    return () => {
      left = true;
      abort.abort();
    };
  }, [brokers]);
  return stores;
}

function List() {
  const [brokers, setBrokers] = useState([]);
  const stores = useStores(brokers);
  // A cell of what the store of a broker tells.
  function told(one, draw) {
    if (!one.up) return html`<span class="faint">–</span>`;
    const found = stores.get(keyOf(one));
    if (!found) return html`<span class="faint">…</span>`;
    if (found instanceof Error) return html`<span class="faint" title=${found.message}>${t("store.untold")}</span>`;
    return draw(found);
  }
  const columns = [
    { id: "name", title: t("column.broker"), sort: "name", cell: (one) => html`<a class="name" href=${href(["stores", one.name, String(one.id)])}>${one.name}</a> <${ProcessBadge} one=${one} /><${RefusalBadge} one=${one} />` },
    { id: "id", title: t("column.role"), cell: (one) => html`<${Badge}>${one.id === 0 ? t("role.master") : t("role.slave", { id: one.id })}<//>` },
    { id: "log", title: t("figure.log"), sort: "logBytes", num: true, cell: (one) => bytes(one.logBytes) },
    { id: "oldest", title: t("store.oldest"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.earliestMs} relative />` },
    { id: "disk", title: t("figure.disk"), sort: "diskRatio", num: true, cell: (one) => percent(one.diskRatio) },
    { id: "damage", title: t("store.damaged"), num: true, cell: (one) => told(one, (found) => html`<span class=${found.integrity.regions ? "tone-bad" : ""}>${number(found.integrity.regions)}</span>`) },
    { id: "scrub", title: t("store.scrub"), hide: true, cell: (one) => told(one, (found) => (found.integrity.scrub.running ? html`<${Badge} tone="info">${t("store.scrub.running")}<//>` : html`<${Time} ms=${found.integrity.scrub.lastEndedMs} relative />`)) },
    { id: "removed", title: t("store.removed"), hide: true, num: true, cell: (one) => told(one, (found) => html`<${Time} ms=${found.retention.lastMs} relative />`) },
    { id: "timed", title: t("store.timed"), hide: true, num: true, cell: (one) => told(one, (found) => number(found.timers?.waiting)) },
  ];
  return html`<${Page} title=${t("nav.stores")} about=${t("store.about")}>
    <${Recovery} />
    <${Card} flush>
      <${RemoteTable}
        where="/brokers"
        columns=${columns}
        defaultSort="name"
        label=${t("nav.stores")}
        rowKey=${(one) => one.address}
        rowPlace=${(one) => [["stores", one.name, String(one.id)]]}
        every=${EVERY}
        onLoaded=${(page) => setBrokers(page.items)}
        empty=${html`<${Empty} icon="cluster" title=${t("cluster.none")}>${t("cluster.none.text")}<//>`}
      />
    <//>
  <//>`;
}

// How far the broker of this process has come in reading its log, while it starts.
function Recovery() {
  const figures = useResource((abort) => get("/process", null, abort), [], 2000);
  const now = figures.data;
  if (!now?.recoveryTotalBytes) return null;
  const left = now.recoverySecondsLeft;
  return html`<${Card} title=${t("recovery.title")}>
    <${Progress} done=${now.recoveryReadBytes} total=${now.recoveryTotalBytes} />
    <p class="sub" role="status">
      ${t("recovery.text", { done: bytes(now.recoveryReadBytes), total: bytes(now.recoveryTotalBytes), percent: percent(now.recoveryReadBytes / now.recoveryTotalBytes) })}
      ${" "}${left >= 0 ? t("recovery.left", { duration: duration(left) }) : t("recovery.unknown")}
    </p>
  <//>`;
}

function Store({ name, id }) {
  const store = useResource((abort) => get(path`/brokers/${name}/store`, { id }, abort), [name, id], 3000);
  return html`<${Page} title=${name} about=${id ? t("role.slave", { id }) : t("role.master")} crumbs=${[[t("nav.stores"), "#/stores"]]}>
    <${Recovery} />
    <${Loaded} from=${store} lines=${8}>
      ${(one) => html`<div class="stats">
          <${Stat} label=${t("figure.log")} value=${bytes(one.log.end - one.log.begin)} note=${tn("store.files", one.log.files)} />
          <${Stat} label=${t("store.oldest")} value=${html`<${Time} ms=${one.log.earliestMs} relative />`} />
          <${Stat} label=${t("figure.disk")} value=${percent(used(one.disk))} note=${html`<${Meter} ratio=${used(one.disk)} label=${t("figure.disk")} />`} />
          <${Stat} label=${t("store.damaged")} value=${number(one.integrity.regions)} tone=${one.integrity.regions ? "bad" : undefined} note=${bytes(one.integrity.bytes)} />
          ${one.timers && html`<${Stat} label=${t("store.timed")} value=${waiting(one.timers)} note=${one.timers.nextMs ? html`${t("timed.next")}: <${Due} timers=${one.timers} />` : one.timers.ready && t("timed.none")} />`}
        </div>
        ${one.refusal && html`<p class="hint hint-warn" role="alert" data-test="refusal">${t("store.refusal", { why: one.refusal })}</p>`}
        <div class="cards">
          <${Log} one=${one} />
          <${Disk} disk=${one.disk} />
        </div>
        <${Retention} name=${name} id=${id} state=${one.retention} />
        <${Scrub} name=${name} id=${id} integrity=${one.integrity} reload=${store.reload} />
        <${Damage} integrity=${one.integrity} />
        <div class="cards">
          <${Backups} name=${name} id=${id} />
          ${one.timers && html`<${Timed} timers=${one.timers} />`}
        </div>`}
    <//>
  <//>`;
}

const used = (disk) => (disk.total ? 1 - disk.free / disk.total : 0);

function Log({ one }) {
  return html`<${Card} title=${t("store.log")}>
    <${Facts}
      rows=${[
        [t("store.log.begin"), number(one.log.begin)],
        [t("store.log.end"), number(one.log.end)],
        [t("store.log.flushed"), one.log.flushed >= one.log.end ? t("store.log.allflushed") : number(one.log.flushed)],
        [t("store.oldest"), html`<${Time} ms=${one.log.earliestMs} />`],
        [t("store.log.files"), t("store.log.files.value", { n: number(one.log.files), size: bytes(one.log.bytes) })],
        [t("store.log.limit"), one.log.limit ? bytes(one.log.limit) : t("store.log.nolimit")],
      ]}
    />
  <//>`;
}

function Disk({ disk }) {
  return html`<${Card} title=${t("store.disk")}>
    <${Facts}
      rows=${[
        [t("store.disk.free"), t("store.disk.free.value", { free: bytes(disk.free), total: bytes(disk.total) })],
        [t("store.disk.used"), percent(used(disk))],
        [t("store.disk.usedRatio"), percent(disk.usedRatio)],
        [t("store.disk.forcibleRatio"), percent(disk.forcibleRatio)],
        [t("store.disk.fullRatio"), percent(disk.fullRatio)],
        [t("store.disk.freeMinimum"), bytes(disk.freeMinimum)],
      ]}
    />
  <//>`;
}

// When the next timed message is due; of those that wait on the disk only ten minutes are known.
function Due({ timers }) {
  if (timers.nextMs === timers.nextLatestMs) return html`<${Time} ms=${timers.nextMs} />`;
  return html`<span data-test="due">${t("timed.between", { from: time(timers.nextMs), to: clock(timers.nextLatestMs) })}</span>`;
}

// How many timed messages wait; null until the broker knows that.
const waiting = (timers) => (timers.waiting === null ? t("timed.counting") : number(timers.waiting));

function Timed({ timers }) {
  return html`<${Card} title=${t("timed.title")}>
    ${!timers.ready && html`<p class="hint">${t("timed.reading")}</p>`}
    <${Facts}
      rows=${[
        [t("timed.waiting"), waiting(timers)],
        [t("timed.next"), timers.nextMs ? html`<${Due} timers=${timers} />` : timers.ready ? t("timed.none") : undefined],
        [t("timed.delivered"), number(timers.delivered)],
        [t("timed.recalled"), number(timers.recalled)],
        [t("timed.late"), timers.delivered ? t("timed.late.value", { mean: duration(timers.meanLateMs / 1000), most: duration(timers.mostLateMs / 1000) }) : undefined],
        [t("timed.limit"), duration(timers.maxDelaySeconds)],
      ]}
    />
  <//>`;
}

function Retention({ name, id, state }) {
  const plan = useResource((abort) => get(path`/brokers/${name}/retention`, { id }, abort), [name, id, state.removedFiles], 10000);
  const columns = [
    { id: "name", title: t("retention.file"), cell: (one) => html`<code>${one.name}</code>` },
    { id: "size", title: t("column.size"), num: true, cell: (one) => bytes(one.size) },
    { id: "modified", title: t("retention.modified"), num: true, hide: true, cell: (one) => html`<${Time} ms=${one.modified} relative />` },
    { id: "why", title: t("retention.why"), cell: (one) => one.why },
  ];
  async function remove(files) {
    const text = t("retention.remove.text", { n: number(files.length), name, size: bytes(files.reduce((sum, one) => sum + one.size, 0)) });
    const sure = await confirm({ title: t("retention.remove"), text, action: t("retention.remove"), typed: name });
    if (sure && (await attempt(() => post(path`/brokers/${name}/clean`, { what: "log" }), t("retention.asked")))) plan.reload();
  }
  return html`<${Card}
    title=${t("retention.title")}
    actions=${id === 0 && plan.data?.files.length > 0 && html`<${Button} needs="admin" small kind="danger-plain" icon="trash" onClick=${() => remove(plan.data.files)}>${t("retention.remove")}<//>`}
  >
    <p class="soft">${state.enabled ? t("retention.rules", { duration: duration(state.reservedSeconds), hours: state.hours.map((one) => `${one}:00`).join(", ") }) : t("retention.off")}</p>
    ${state.obstacle && html`<p class="hint hint-warn" data-test="obstacle">${t("retention.obstacle", { why: state.obstacle })}</p>`}
    <${Loaded} from=${plan} lines=${2}>
      ${(told) => html`<div data-test="retention">
        <h3 class="space-above">${t("retention.next")}</h3>
        ${told.files.length
          ? html`<${Table} columns=${columns} rows=${told.files} label=${t("retention.next")} rowKey=${(one) => one.name} />`
          : html`<p class="soft">${t("retention.nothing")}</p>`}
        ${told.kept && html`<p class="sub">${t("retention.kept", { why: told.kept })}</p>`}
      </div>`}
    <//>
    <div class="space-above"></div>
    <${Facts}
      rows=${[
        [t("retention.removed"), t("store.log.files.value", { n: number(state.removedFiles), size: bytes(state.removedBytes) })],
        [t("retention.last"), state.lastMs ? html`<${Time} ms=${state.lastMs} />: <code>${state.lastFile}</code>: ${state.lastWhy}` : t("retention.never")],
      ]}
    />
  <//>`;
}
