// The delivery check: why a message did or did not reach a group.
import { html, useState } from "../app/html.js";
import { get, path } from "../app/api.js";
import { t } from "../app/i18n.js";
import { Badge, Card, Empty, Facts, Field, LinkButton, Loaded, Page } from "../app/parts.js";
import { Icon } from "../app/icons.js";
import { useResource } from "../app/resource.js";
import { go, href } from "../app/router.js";
import { NameField } from "./topicfield.js";

const TONES = {
  consumed: "good",
  waiting: "info",
  retrying: "warn",
  filtered: "warn",
  dead: "bad",
  skipped: "bad",
  offline: "bad",
  "not-subscribed": "bad",
  disabled: "bad",
  "no-permission": "bad",
  "no-message": "bad",
  "no-group": "bad",
  unknown: "plain",
};
const MARKS = { well: ["check", "good"], bad: ["close", "bad"], note: ["explain", "info"], unknown: ["explain", "plain"] };

export default function Explain({ query }) {
  const [id, setId] = useState(query.id ?? "");
  const [group, setGroup] = useState(query.group ?? "");
  const [topic, setTopic] = useState(query.topic ?? "");
  function submit(event) {
    event.preventDefault();
    go(["explain"], { id: id.trim(), group, topic, broker: query.id === id ? query.broker : "" }, true);
  }
  return html`<${Page} title=${t("explain.title")} about=${t("explain.about")}>
    <${Card}>
      <form class="form" onSubmit=${submit}>
        <div class="form-row">
          <${Field} label=${t("message.id")} hint=${t("explain.id.hint")}>
            ${(field) => html`<input ...${field} class="mono" required autocomplete="off" spellcheck=${false} value=${id} onInput=${(event) => setId(event.currentTarget.value)} />`}
          <//>
          <${NameField} label=${t("column.topic")} hint=${t("search.topic.optional")} required=${false} value=${topic} onChange=${setTopic} />
          <${NameField} label=${t("column.group")} where="/groups" value=${group} onChange=${setGroup} />
        </div>
        <div class="form-foot"><button type="submit" class="button button-primary">${t("explain.ask")}</button></div>
      </form>
    <//>
    ${query.id && query.group
      ? html`<${Answer} key=${JSON.stringify(query)} query=${query} />`
      : html`<${Card}><${Empty} icon="explain" title=${t("explain.start")}>${t("explain.start.text")}<//><//>`}
  <//>`;
}

function shown(value) {
  return typeof value === "string" || typeof value === "number" ? String(value) : JSON.stringify(value);
}

function Answer({ query }) {
  const which = { group: query.group, topic: query.topic, broker: query.broker };
  const found = useResource((abort) => get(path`/messages/${query.id}/explain`, which, abort), [query.id, which]);
  return html`<${Loaded} from=${found}>
    ${(one) => html`<${Card}>
        <div class="verdict">
          <${Badge} tone=${TONES[one.verdict]}>${t(`verdict.${one.verdict}`)}<//>
          <p class="verdict-text" role="status">${t(`said.verdict.${one.verdict}`, one.values)}</p>
          ${one.message && html`<${LinkButton} small icon="messages" href=${href(["messages", one.message.offsetId], { topic: one.message.topic, broker: one.message.broker })}>${t("explain.message")}<//>`}
          <${LinkButton} small icon="groups" href=${href(["groups", query.group])}>${query.group}<//>
        </div>
      <//>
      <ol class="checklist" aria-label=${t("explain.checks")}>
        ${one.checks.map((check) => {
          const [icon, tone] = MARKS[check.outcome];
          return html`<li key=${check.name} class=${`checked checked-${tone}`}>
            <span class="checked-mark" title=${t(`outcome.${check.outcome}`)}><${Icon} name=${icon} size=${15} /></span>
            <div>
              <h3>${t(`check.${check.name}`)}</h3>
              <p class="soft">${t(`said.${check.code}`, check.values)}</p>
              ${Object.keys(check.facts).length > 0 && html`<details><summary>${t("explain.facts")}</summary><${Facts} rows=${Object.entries(check.facts).map(([name, value]) => [name, html`<code>${shown(value)}</code>`])} /></details>`}
            </div>
          </li>`;
        })}
      </ol>`}
  <//>`;
}
