// What happened to a message: what its broker and its groups know, with the traces of its clients.
import { html } from "../app/html.js";
import { get, path } from "../app/api.js";
import { number, time } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Card, Loaded } from "../app/parts.js";
import { Icon } from "../app/icons.js";
import { useResource } from "../app/resource.js";
import { href } from "../app/router.js";

const GROUPS = 50; // whose states are shown here; the tab "Delivery" has all
const GOOD = ["stored", "success", "committed", "consumed"];
const BAD = ["exception", "null", "dead", "offline", "failed", "rolledback"];
const MARKS = { good: "check", bad: "close", info: "explain" };
const tone = (word) => (GOOD.includes(word) ? "good" : BAD.includes(word) ? "bad" : "info");

export function History({ message, states }) {
  const which = { topic: message.topic, broker: message.broker };
  const trace = useResource((abort) => get(path`/messages/${message.messageId}/trace`, which, abort), [message.offsetId]);
  const groups = useResource((abort) => get(path`/messages/${message.offsetId}/groups`, { ...which, limit: GROUPS }, abort), [message.offsetId]);
  return html`<${Loaded} from=${trace}>
    ${(found) => html`<${Card} title=${t("history.title")} flush>
        ${hint(found) && html`<p class="hint card-note">${hint(found)}</p>`}
        <ol class="checklist card-note" aria-label=${t("history.title")}>
          ${events(message, found.items).map((one, order) => html`<${Step} key=${order} tone=${one.tone} when=${one.at === null ? t("history.now") : time(one.at, true)}>${one.text}<//>`)}
          ${groups.data?.items.map((one) => html`<${Step} key=${`group-${one.group}`} tone=${tone(one.state)} when=${t("history.now")}>
            <a href=${href(["groups", one.group])}>${one.group}</a> <${Badge} tone=${states[one.state]}>${t(`delivery.${one.state}`)}<//> <span class="soft">${one.detail ?? t(`delivery.${one.state}.text`)}</span>
          <//>`)}
        </ol>
        ${groups.data?.total > GROUPS && html`<p class="hint card-note">${t("history.groups", { n: number(GROUPS), total: number(groups.data.total) })}</p>`}
      <//>`}
  <//>`;
}

function Step({ tone, when, children }) {
  return html`<li class=${`checked checked-${tone}`}>
    <span class="checked-mark"><${Icon} name=${MARKS[tone]} size=${15} /></span>
    <div><h3>${when}</h3><p>${children}</p></div>
  </li>`;
}

function hint(found) {
  if (!found.items.length) return t(found.exists ? "history.none" : "history.notopic", { topic: found.topic });
  const words = [];
  if (found.more) words.push(t("history.more"));
  if (found.unreadable) words.push(t("history.unreadable", { n: number(found.unreadable) }));
  return words.join(" ");
}

// The events with their times, the oldest first; the send as its message tells of it, where no trace does.
function events(message, traced) {
  const rows = traced.map((one) => ({ at: one.atMs, tone: tone(one.result), text: said(one) }));
  if (!traced.some((one) => one.kind === "produced")) rows.push({ at: message.bornMs, tone: "info", text: t("history.born", { client: message.bornHost }) });
  rows.push({ at: message.storedMs, tone: "good", text: t("history.stored", { broker: message.broker, queue: message.queueId, offset: number(message.queueOffset) }) });
  if (message.reconsumeTimes > 0) rows.push({ at: message.storedMs, tone: "info", text: t("history.again", { n: number(message.reconsumeTimes) }) });
  return rows.sort((a, b) => a.at - b.at);
}

function said(one) {
  const group = one.group ? html`<a href=${href(["groups", one.group])}>${one.group}</a>` : t("history.somebody");
  const words = [t(`history.${one.kind}.${one.result}`)];
  if (one.tookMs !== null) words.push(t("history.took", { ms: number(one.tookMs) }));
  if (one.retries > 0) words.push(t("history.retry", { n: number(one.retries) }));
  if (one.checked) words.push(t("history.checked"));
  return html`${one.kind === "consumed" ? group : html`<code>${one.group}</code>`} <span>${words.join(", ")}</span> <span class="faint">${one.client}</span>`;
}
