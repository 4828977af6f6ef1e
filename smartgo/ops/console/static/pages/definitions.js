// Export and import of the settings of topics and groups, with a preview before the import.
import { html, useState } from "../app/html.js";
import { del, file, get, path, post } from "../app/api.js";
import { attempt, confirm, toast } from "../app/dialog.js";
import { number } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Badge, Button, Card, Check, Empty, Failure, Field, Page, Progress, Skeleton } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { RemoteTable } from "../app/table.js";
import { save } from "./message.js";

const LONGEST = 4 * 1024 * 1024; // bytes that the API takes
const TONES = { create: "info", change: "warn", same: "plain", refused: "bad", created: "good", changed: "good", failed: "bad", left: "warn" };

export default function Definitions() {
  return html`<${Page} title=${t("nav.definitions")} about=${t("definitions.about")}>
    <${Out} />
    <${In} />
  <//>`;
}

function words(text) {
  return text.split(/[\s,;]+/).filter(Boolean);
}

function Out() {
  const [q, setQ] = useState("");
  const [namespaces, setNamespaces] = useState("");
  function submit(event) {
    event.preventDefault();
    attempt(async () => save(await file("/definitions", { q: q.trim(), namespace: words(namespaces) }), "definitions.json"), t("definitions.saved"));
  }
  return html`<${Card} title=${t("definitions.out")}>
    <form class="form" onSubmit=${submit}>
      <p class="soft">${t("definitions.out.text")}</p>
      <div class="form-row">
        <${Field} label=${t("definitions.part")} hint=${t("definitions.part.hint")}>${(field) => html`<input ...${field} class="mono" maxlength="127" autocomplete="off" value=${q} onInput=${(event) => setQ(event.currentTarget.value)} />`}<//>
        <${Field} label=${t("definitions.namespaces")} hint=${t("definitions.namespaces.hint")}>${(field) => html`<input ...${field} class="mono" autocomplete="off" value=${namespaces} onInput=${(event) => setNamespaces(event.currentTarget.value)} />`}<//>
      </div>
      <div class="form-foot"><button type="submit" class="button button-primary">${t("definitions.download")}</button></div>
    </form>
  <//>`;
}

function In() {
  const [chosen, setChosen] = useState(null);
  const [brokers, setBrokers] = useState("");
  const [skipRefused, setSkip] = useState(false);
  const [job, setJob] = useState(null); // { id, dryRun }
  const [result, setResult] = useState(null); // of the look before
  function reset() {
    setJob(null);
    setResult(null);
  }
  async function choose(event) {
    const [picked] = event.currentTarget.files;
    reset();
    setChosen(null);
    if (!picked) return;
    if (picked.size > LONGEST) {
      toast(t("definitions.long"), "bad");
      return;
    }
    try {
      setChosen({ name: picked.name, definitions: JSON.parse(await picked.text()) });
    } catch (error) {
      toast(t("definitions.nojson", { name: picked.name, error: error.message }), "bad");
    }
  }
  function start(dryRun) {
    const named = words(brokers);
    return attempt(async () => {
      const begun = await post("/definitions/import", { definitions: chosen.definitions, brokers: named.length ? named : null, skipRefused, dryRun });
      setResult(null);
      setJob({ id: begun.id, dryRun });
    });
  }
  const due = result ? (result.counts.create ?? 0) + (result.counts.change ?? 0) : 0;
  const refused = result?.counts.refused ?? 0;
  async function bring() {
    const sure = await confirm({ title: t("definitions.in"), text: tn("definitions.sure", due), action: t("definitions.bring"), danger: false });
    if (sure) start(false);
  }
  function look(event) {
    event.preventDefault();
    start(true);
  }
  return html`<${Card} title=${t("definitions.in")}>
      <form class="form" onSubmit=${look}>
        <p class="soft">${t("definitions.in.text")}</p>
        <div class="form-row">
          <${Field} label=${t("definitions.file")}>${(field) => html`<input ...${field} type="file" accept=".json,application/json" onChange=${choose} />`}<//>
          <${Field} label=${t("definitions.brokers")} hint=${t("definitions.brokers.hint")}>${(field) => html`<input ...${field} class="mono" autocomplete="off" value=${brokers} onInput=${(event) => (reset(), setBrokers(event.currentTarget.value))} />`}<//>
        </div>
        <${Check} label=${t("definitions.skip")} checked=${skipRefused} onChange=${setSkip} />
        <div class="form-foot">
          <button type="submit" class="button button-plain" disabled=${!chosen}>${t("definitions.look")}</button>
          <${Button} kind="primary" disabled=${!due || (refused > 0 && !skipRefused)} onClick=${bring}>${due ? tn("definitions.bring.count", due) : t("definitions.bring")}<//>
        </div>
      </form>
    <//>
    ${job && html`<${Outcomes} key=${job.id} ...${job} onDone=${(found) => job.dryRun && setResult(found)} />`}`;
}

// The outcome of each item, of a preview or an import.
function Outcomes({ id, dryRun, onDone }) {
  const [over, setOver] = useState(false);
  const found = useResource(
    async (abort) => {
      const one = await get(path`/jobs/${id}`, null, abort);
      if (one.state !== "running") {
        setOver(true);
        if (one.result) onDone(one.result);
      }
      return one;
    },
    [id],
    over ? 0 : 500,
  );
  if (found.error) return html`<${Card}><${Failure} error=${found.error} /><//>`;
  if (!found.data) return html`<${Card}><${Skeleton} lines=${3} /><//>`;
  const { state, done, total, doing, rows, result, error } = found.data;
  const columns = [
    { id: "kind", title: t("column.kind"), cell: (one) => t(`definitions.kind.${one.kind}`) },
    { id: "name", title: t("column.name"), cell: (one) => html`<code class="name">${one.name}</code>` },
    { id: "broker", title: t("column.broker"), hide: true, cell: (one) => one.broker ?? "–" },
    { id: "outcome", title: t("definitions.outcome"), cell: (one) => html`<${Badge} tone=${TONES[one.outcome]}>${t(`outcome.${one.outcome}`)}<//>` },
    { id: "why", title: t("definitions.why"), cell: (one) => html`${Object.entries(one.changes).map(([name, [before, after]]) => html`<div key=${name}><code>${name}: ${shown(before)} → ${shown(after)}</code></div>`)}${one.reason}` },
  ];
  return html`<${Card}
    title=${t(dryRun ? "definitions.would" : "definitions.became")}
    flush
    actions=${result && html`<span class="badges" role="status">${Object.entries(result.counts).map(([name, count]) => html`<${Badge} key=${name} tone=${TONES[name]}>${t(`outcome.${name}`)} ${number(count)}<//>`)}</span>`}
  >
    ${state === "running" &&
    html`<div class="table-bar"><${Progress} done=${done} total=${total} /><span class="sub">${doing}</span><${Button} small onClick=${() => attempt(() => del(path`/jobs/${id}`))}>${t("action.cancel")}<//></div>`}
    ${error && html`<${Failure} error=${{ message: error }} />`}
    ${state === "cancelled" && html`<p class="hint hint-warn">${t("job.cancelled")}</p>`}
    ${rows > 0 &&
    html`<${RemoteTable}
      where=${path`/jobs/${id}/rows`}
      columns=${columns}
      label=${t("definitions.outcome")}
      filterText=${t("config.filter")}
      rowKey=${(one) => `${one.kind} ${one.name} ${one.broker}`}
      version=${`${state} ${done}`}
    />`}
    ${rows === 0 && state === "done" && html`<${Empty} icon="definitions" title=${t("definitions.nothing")} />`}
  <//>`;
}

function shown(value) {
  return value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
}
