// The live tail: messages as they arrive, without joining a group or changing offsets.
import { html, useEffect, useRef, useState } from "../app/html.js";
import { listen } from "../app/api.js";
import { number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Field, LinkButton, Page } from "../app/parts.js";
import { go, href } from "../app/router.js";
import { Table } from "../app/table.js";
import { messageColumns, messagePlace } from "./messagetable.js";
import { NameField } from "./topicfield.js";

const KEPT = 300; // rows on the page
const SHOW_EVERY = 120; // ms; messages come faster than a page should be drawn

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

function rowName(one) {
  return `${one.broker} ${one.queueId} ${one.queueOffset}`;
}

function Stream({ query }) {
  const [rows, setRows] = useState([]);
  const [state, setState] = useState("waiting");
  const [note, setNote] = useState("");
  const [lost, setLost] = useState(0);
  const [seen, setSeen] = useState(0);
  const [paused, setPaused] = useState(false);
  const held = useRef({ rows: [], names: new Set(), paused: false });
  held.current.paused = paused;

  useEffect(() => {
    const waiting = held.current;
    const timer = setInterval(() => {
      if (waiting.paused || !waiting.rows.length) return;
      const fresh = waiting.rows.reverse();
      waiting.rows = [];
      setRows((before) => [...fresh, ...before].slice(0, KEPT));
    }, SHOW_EVERY);
    let over = false;
    const stop = listen(
      "/tail",
      { topic: query.topic, tag: query.tag, key: query.key, body: query.body, last: 5 },
      {
        begun: (one) => (setState("live"), setNote(t("tail.queues", { n: number(one.queues) }))),
        message: (one) => {
          // After a reconnect the server sends the last messages again.
          const name = rowName(one);
          if (waiting.names.has(name)) return;
          waiting.names.add(name);
          if (waiting.names.size > 2 * KEPT) waiting.names.delete(waiting.names.values().next().value);
          waiting.rows.push(one);
          if (waiting.rows.length > KEPT) waiting.rows.shift();
          setSeen((before) => before + 1);
        },
        skipped: (one) => setLost((before) => before + one.count),
        dropped: (one) => setLost((before) => before + one.count),
        trouble: (one) => setNote(`${one.broker}: ${one.error}`),
        ended: (one) => {
          over = true;
          setState("ended");
          setNote(one.detail ?? t(`tail.ended.${one.why}`));
          stop();
        },
        lost: () => over || setState("lost"),
      },
      true,
    );
    return () => {
      clearInterval(timer);
      stop();
    };
  }, []);

  const tones = { waiting: "plain", live: "good", lost: "warn", ended: "plain" };
  return html`<${Card}
    title=${html`<${Badge} tone=${paused ? "warn" : tones[state]}>${t(paused ? "tail.paused" : `tail.${state}`)}<//> <span class="sub">${note}</span>`}
    actions=${html`<span class="pager-text">${t("tail.seen", { n: number(seen) })}${lost > 0 && html` · <span class="tone-warn">${t("tail.missed", { n: number(lost) })}</span>`}</span>
      <${Button} small icon=${paused ? "play" : "pause"} onClick=${() => setPaused(!paused)}>${t(paused ? "tail.go" : "tail.pause")}<//>
      <${Button} small kind="ghost" icon="trash" onClick=${() => setRows([])}>${t("tail.clear")}<//>`}
    flush
  >
    ${rows.length
      ? html`<${Table} columns=${messageColumns()} rows=${rows} label=${t("nav.tail")} rowKey=${rowName} rowPlace=${messagePlace} />`
      : html`<${Empty} icon="tail" title=${t("tail.waiting")}>${t("tail.waiting.text")}<//>`}
  <//>`;
}
