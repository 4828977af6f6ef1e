// One message: its body in several formats, its properties, the bytes of its record, and its delivery state.
import { cx, html, useState } from "../app/html.js";
import { file, get, limited, path, post } from "../app/api.js";
import { attempt, confirm, openDialog } from "../app/dialog.js";
import { bytes, number, time } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Code, Copy, Empty, Facts, Failure, LinkButton, Loaded, Page, Skeleton, Tabs } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { go, href } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";
import { History } from "./messagehistory.js";
import { NameField } from "./topicfield.js";

const TABS = ["body", "properties", "record", "delivery", "history"];

export function Message({ id, query }) {
  const which = { topic: query.topic, broker: query.broker };
  // An account with limits names the topic and the place in it: an id could be a message's of any topic.
  const place = limited() && query.offset !== undefined && { ...which, queueId: query.queue, offset: query.offset };
  const message = useResource((abort) => (place ? get("/messages/at", place, abort) : get(path`/messages/${id}`, which, abort)), [id, which, place]);
  const tab = TABS.includes(query.tab) ? query.tab : "body";
  if (message.error?.status === 404 || message.error?.status === 400) return html`<${Missing} id=${id} query=${query} error=${message.error} />`;
  const one = message.data;
  const tabs = TABS.map((name) => [name, t(`message.tab.${name}`), href(["messages", id], { ...query, tab: name })]);

  async function resend() {
    const to = one.originTopic ?? one.topic;
    if (!(await confirm({ title: t("message.resend"), text: t("message.resend.text", { topic: to }), action: t("message.resend"), danger: false }))) return;
    await attempt(async () => {
      const sent = await post(path`/messages/${one.offsetId}/resend`, {}, { topic: one.topic, broker: one.broker });
      go(["messages", sent.offsetId], { topic: sent.topic, broker: sent.broker });
    }, t("message.resent", { topic: to }));
  }
  return html`<${Page}
    title=${t("message.title")}
    crumbs=${[[t("nav.messages"), href(["messages"], { topic: query.topic })]]}
    actions=${one &&
    html`<${Button} icon="download" needs="read" onClick=${() => attempt(() => download(one))}>${t("message.download")}<//>
      <${Button} needs="publish" icon="send" onClick=${resend}>${t("message.resend")}<//>
      <${LinkButton} icon="explain" needs="read" href=${href(["explain"], { id: one.offsetId, topic: one.topic, broker: one.broker })}>${t("nav.explain")}<//>`}
  >
    <${Loaded} from=${message} lines=${8}>
      ${(found) => html`<${Card}>
          <${Facts}
            rows=${[
              [t("message.id"), html`<${Code} copy>${found.messageId}<//>`],
              [t("message.offsetId"), html`<${Code} copy>${found.offsetId}<//>`],
              [t("column.topic"), html`<a href=${href(["topics", found.topic])}>${found.topic}</a>`],
              found.originTopic && [t("message.origin"), html`<a href=${href(["topics", found.originTopic])}>${found.originTopic}</a>`],
              [t("column.queue"), html`<a href=${href(["messages"], { by: "queue", topic: found.topic, broker: found.broker, queue: found.queueId, offset: found.queueOffset })}>${found.broker} #${found.queueId}, ${t("message.at", { n: number(found.queueOffset) })}</a>`],
              [t("message.stored"), time(found.storedMs, true)],
              [t("message.born"), html`${time(found.bornMs, true)} <span class="faint">${found.bornHost}</span>`],
              [t("message.tag"), found.tag ? html`<${Badge} tone="info">${found.tag}<//>` : undefined],
              [t("message.keys"), found.keys.length ? html`<code>${found.keys.join(" ")}</code>` : undefined],
              [t("message.size"), html`${size(found.body)}${found.body.compression && html` <${Badge}>${t("message.compressed", { method: found.body.compression, size: bytes(found.body.storedBytes) })}<//>`}`],
              found.reconsumeTimes > 0 && [t("message.reconsumed"), number(found.reconsumeTimes)],
              found.flags.length > 0 && [t("message.flags"), found.flags.join(", ")],
            ]}
          />
        <//>
        <${Tabs} tabs=${tabs} chosen=${tab} label=${t("message.title")} />
        ${tab === "properties" ? html`<${Properties} message=${found} />` : tab === "record" ? html`<${Record} message=${found} />` : tab === "delivery" ? html`<${Delivery} message=${found} />` : tab === "history" ? html`<${History} message=${found} states=${STATES} />` : html`<${Body} body=${found.body} />`}`}
    <//>
  <//>`;
}

async function download(message) {
  const content = await file(path`/messages/${message.offsetId}/body`, { topic: message.topic, broker: message.broker });
  save(content, `${message.offsetId}.bin`);
}

// Let the browser save bytes under a name.
export function save(content, name) {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function Missing({ id, query, error }) {
  const [topic, setTopic] = useState(query.topic ?? "");
  function submit(event) {
    event.preventDefault();
    go(["messages", id], { topic });
  }
  return html`<${Page} title=${t("message.title")} crumbs=${[[t("nav.messages"), "#/messages"]]} wide=${false}>
    <${Card}>
      <${Empty} icon="messages" title=${t("message.missing")}><code>${id}</code><p>${error.message}</p><//>
      <form class="form" onSubmit=${submit}>
        <${NameField} label=${t("column.topic")} hint=${t("message.missing.topic")} value=${topic} onChange=${setTopic} />
        <div class="form-foot"><button type="submit" class="button button-primary">${t("action.search")}</button></div>
      </form>
    <//>
  <//>`;
}

// The full length of a compressed body that is longer than the shown part is unknown.
const size = (body) => (body.sizeBytes === null ? t("message.longer", { size: bytes(65536) }) : bytes(body.sizeBytes));

function Body({ body }) {
  const forms = [body.json !== null && "json", body.text !== null && body.kind !== "empty" && "text", body.kind !== "empty" && "hex", body.kind !== "empty" && "base64"].filter(Boolean);
  const [form, setForm] = useState(forms[0]);
  if (body.kind === "empty") return html`<${Card}><${Empty} icon="messages" title=${t("message.nobody")} /><//>`;
  const text = { json: body.json, text: body.text, hex: body.hex, base64: body.base64 }[form];
  return html`<${Card}
    title=${html`<span class="choices choices-small" role="radiogroup" aria-label=${t("message.form")}>
      ${forms.map((one) => html`<label key=${one} class=${cx("choice", one === form && "choice-chosen")}><input type="radio" name="form" checked=${one === form} onChange=${() => setForm(one)} />${t(`message.form.${one}`)}</label>`)}
    </span>`}
    actions=${html`<${Copy} text=${text} />`}
    flush
  >
    ${body.error && html`<p class="hint hint-warn card-note">${body.error}</p>`}
    ${body.truncated && html`<p class="hint card-note">${t("message.truncated", { size: size(body) })}</p>`}
    ${form === "json" ? html`<${Json} text=${text} />` : html`<pre class=${cx("code-block", form === "base64" && "code-wrap", form === "text" && "code-wrap")} tabindex="0" data-test="body">${text}</pre>`}
  <//>`;
}

const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
const COLOURED = 100000; // characters

// JSON with coloured tokens; numbers keep their original text.
function Json({ text }) {
  const pieces = [];
  let at = 0;
  if (text.length <= COLOURED) {
    for (const found of text.matchAll(TOKEN)) {
      pieces.push(text.slice(at, found.index));
      const kind = found[1] ? (found[2] ? "key" : "string") : found[3] ? "word" : "number";
      pieces.push(html`<span class=${`json-${kind}`}>${found[1] ?? found[0]}</span>${found[2] ?? ""}`);
      at = found.index + found[0].length;
    }
  }
  pieces.push(text.slice(at));
  return html`<pre class="code-block code-wrap" tabindex="0" data-test="body">${pieces}</pre>`;
}

function Properties({ message }) {
  const rows = Object.entries(message.properties).sort();
  const columns = [
    { id: "name", title: t("column.name"), cell: (one) => html`<code>${one[0]}</code>` },
    { id: "value", title: t("column.value"), cell: (one) => html`<code>${one[1]}</code>` },
    { id: "copy", title: "", tight: true, cell: (one) => html`<${Copy} text=${one[1]} />` },
  ];
  return html`<${Card} flush>
    ${rows.length ? html`<${Table} columns=${columns} rows=${rows} label=${t("message.tab.properties")} rowKey=${(one) => one[0]} />` : html`<${Empty} title=${t("table.empty")} />`}
  <//>`;
}

// The bytes of the record, each field in its own colour; pointing at a field highlights its bytes and vice versa.
function Record({ message }) {
  const [at, setAt] = useState("");
  const pairs = (hex) => hex.match(/../g)?.join(" ") ?? "";
  return html`<div class="record">
    <${Card} title=${t("record.bytes", { n: number(message.recordBytes), at: number(message.logOffset) })}>
      <div class="record-bytes mono" aria-label=${t("message.tab.record")}>
        ${message.record
          .filter((one) => one.size > 0)
          .map(
            (one, order) =>
              html`<span
                key=${one.name}
                class=${cx("record-piece", `record-${order % 6}`, at === one.name && "record-at")}
                title=${`${one.name}: ${one.value}`}
                onMouseEnter=${() => setAt(one.name)}
                >${pairs(one.hex.slice(0, 512))}${one.size > 256 && " …"}</span
              > `,
          )}
      </div>
    <//>
    <${Card} title=${t("record.fields")} flush>
      <div class="table-scroll">
        <table class="table" aria-label=${t("record.fields")}>
          <thead>
            <tr><th class="num">${t("record.offset")}</th><th class="num">${t("record.size")}</th><th>${t("record.field")}</th><th>${t("record.value")}</th></tr>
          </thead>
          <tbody>
            ${message.record.map(
              (one) =>
                html`<tr key=${one.name} class=${cx(at === one.name && "row-chosen")} onMouseEnter=${() => setAt(one.name)}>
                  <td class="num mono">${one.offset}</td>
                  <td class="num mono">${one.size}</td>
                  <td class="tight"><code>${one.name}</code></td>
                  <td><span class="preview mono">${one.value}</span></td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
    <//>
  </div>`;
}

const STATES = { consumed: "good", waiting: "info", retrying: "warn", dead: "bad", filtered: "warn", pull: "plain", broadcast: "plain", offline: "bad", unknown: "warn" };

function Delivery({ message }) {
  const which = { topic: message.topic, broker: message.broker };
  const columns = [
    { id: "group", title: t("column.group"), sort: "group", cell: (one) => html`<a class="name" href=${href(["groups", one.group])}>${one.group}</a>` },
    { id: "state", title: t("column.state"), cell: (one) => html`<${Badge} tone=${STATES[one.state]}>${t(`delivery.${one.state}`)}<//>` },
    { id: "detail", title: t("delivery.detail"), hide: true, cell: (one) => html`<span class="soft">${one.detail ?? t(`delivery.${one.state}.text`)}</span>` },
    {
      id: "actions",
      title: "",
      tight: true,
      cell: (one) => html`<span class="badges">
        <${LinkButton} small href=${href(["explain"], { id: message.offsetId, ...which, group: one.group })}>${t("delivery.why")}<//>
        <${Button} needs="admin" small onClick=${() => consume(one.group)}>${t("delivery.consume")}<//>
      </span>`,
    },
  ];
  function consume(group) {
    openDialog(t("delivery.consume"), (close) => html`<${Consume} message=${message} group=${group} close=${close} />`);
  }
  return html`<${Card} flush>
    <${RemoteTable}
      where=${path`/messages/${message.offsetId}/groups`}
      query=${which}
      prefix="g"
      columns=${columns}
      defaultSort="group"
      label=${t("message.tab.delivery")}
      filterText=${t("group.filter")}
      rowKey=${(one) => one.group}
      empty=${html`<${Empty} icon="groups" title=${t("delivery.none")}>${t("delivery.none.text")}<//>`}
    />
  <//>`;
}

// Have one connected client consume the message now.
function Consume({ message, group, close }) {
  const clients = useResource((abort) => get(path`/groups/${group}/clients`, { limit: 200 }, abort), [group]);
  const [busy, setBusy] = useState("");
  const [result, setResult] = useState(null);
  async function begin(clientId) {
    setBusy(clientId);
    setResult(null);
    await attempt(async () => {
      setResult(await post(path`/messages/${message.offsetId}/consume`, { group, clientId }, { topic: message.topic, broker: message.broker }));
    });
    setBusy("");
  }
  if (clients.error) return html`<${Failure} error=${clients.error} />`;
  if (!clients.data) return html`<${Skeleton} lines=${2} />`;
  return html`<div class="form">
    <p class="dialog-text">${t("delivery.consume.text", { group })}</p>
    ${!clients.data.items.length && html`<p class="hint hint-warn">${t("group.nomembers")}</p>`}
    ${clients.data.items.map((one) => html`<div class="line" key=${one.clientId}><code>${one.clientId}</code><${Button} small busy=${busy === one.clientId} disabled=${busy} onClick=${() => begin(one.clientId)}>${t("delivery.consume")}<//></div>`)}
    ${result && html`<p class=${`hint ${result.well ? "" : "hint-warn"}`} role="status">${t("delivery.answered", { result: result.result, ms: number(result.spentMs) })} ${result.remark ?? ""}</p>`}
    <div class="dialog-foot"><button type="button" class="button button-plain" onClick=${() => close()}>${t("action.close")}</button></div>
  </div>`;
}
