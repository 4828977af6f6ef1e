// Dead letters: groups that have some; the dead letters of one group: view, edit, resend, export.
import { html, useState } from "../app/html.js";
import { del, file, get, may, path, post } from "../app/api.js";
import { attempt, openDialog, toast } from "../app/dialog.js";
import { number } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Failure, Field, LinkButton, Page, Progress, Select, Skeleton, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href, setQuery } from "../app/router.js";
import { RemoteTable } from "../app/table.js";
import { save } from "./message.js";
import { messageColumns, messagePlace } from "./messagetable.js";

export default function Dlq({ parts, query }) {
  return parts.length ? html`<${Letters} key=${parts[0]} group=${parts[0]} query=${query} />` : html`<${List} />`;
}

function List() {
  const columns = [
    { id: "group", title: t("column.group"), sort: "group", cell: (one) => html`<a class="name" href=${href(["dlq", one.group])}>${one.group}</a>` },
    { id: "open", title: t("dlq.open.column"), sort: "open", num: true, cell: (one) => html`<span class=${one.open ? "tone-bad" : "faint"}>${number(one.open)}</span>` },
    { id: "inRetry", title: t("dlq.retry.column"), sort: "inRetry", num: true, cell: (one) => html`<span class=${one.inRetry ? "tone-warn" : "faint"}>${number(one.inRetry)}</span>` },
    { id: "messages", title: t("column.dead"), sort: "messages", num: true, cell: (one) => number(one.messages) },
    { id: "oldest", title: t("dlq.oldest"), sort: "oldestMs", num: true, hide: true, cell: (one) => html`<${Time} ms=${one.oldestMs} relative />` },
    { id: "newest", title: t("dlq.newest"), sort: "newestMs", num: true, cell: (one) => html`<${Time} ms=${one.newestMs} relative />` },
    { id: "brokers", title: t("column.brokers"), hide: true, cell: (one) => one.brokers.join(", ") },
  ];
  return html`<${Page} title=${t("nav.dlq")} about=${t("dlq.about")}>
    <${Card} flush>
      <${RemoteTable}
        where="/dlq"
        columns=${columns}
        defaultSort="-open"
        label=${t("nav.dlq")}
        filterText=${t("group.filter")}
        rowKey=${(one) => one.group}
        rowPlace=${(one) => [["dlq", one.group]]}
        every=${15000}
        empty=${html`<${Empty} icon="check" title=${t("dlq.none")}>${t("dlq.none.text")}<//>`}
      />
    <//>
  <//>`;
}

function Letters({ group, query }) {
  const [page, setPage] = useState(null);
  const [version, setVersion] = useState(0);
  const [chosen, setChosen] = useState(() => new Set());
  const reload = () => setVersion((before) => before + 1);
  const opened = useResource((abort) => get(path`/dlq/${group}`, { state: "open", limit: 1 }, abort), [group, version], 15000);
  const open = opened.data?.total ?? 0;
  const toggle = (id, on) =>
    setChosen((before) => {
      const now = new Set(before);
      if (on) now.add(id);
      else now.delete(id);
      return now;
    });
  const shown = page?.items.map((one) => one.offsetId) ?? [];
  const whole = shown.length > 0 && shown.every((one) => chosen.has(one));

  async function resend(ids) {
    const to = await openDialog(t("dlq.resend"), (close) => html`<${Where} count=${ids ? ids.length : open} group=${group} close=${close} />`);
    if (!to) return;
    await attempt(async () => {
      const job = await post(path`/dlq/${group}/resend`, { ids, to });
      await openDialog(t("dlq.resending"), (close) => html`<${Resending} id=${job.id} close=${close} />`);
    });
    setChosen(new Set());
    reload();
  }
  async function acknowledge(ids) {
    const comment = await openDialog(t("dlq.ack"), (close) => html`<${Acknowledge} count=${ids ? ids.length : open} group=${group} close=${close} />`);
    if (comment === undefined || comment === null) return;
    await attempt(async () => {
      const result = await post(path`/dlq/${group}/acknowledge`, { ids, comment });
      toast(tn("dlq.acked", result.count));
    });
    setChosen(new Set());
    reload();
  }
  async function reopen(one) {
    if (await attempt(() => post(path`/dlq/${group}/acknowledge`, { ids: [one.offsetId], reopen: true }), t("dlq.reopened"))) reload();
  }
  function mend(one) {
    openDialog(t("dlq.mend"), (close) => html`<${Mend} group=${group} row=${one} close=${(done) => (close(done), done && reload())} />`, true);
  }
  const columns = messageColumns({
    extra: may("publish")
      ? [
          {
            id: "choose",
            title: html`<input
              type="checkbox"
              aria-label=${t("dlq.all")}
              checked=${whole}
              onChange=${(event) => {
                const on = event.currentTarget.checked;
                for (const id of shown) toggle(id, on);
              }}
            />`,
            tight: true,
            cell: (one) => html`<input type="checkbox" aria-label=${t("dlq.choose", { id: one.offsetId })} checked=${chosen.has(one.offsetId)} onChange=${(event) => toggle(one.offsetId, event.currentTarget.checked)} />`,
          },
        ]
      : [],
  });
  columns.push(
    { id: "mark", title: t("alerts.state"), cell: (one) => html`<${Mark} one=${one} />` },
    { id: "origin", title: t("dlq.origin"), hide: true, cell: (one) => html`<span class="soft">${one.originTopic ?? "–"}</span>` },
    {
      id: "actions",
      title: "",
      tight: true,
      cell: (one) => may("publish") && html`<span class="badges"><${Button} small icon="edit" onClick=${() => mend(one)}>${t("dlq.mend.short")}<//>${!one.open && html`<${Button} small onClick=${() => reopen(one)}>${t("dlq.reopen")}<//>`}</span>`,
    },
  );
  return html`<${Page}
    title=${group}
    crumbs=${[[t("nav.dlq"), "#/dlq"]]}
    actions=${html`<${LinkButton} icon="groups" href=${href(["groups", group])}>${t("dlq.group")}<//>
      ${page?.total > 0 && html`<${Button} icon="download" onClick=${() => attempt(async () => save(await file(path`/dlq/${group}/export`), `${group}-dead.jsonl`))}>${t("dlq.export")}<//>`}
      ${open > 0 && html`<${Button} needs="publish" icon="check" onClick=${() => acknowledge(null)}>${t("dlq.ack.all", { n: number(open) })}<//>
      <${Button} kind="primary" icon="send" onClick=${() => resend(null)}>${t("dlq.resend.all", { n: number(open) })}<//>`}`}
  >
    <${Card} flush>
      <${RemoteTable}
        where=${path`/dlq/${group}`}
        query=${{ state: query.state }}
        columns=${columns}
        defaultSort="-storedMs"
        label=${t("nav.dlq")}
        rowKey=${(one) => one.offsetId}
        rowPlace=${messagePlace}
        chosen=${(one) => chosen.has(one.offsetId)}
        version=${version}
        onLoaded=${setPage}
        extra=${html`<${Select} aria-label=${t("dlq.order")} value=${query.sort ?? "-storedMs"} options=${[["-storedMs", t("dlq.newest.first")], ["storedMs", t("dlq.oldest.first")]]} onChange=${(sort) => setQuery({ sort, from: "" })} />
          <${Select} aria-label=${t("alerts.state")} value=${query.state ?? ""} options=${["", "open", "closed"].map((one) => [one, t(`dlq.state.${one || "all"}`)])} onChange=${(state) => setQuery({ state, from: "" })} />
          ${chosen.size > 0 && html`<${Button} small kind="primary" icon="send" onClick=${() => resend([...chosen])}>${tn("dlq.resend.some", chosen.size)}<//>
            <${Button} small icon="check" onClick=${() => acknowledge([...chosen])}>${tn("dlq.ack.some", chosen.size)}<//>`}`}
        empty=${html`<${Empty} icon="check" title=${t("dlq.empty")} />`}
      />
    <//>
  <//>`;
}

const COPY_TONES = { waiting: "info", refused: "warn", consumed: "good", failed: "bad", unknown: "plain" };

function copyState({ state, retry, retryLimit }) {
  if (state !== "refused") return t(`dlq.copy.${state}`);
  return retryLimit >= retry ? t("dlq.copy.refused.of", { retry: number(retry), limit: number(retryLimit) }) : t("dlq.copy.refused", { retry: number(retry) });
}

// What was done about a dead letter: when, by whom, and what became of the copy.
function Mark({ one }) {
  const { open, resent, acknowledged, resentFrom } = one;
  return html`<span class="badges">
      ${open && html`<${Badge} tone="bad">${t("dlq.state.open")}<//>`}
      ${acknowledged && html`<${Badge} title=${acknowledged.comment}>${t("dlq.acknowledged")}<//>`}
      ${resent && html`<${Badge} tone=${COPY_TONES[resent.state]}>${copyState(resent)}<//>`}
    </span>
    ${acknowledged && html`<p class="sub">${t("dlq.by", { who: acknowledged.who })} · <${Time} ms=${acknowledged.atMs} relative />${acknowledged.comment && html` · ${acknowledged.comment}`}</p>`}
    ${resent && html`<p class="sub">${tn("dlq.resent.by", resent.times, { who: resent.who })} · <${Time} ms=${resent.atMs} relative /></p>`}
    ${resentFrom && html`<p class="sub">${t("dlq.again")}</p>`}`;
}

function Acknowledge({ count, group, close }) {
  const [comment, setComment] = useState("");
  function submit(event) {
    event.preventDefault();
    close(comment);
  }
  return html`<form class="form" onSubmit=${submit}>
    <p class="dialog-text">${tn("dlq.ack.text", count, { group })}</p>
    <${Field} label=${t("silence.comment")} hint=${t("silence.comment.hint")}>${(field) => html`<input ...${field} maxlength="300" autocomplete="off" value=${comment} onInput=${(event) => setComment(event.currentTarget.value)} />`}<//>
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-primary">${t("dlq.ack")}</button>
    </div>
  </form>`;
}

function ToField({ to, setTo }) {
  return html`<div class="choices-list" role="radiogroup" aria-label=${t("dlq.to")}>
    ${["group", "topic"].map(
      (one) => html`<label class="check" key=${one}><input type="radio" name="to" checked=${to === one} onChange=${() => setTo(one)} /><span>${t(`dlq.to.${one}`)}<br /><span class="sub">${t(`dlq.to.${one}.text`)}</span></span></label>`,
    )}
  </div>`;
}

function Where({ count, group, close }) {
  const [to, setTo] = useState("group");
  function submit(event) {
    event.preventDefault();
    close(to);
  }
  return html`<form class="form" onSubmit=${submit}>
    <p class="dialog-text">${tn("dlq.resend.text", count, { group })}</p>
    <${ToField} to=${to} setTo=${setTo} />
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-primary">${t("dlq.resend")}</button>
    </div>
  </form>`;
}

// The progress of a job that resends many.
function Resending({ id, close }) {
  const job = useResource((abort) => get(path`/jobs/${id}`, null, abort), [id], 400);
  if (job.error) return html`<${Failure} error=${job.error} />`;
  if (!job.data) return html`<${Skeleton} lines=${2} />`;
  const { state, done, total, result, error } = job.data;
  return html`<div class="form">
    ${state === "running" && html`<${Progress} done=${done} total=${total} /><p class="sub">${number(done)} / ${total ? number(total) : "?"}</p>`}
    ${error && html`<${Failure} error=${{ message: error }} />`}
    ${result && html`<p class=${`hint ${result.failed || result.missing.length ? "hint-warn" : ""}`} role="status">${t("dlq.resent", { sent: number(result.sent), failed: number(result.failed), missing: number(result.missing.length) })}${result.leftOut.length > 0 && ` ${tn("dlq.left", result.leftOut.length)}`}</p>`}
    ${state === "cancelled" && html`<p class="hint hint-warn">${t("job.cancelled")}</p>`}
    <div class="dialog-foot">
      ${state === "running"
        ? html`<button type="button" class="button button-plain" onClick=${() => attempt(() => del(path`/jobs/${id}`))}>${t("action.cancel")}</button>`
        : html`<button type="button" class="button button-primary" onClick=${() => close(true)}>${t("action.close")}</button>`}
    </div>
  </div>`;
}

// Edit one dead letter before it is resent.
function Mend({ group, row, close }) {
  const message = useResource((abort) => get(path`/messages/${row.offsetId}`, { topic: row.topic, broker: row.broker }, abort), [row.offsetId]);
  if (message.error) return html`<${Failure} error=${message.error} />`;
  if (!message.data) return html`<${Skeleton} lines=${5} />`;
  return html`<${MendForm} group=${group} message=${message.data} close=${close} />`;
}

// Property names that brokers and clients use themselves; the API does not allow changes of them.
const SYSTEM = new Set(
  (
    "1ST_POP_TIME ARRIVE_TIME BORN_TIMESTAMP BUYER_ID CHECK_IMMUNITY_TIME_IN_SECONDS CLUSTER CONSUME_START_TIME " +
    "CORRECTION_FLAG CORRELATION_ID DELAY DLQ_ORIGIN_MESSAGE_ID DLQ_ORIGIN_TOPIC DUP_INFO EXTEND_UNIQ_INFO INNER_BASE " +
    "INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET INNER_NUM INSTANCE_ID KEYS MAX_OFFSET MAX_RECONSUME_TIMES " +
    "MIN_OFFSET MQ2_FLAG MSG_REGION MSG_TYPE ORIGIN_MESSAGE_ID PGROUP POP_CK POP_CK_OFFSET " +
    "PROPERTY_FORWARD_QUEUE_ID PUSH_REPLY_TIME REAL_QID REAL_TOPIC RECONSUME_TIME REDIRECT REPLY_TO_CLIENT " +
    "RETRY_TOPIC TAGS TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TRACE_CONTEXT TRACE_ON " +
    "TRANSACTION_CHECK_TIMES TRANSFER_FLAG TRAN_MSG TRAN_PREPARED_QUEUE_OFFSET TTL UNIQ_KEY WAIT __BORNHOST __CRC32# " +
    "__SHARDINGKEY __transactionId__ RESENT_FROM"
  ).split(" "),
);
const TRANSIENT = "__RMQ.TRANSIENT.";

function MendForm({ group, message, close }) {
  const editable = message.body.text !== null && !message.body.truncated;
  const own = Object.entries(message.properties).filter(([name]) => !SYSTEM.has(name) && !name.startsWith(TRANSIENT));
  const [text, setText] = useState(message.body.text ?? "");
  const [tag, setTag] = useState(message.tag);
  const [keys, setKeys] = useState(message.keys.join(" "));
  const [properties, setProperties] = useState(own.map(([name, value]) => `${name}=${value}`).join("\n"));
  const [to, setTo] = useState("group");
  const [busy, setBusy] = useState(false);
  const [checked, setChecked] = useState("");

  // Return only the differences from the dead letter; a property that was deleted is removed.
  function mending() {
    const changed = {};
    if (editable && text !== message.body.text) changed.text = text;
    if (tag !== message.tag) changed.tag = tag;
    const words = keys.split(/\s+/).filter(Boolean);
    if (words.join(" ") !== message.keys.join(" ")) changed.keys = words;
    const wanted = new Map(
      properties
        .split("\n")
        .filter((line) => line.includes("="))
        .map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1)]),
    );
    const set = {};
    for (const [name, value] of wanted) if (message.properties[name] !== value) set[name] = value;
    for (const [name] of own) if (!wanted.has(name)) set[name] = "";
    if (Object.keys(set).length) changed.properties = set;
    return Object.keys(changed).length ? changed : null;
  }
  async function send(dryRun) {
    setBusy(true);
    setChecked("");
    const done = await attempt(async () => {
      const row = await post(path`/dlq/${group}/messages/${message.offsetId}/resend`, { to, mend: mending(), dryRun });
      if (row.error) throw new Error(row.error);
      if (dryRun) setChecked(t("dlq.dry", { topic: row.topic }));
      else toast(t("dlq.sent", { topic: row.topic }));
    });
    setBusy(false);
    if (done && !dryRun) close(true);
  }
  function submit(event) {
    event.preventDefault();
    send(false);
  }
  return html`<form class="form" onSubmit=${submit}>
    ${editable
      ? html`<${Field} label=${t("message.body")}>${(field) => html`<textarea ...${field} rows="9" spellcheck=${false} value=${text} onInput=${(event) => setText(event.currentTarget.value)}></textarea>`}<//>`
      : html`<p class="hint hint-warn">${t("dlq.binary")}</p>`}
    <div class="form-row">
      <${Field} label=${t("message.tag")}>${(field) => html`<input ...${field} value=${tag} onInput=${(event) => setTag(event.currentTarget.value)} />`}<//>
      <${Field} label=${t("message.keys")} hint=${t("send.keys.hint")}>${(field) => html`<input ...${field} value=${keys} onInput=${(event) => setKeys(event.currentTarget.value)} />`}<//>
    </div>
    <${Field} label=${t("message.tab.properties")} hint=${t("send.properties.hint")}>
      ${(field) => html`<textarea ...${field} rows="3" spellcheck=${false} value=${properties} onInput=${(event) => setProperties(event.currentTarget.value)}></textarea>`}
    <//>
    <${ToField} to=${to} setTo=${setTo} />
    ${checked && html`<p class="hint" role="status">${checked}</p>`}
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="button" class="button button-plain" disabled=${busy} onClick=${() => send(true)}>${t("action.dry")}</button>
      <button type="submit" class="button button-primary" disabled=${busy}>${t("dlq.resend")}</button>
    </div>
  </form>`;
}
