// The live tail: messages as they arrive, without joining a group or changing offsets.
import { html, useState } from "../app/html.js";
import { number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Field, LinkButton, Page } from "../app/parts.js";
import { go, href } from "../app/router.js";
import { Table } from "../app/table.js";
import { rowName, useTail } from "./livetail.js";
import { messageColumns, messagePlace } from "./messagetable.js";
import { NameField } from "./topicfield.js";

export default function Tail({ query }) {
  const [topic, setTopic] = useState(query.topic ?? "");
  const [filters, setFilters] = useState({ tag: query.tag ?? "", key: query.key ?? "", body: query.body ?? "" });
  function submit(event) {
    event.preventDefault();
    go(["tail"], { topic, ...filters, on: String(Date.now()) }, true);
  }
  const text = (member) => (field) =>
    html`<input ...${field} value=${filters[member]} autocomplete="off" onInput=${(event) => setFilters((before) => ({ ...before, [member]: event.currentTarget.value }))} />`;
  return html`<${Page}
    title=${t("nav.tail")}
    about=${t("tail.about")}
    actions=${query.topic && html`<${LinkButton} icon="topics" href=${href(["topics", query.topic])}>${query.topic}<//>`}
  >
    <${Card}>
      <form class="form" onSubmit=${submit}>
        <div class="form-row">
          <${NameField} label=${t("column.topic")} value=${topic} onChange=${setTopic} />
          <${Field} label=${t("message.tag")}>${text("tag")}<//>
          <${Field} label=${t("tail.key")}>${text("key")}<//>
          <${Field} label=${t("search.body")}>${text("body")}<//>
        </div>
        <div class="form-foot"><button type="submit" class="button button-primary" disabled=${!topic}>${t("tail.begin")}</button></div>
      </form>
    <//>
    ${query.topic
      ? html`<${Stream} key=${`${query.topic} ${query.on}`} query=${query} />`
      : html`<${Card}><${Empty} icon="tail" title=${t("tail.none")} /><//>`}
  <//>`;
}

function Stream({ query }) {
  const { rows, state, note, lost, seen, paused, setPaused, clear } = useTail({ topic: query.topic, tag: query.tag, key: query.key, body: query.body, last: 5 }, true);
  const tones = { waiting: "plain", live: "good", lost: "warn", ended: "plain" };
  return html`<${Card}
    title=${html`<${Badge} tone=${paused ? "warn" : tones[state]}>${t(paused ? "tail.paused" : `tail.${state}`)}<//> <span class="sub">${note}</span>`}
    actions=${html`<span class="pager-text">${t("tail.seen", { n: number(seen) })}${lost > 0 && html` · <span class="tone-warn">${t("tail.missed", { n: number(lost) })}</span>`}</span>
      <${Button} small icon=${paused ? "play" : "pause"} onClick=${() => setPaused(!paused)}>${t(paused ? "tail.go" : "tail.pause")}<//>
      <${Button} small kind="ghost" icon="trash" onClick=${clear}>${t("tail.clear")}<//>`}
    flush
  >
    ${rows.length
      ? html`<${Table} columns=${messageColumns()} rows=${rows} label=${t("nav.tail")} rowKey=${rowName} rowPlace=${messagePlace} />`
      : html`<${Empty} icon="tail" title=${t("tail.waiting")}>${t("tail.waiting.text")}<//>`}
  <//>`;
}
