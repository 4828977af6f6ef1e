// The form that sends a message.
import { html, useState } from "../app/html.js";
import { limited, may, post } from "../app/api.js";
import { attempt } from "../app/dialog.js";
import { fromInput, number, time, toInput } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Check, Code, Empty, Facts, Field, LinkButton, Page, Select } from "../app/parts.js";
import { useRights } from "../app/rights.js";
import { href } from "../app/router.js";
import { NameField } from "./topicfield.js";

const KEPT = 20;
const UNITS = { s: 1000, min: 60000, h: 3600000, d: 86400000 };
const WHEN = ["now", "after", "at", "level"];

// Parse lines of name=value into an object.
export function pairs(text) {
  return Object.fromEntries(
    text
      .split("\n")
      .filter((line) => line.includes("="))
      .map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1)])
      .filter(([name]) => name),
  );
}

export default function Send({ query }) {
  const [topic, setTopic] = useState(query.topic ?? "");
  const [text, setText] = useState('{"hello": "world"}');
  const [encoded, setEncoded] = useState(false);
  const [tag, setTag] = useState("");
  const [keys, setKeys] = useState("");
  const [properties, setProperties] = useState("");
  const [when, setWhen] = useState("now");
  const [delay, setDelay] = useState("1");
  const [unit, setUnit] = useState("min");
  const [at, setAt] = useState(() => toInput(Date.now() + 3600000));
  const [level, setLevel] = useState("1");
  const [broker, setBroker] = useState("");
  const [queue, setQueue] = useState("");
  const [busy, setBusy] = useState(false);
  const [sent, setSent] = useState([]);
  const [recalled, setRecalled] = useState(() => new Set());
  const [handle, setHandle] = useState("");
  const refused = useRights({ topic })("POST", "/send");
  if (!may("publish") && !limited()) return html`<${Page} title=${t("nav.send")}><${Card}><${Empty} icon="send" title=${t("send.forbidden")}>${t("send.forbidden.text")}<//><//><//>`;

  async function submit(event) {
    event.preventDefault();
    const order = {
      topic,
      [encoded ? "base64" : "text"]: encoded ? text.replace(/\s/g, "") : text,
      tag: tag.trim(),
      keys: keys.split(/\s+/).filter(Boolean),
      properties: pairs(properties),
      delayLevel: when === "level" ? Number(level) : 0,
      delayMs: when === "after" ? Math.round(Number(delay) * UNITS[unit]) : 0,
      deliverAtMs: when === "at" ? (fromInput(at) ?? 0) : 0,
      queue: broker.trim() && queue !== "" ? { broker: broker.trim(), queueId: Number(queue) } : null,
    };
    setBusy(true);
    await attempt(async () => {
      const row = await post("/send", order);
      setSent((before) => [row, ...before].slice(0, KEPT));
    }, t("send.done", { topic }));
    setBusy(false);
  }
  async function recall(one) {
    if (await attempt(() => post("/recall", { handle: one }), t("recall.said"))) setRecalled((before) => new Set(before).add(one));
  }
  return html`<${Page}
    title=${t("nav.send")}
    actions=${topic && html`<${LinkButton} icon="tail" href=${href(["tail"], { topic })}>${t("nav.tail")}<//>`}
  >
    <div class="cards">
      <${Card} title=${t("send.title")}>
        <form class="form" onSubmit=${submit}>
          <${NameField} label=${t("column.topic")} value=${topic} onChange=${setTopic} />
          <${Field} label=${t("message.body")}>
            ${(field) => html`<textarea ...${field} rows="8" spellcheck=${false} value=${text} onInput=${(event) => setText(event.currentTarget.value)}></textarea>`}
          <//>
          <${Check} label=${t("send.base64")} checked=${encoded} onChange=${setEncoded} />
          <div class="form-row">
            <${Field} label=${t("message.tag")}>${(field) => html`<input ...${field} value=${tag} onInput=${(event) => setTag(event.currentTarget.value)} />`}<//>
            <${Field} label=${t("message.keys")} hint=${t("send.keys.hint")}>${(field) => html`<input ...${field} value=${keys} onInput=${(event) => setKeys(event.currentTarget.value)} />`}<//>
          </div>
          <${Field} label=${t("message.tab.properties")} hint=${t("send.properties.hint")}>
            ${(field) => html`<textarea ...${field} rows="3" class="short" spellcheck=${false} value=${properties} onInput=${(event) => setProperties(event.currentTarget.value)}></textarea>`}
          <//>
          <div class="form-row">
            <${Field} label=${t("send.when")} hint=${when === "after" || when === "at" ? t("send.when.hint") : undefined}>
              ${(field) => html`<${Select} ...${field} value=${when} onChange=${setWhen} options=${WHEN.map((one) => [one, t(`send.when.${one}`)])} />`}
            <//>
            ${when === "after" &&
            html`<${Field} label=${t("send.delay")}>${(field) => html`<input ...${field} type="number" min="0" step="any" required value=${delay} onInput=${(event) => setDelay(event.currentTarget.value)} />`}<//>
              <${Field} label=${t("send.unit")}>${(field) => html`<${Select} ...${field} value=${unit} onChange=${setUnit} options=${Object.keys(UNITS).map((one) => [one, t(`unit.${one}`)])} />`}<//>`}
            ${when === "at" && html`<${Field} label=${t("send.at")}>${(field) => html`<input ...${field} type="datetime-local" step="1" required value=${at} onInput=${(event) => setAt(event.currentTarget.value)} />`}<//>`}
            ${when === "level" && html`<${Field} label=${t("send.level")} hint=${t("send.delay.hint")}>${(field) => html`<input ...${field} type="number" min="1" max="64" required value=${level} onInput=${(event) => setLevel(event.currentTarget.value)} />`}<//>`}
          </div>
          <div class="form-row">
            <${Field} label=${t("column.broker")} hint=${t("send.any")}>${(field) => html`<input ...${field} value=${broker} onInput=${(event) => setBroker(event.currentTarget.value)} />`}<//>
            <${Field} label=${t("column.queue")} hint=${t("send.any")}>${(field) => html`<input ...${field} type="number" min="0" value=${queue} onInput=${(event) => setQueue(event.currentTarget.value)} />`}<//>
          </div>
          ${topic && refused && html`<p class="hint hint-bad" role="status">${refused}</p>`}
          <div class="form-foot"><${Button} kind="primary" icon="send" busy=${busy} type="submit" refused=${refused} disabled=${!topic}>${t("action.send")}<//></div>
        </form>
      <//>
      <${Card} title=${t("send.sent")}>
        ${!sent.length && html`<${Empty} icon="send" title=${t("send.none")} />`}
        ${sent.map(
          (one) => html`<div class="sent" key=${one.messageId}>
            <${Facts}
              rows=${[
                [t("column.state"), html`<${Badge} tone=${one.status === "SEND_OK" ? "good" : "warn"}>${one.status}<//>`],
                [t("column.topic"), one.topic],
                [t("column.queue"), html`${one.broker} #${one.queueId}${one.queueOffset !== null && `, ${t("message.at", { n: number(one.queueOffset) })}`}`],
                one.dueMs && [t("send.due"), html`<span data-test="due">${time(one.dueMs)}</span>`],
                [t("message.id"), html`<a href=${href(["messages", one.offsetId ?? one.messageId], { topic: one.topic, broker: one.broker })}><${Code}>${one.messageId}<//></a>`],
              ]}
            />
            ${one.recallHandle && html`<div class="form-foot">${recalled.has(one.recallHandle) ? html`<${Badge} tone="warn">${t("recall.done")}<//>` : html`<${Button} small icon="stop" needs="publish" onClick=${() => recall(one.recallHandle)}>${t("recall.action")}<//>`}</div>`}
          </div>`,
        )}
      <//>
      <${Card} title=${t("recall.title")}>
        <form class="form" onSubmit=${(event) => (event.preventDefault(), recall(handle.trim()))}>
          <p class="soft">${t("recall.text")}</p>
          <${Field} label=${t("recall.handle")}>${(field) => html`<input ...${field} class="mono" autocomplete="off" spellcheck=${false} value=${handle} onInput=${(event) => setHandle(event.currentTarget.value)} />`}<//>
          <div class="form-foot"><${Button} type="submit" needs="publish" disabled=${!handle.trim()}>${t("recall.action")}<//></div>
        </form>
      <//>
    </div>
  <//>`;
}
