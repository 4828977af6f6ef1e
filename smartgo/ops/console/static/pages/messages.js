// Message search: by key, by id, by time, or from a queue offset.
import { html, useEffect, useRef, useState } from "../app/html.js";
import { addressOf, del, follow, get, limited, may, path, post } from "../app/api.js";
import { askBrokers } from "../app/brokers.js";
import { attempt } from "../app/dialog.js";
import { fromInput, number, toInput } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Failure, Field, LinkButton, Loaded, Missing as MissingBrokers, Page, Progress, Skeleton } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { go, setQuery } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";
import { Message } from "./message.js";
import { messageColumns, messagePlace } from "./messagetable.js";
import { NameField } from "./topicfield.js";

const MODES = ["key", "id", "any", "time", "queue"];
const OPEN = ["key", "queue"]; // for accounts whose rights depend on the topic: the others are jobs, or ask for any topic
const STATES = { running: "info", done: "good", failed: "bad", cancelled: "warn" };

export default function Messages({ parts, query }) {
  return parts.length ? html`<${Message} key=${parts[0]} id=${parts[0]} query=${query} />` : html`<${Search} query=${query} />`;
}

function Search({ query }) {
  const modes = limited() ? OPEN : MODES;
  const mode = modes.includes(query.by) ? query.by : query.queue !== undefined ? "queue" : "key";
  const keyed = limited() && mode === "key" && query.topic && query.word;
  return html`<${Page} title=${t("nav.messages")}>
    <${Card}>
      <div class="choices" role="radiogroup" aria-label=${t("search.by")}>
        ${modes.map(
          (one) => html`<label key=${one} class=${`choice ${one === mode ? "choice-chosen" : ""}`}>
            <input type="radio" name="by" value=${one} checked=${one === mode} onChange=${() => go(["messages"], { by: one, topic: query.topic }, true)} />
            ${t(`search.by.${one}`)}
          </label>`,
        )}
      </div>
      <${Form} key=${mode} mode=${mode} query=${query} />
    <//>
    ${mode === "queue" && query.topic && query.broker && query.queue !== undefined && html`<${Piece} query=${query} />`}
    ${mode === "any" && query.word && html`<${Anywhere} key=${query.word} word=${query.word} />`}
    ${keyed && html`<${Keyed} key=${`${query.topic} ${query.word}`} topic=${query.topic} word=${query.word} />`}
    ${query.job && mode !== "queue" && html`<${Found} key=${query.job} id=${query.job} />`}
    ${!query.job && !keyed && mode !== "queue" && !(mode === "any" && query.word) && html`<${Card}><${Empty} icon="messages" title=${t("search.start")}>${t(`search.start.${mode}`)}<//><//>`}
  <//>`;
}

function Form({ mode, query }) {
  const [topic, setTopic] = useState(query.topic ?? "");
  const [word, setWord] = useState(query.word ?? "");
  const [from, setFrom] = useState(() => toInput(Date.now() - 3600000));
  const [until, setUntil] = useState(() => toInput(Date.now() + 60000));
  const [filters, setFilters] = useState({ tag: "", body: "", property: "", value: "" });
  const [place, setPlace] = useState({ broker: query.broker ?? "", queue: query.queue ?? "0", offset: query.offset ?? "" });
  const [busy, setBusy] = useState(false);

  async function submit(event) {
    event.preventDefault();
    if (mode === "queue") {
      go(["messages"], { by: "queue", topic, ...place }, true);
      return;
    }
    if (mode === "any") {
      go(["messages"], { by: "any", word: word.trim() }, true);
      return;
    }
    if (limited()) {
      go(["messages"], { by: "key", topic, word: word.trim() }, true);
      return;
    }
    if (mode === "id" && !topic) {
      go(["messages", word.trim()]);
      return;
    }
    const order = { topic };
    if (mode === "key") order.key = word.trim();
    if (mode === "id") order[/^[0-9a-fA-F]{32}$/.test(word.trim()) && (await isOffsetId(word.trim())) ? "offsetId" : "uniqueKey"] = word.trim();
    if (mode === "time") {
      Object.assign(order, filters, { fromMs: fromInput(from) ?? 0, untilMs: fromInput(until) ?? 0 });
    }
    setBusy(true);
    await attempt(async () => {
      const job = await post("/messages/search", order);
      go(["messages"], { by: mode, topic, job: job.id }, true);
    });
    setBusy(false);
  }
  const set = (member) => (event) => setFilters((before) => ({ ...before, [member]: event.currentTarget.value }));
  const put = (member) => (event) => setPlace((before) => ({ ...before, [member]: event.currentTarget.value.trim() }));
  const text = (member) => (field) => html`<input ...${field} value=${filters[member]} onInput=${set(member)} autocomplete="off" />`;
  return html`<form class="form" onSubmit=${submit}>
    <div class="form-row">
      ${mode !== "any" && html`<${NameField} label=${t("column.topic")} hint=${mode === "id" ? t("search.topic.optional") : undefined} required=${mode !== "id"} value=${topic} onChange=${setTopic} />`}
      ${(mode === "key" || mode === "id" || mode === "any") &&
      html`<${Field} label=${t(`search.word.${mode}`)} hint=${t(`search.word.${mode}.hint`)}>
        ${(field) => html`<input ...${field} class="mono" required autocomplete="off" spellcheck=${false} value=${word} onInput=${(event) => setWord(event.currentTarget.value)} />`}
      <//>`}
      ${mode === "time" &&
      html`<${Field} label=${t("search.from")}>${(field) => html`<input ...${field} type="datetime-local" step="1" required value=${from} onInput=${(event) => setFrom(event.currentTarget.value)} />`}<//>
        <${Field} label=${t("search.until")}>${(field) => html`<input ...${field} type="datetime-local" step="1" required value=${until} onInput=${(event) => setUntil(event.currentTarget.value)} />`}<//>`}
      ${mode === "queue" &&
      html`<${Field} label=${t("column.broker")}>${(field) => html`<input ...${field} required value=${place.broker} onInput=${put("broker")} />`}<//>
        <${Field} label=${t("column.queue")}>${(field) => html`<input ...${field} type="number" min="0" required value=${place.queue} onInput=${put("queue")} />`}<//>
        <${Field} label=${t("search.offset")} hint=${t("search.offset.hint")}>${(field) => html`<input ...${field} type="number" min="0" value=${place.offset} onInput=${put("offset")} />`}<//>`}
    </div>
    ${mode === "time" &&
    html`<div class="form-row">
      <${Field} label=${t("message.tag")}>${text("tag")}<//>
      <${Field} label=${t("search.body")}>${text("body")}<//>
      <${Field} label=${t("search.property")}>${text("property")}<//>
      <${Field} label=${t("search.value")}>${text("value")}<//>
    </div>`}
    <div class="form-foot">
      <button type="submit" class="button button-primary" disabled=${busy}>${t("action.search")}</button>
    </div>
  </form>`;
}

// An offset id and a unique id can both have 32 digits; the first begins with the address of a known broker.
async function isOffsetId(word) {
  try {
    const { items } = await askBrokers();
    return items.some((one) => {
      const [host, port] = one.address.split(":");
      const parts = host.split(".").map(Number);
      if (parts.length !== 4) return false;
      const hex = [...parts.map((part) => part.toString(16).padStart(2, "0")), Number(port).toString(16).padStart(8, "0")].join("");
      return word.toLowerCase().startsWith(hex);
    });
  } catch {
    return false;
  }
}

// The newest messages with a key, without a job.
function Keyed({ topic, word }) {
  const found = useResource((abort) => get("/messages", { topic, key: word }, abort), [topic, word]);
  return html`<${Card} flush>
    <${Loaded} from=${found}>
      ${({ items }) =>
        items.length
          ? html`<${Table} columns=${messageColumns()} rows=${items} label=${t("nav.messages")} rowKey=${(one) => one.offsetId} rowPlace=${messagePlace} />`
          : html`<${Empty} icon="messages" title=${t("search.nothing")} />`}
    <//>
  <//>`;
}

// A search job that is running or has ended.
function Found({ id }) {
  const [job, setJob] = useState(null);
  const [error, setError] = useState(null);
  const version = useRef(0);
  useEffect(() => {
    const abort = new AbortController();
    follow(id, (now) => {
      version.current += 1;
      setJob(now);
    }, abort.signal).catch((problem) => {
      if (problem.name !== "AbortError") setError(problem);
    });
    return () => abort.abort();
  }, [id]);
  if (error) return html`<${Card}><${Failure} error=${error} again=${() => setQuery({ job: "" })} /><//>`;
  if (!job) return html`<${Card}><${Skeleton} /><//>`;
  const running = job.state === "running";
  return html`<${Card}
    title=${t("search.found", { n: number(job.rows) })}
    actions=${html`<${Badge} tone=${STATES[job.state]}>${t(`job.${job.state}`)}<//>
      ${!running && job.rows > 0 && html`<${LinkButton} small icon="download" href=${addressOf(path`/jobs/${id}/export`)} download title=${t("search.export.title")}>${t("search.export")}<//>`}
      ${running && may("read") && html`<${Button} small icon="stop" onClick=${() => attempt(() => del(path`/jobs/${id}`), t("job.cancelled.said"))}>${t("action.cancel")}<//>`}`}
    flush
  >
    ${running &&
    html`<div class="card-pad"><${Progress} done=${job.done} total=${job.total} /><p class="sub" role="status">${t("search.progress", { done: number(job.done), total: job.total ? number(job.total) : "?" })}</p></div>`}
    ${job.error && html`<${Failure} error=${{ message: job.error }} />`}
    ${job.result && job.result.ended !== "complete" && html`<p class="hint card-note">${t(`search.ended.${job.result.ended}`, { n: number(job.result.scanned) })}</p>`}
    ${!job.error &&
    html`<${RemoteTable}
      where=${path`/jobs/${id}/rows`}
      columns=${messageColumns()}
      label=${t("nav.messages")}
      filterText=${t("search.within")}
      rowKey=${(one) => `${one.broker} ${one.queueId} ${one.queueOffset}`}
      rowPlace=${messagePlace}
      prefix="r"
      version=${running ? version.current : `${job.state} ${job.rows}`}
      empty=${running ? html`<${Skeleton} />` : html`<${Empty} icon="search" title=${t("search.nothing")}>${t("search.nothing.text")}<//>`}
    />`}
  <//>`;
}

// Messages of any topic with a key or a unique id; one alone is shown at once.
function Anywhere({ word }) {
  const { data, error, reload } = useResource((abort) => get("/messages/anywhere", { word, limit: 64 }, abort), [word]);
  useEffect(() => {
    if (data?.items.length === 1) go(...messagePlace(data.items[0]), true);
  }, [data]);
  if (error) return html`<${Card}><${Failure} error=${error} again=${reload} /><//>`;
  if (!data) return html`<${Card}><${Skeleton} /><//>`;
  const numbers = { searched: number(data.searched), topics: number(data.topics) };
  return html`<${Card} title=${t("search.found", { n: number(data.items.length) })} flush>
    <${MissingBrokers} from=${data} />
    ${data.searched < data.topics && html`<p class="hint card-note">${t("search.any.some", numbers)}</p>`}
    ${data.items.length
      ? html`<${Table} columns=${messageColumns({ topic: true })} rows=${data.items} label=${t("nav.messages")} rowKey=${(one) => one.offsetId} rowPlace=${messagePlace} />`
      : html`<${Empty} icon="search" title=${t("search.nothing")}>${t("search.any.nothing", numbers)}<//>`}
  <//>`;
}

// A range of a queue.
function Piece({ query }) {
  const { topic, broker, queue, offset } = query;
  const piece = useResource((abort) => get("/messages/peek", { topic, broker, queueId: queue, offset, count: 50 }, abort), [topic, broker, queue, offset]);
  const move = (to) => () => setQuery({ offset: to });
  return html`<${Card}
    title=${`${broker} #${queue}`}
    actions=${piece.data &&
    html`<span class="pager-text">${t("search.piece", { min: number(piece.data.minimum), max: number(piece.data.maximum) })}</span>
      <${Button} small icon="left" disabled=${piece.data.previousOffset === null} onClick=${move(piece.data.previousOffset)}>${t("search.older")}<//>
      <${Button} small icon="right" disabled=${piece.data.nextOffset === null} onClick=${move(piece.data.nextOffset)}>${t("search.newer")}<//>`}
    flush
  >
    <${Loaded} from=${piece}>
      ${(page) =>
        page.items.length
          ? html`<${Table} columns=${messageColumns()} rows=${page.items} label=${t("nav.messages")} rowKey=${(one) => one.queueOffset} rowPlace=${messagePlace} />`
          : html`<${Empty} icon="messages" title=${t("search.emptyqueue")} />`}
    <//>
  <//>`;
}
