// Jobs: those that are running, and those that ended within the last hour.
import { html } from "../app/html.js";
import { del, get, may, path, session } from "../app/api.js";
import { attempt } from "../app/dialog.js";
import { duration, number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Facts, Failure, Loaded, Page, Progress, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { go, href } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";

const TONES = { running: "info", done: "good", failed: "bad", cancelled: "warn" };

function stoppable(one) {
  return may("admin") || one.who === session.value?.name;
}

export default function Jobs({ parts }) {
  return parts.length ? html`<${Job} key=${parts[0]} id=${parts[0]} />` : html`<${List} />`;
}

function kind(one) {
  const words = t(`job.kind.${one.kind}`);
  return words.startsWith("job.kind.") ? one.kind : words;
}

function took(one) {
  return duration(((one.endedMs ?? Date.now()) - one.begunMs) / 1000);
}

function List() {
  const columns = [
    { id: "kind", title: t("column.kind"), sort: "kind", cell: (one) => html`<a class="name" href=${href(["jobs", one.id])}>${kind(one)}</a>` },
    { id: "state", title: t("column.state"), sort: "state", cell: (one) => html`<${Badge} tone=${TONES[one.state]}>${t(`job.${one.state}`)}<//>` },
    { id: "progress", title: t("job.progress"), cell: (one) => (one.state === "running" ? html`<${Progress} done=${one.done} total=${one.total} />` : html`<span class="soft">${one.error ?? one.doing}</span>`) },
    { id: "rows", title: t("job.rows"), num: true, cell: (one) => number(one.rows) },
    { id: "who", title: t("column.who"), sort: "who", hide: true, cell: (one) => one.who },
    { id: "begun", title: t("job.begun"), sort: "begunMs", hide: true, cell: (one) => html`<${Time} ms=${one.begunMs} />` },
    { id: "took", title: t("job.took"), num: true, hide: true, cell: took },
  ];
  return html`<${Page} title=${t("nav.jobs")} about=${t("job.about")}>
    <${Card} flush>
      <${RemoteTable}
        where="/jobs"
        columns=${columns}
        defaultSort="-begunMs"
        label=${t("nav.jobs")}
        rowKey=${(one) => one.id}
        rowPlace=${(one) => [["jobs", one.id]]}
        every=${2000}
        empty=${html`<${Empty} icon="jobs" title=${t("job.none")}>${t("job.none.text")}<//>`}
      />
    <//>
  <//>`;
}

function Job({ id }) {
  const job = useResource((abort) => get(path`/jobs/${id}`, null, abort), [id], 1500);
  const rows = useResource((abort) => get(path`/jobs/${id}/rows`, { limit: 50 }, abort), [id, job.data?.rows]);
  async function end(running) {
    const done = await attempt(() => del(path`/jobs/${id}`), t(running ? "job.cancelled.said" : "job.forgotten"));
    if (done && !running) go(["jobs"]);
    else job.reload();
  }
  return html`<${Loaded} from=${job}>
    ${(one) => {
      const running = one.state === "running";
      const names = rows.data?.items.length ? Object.keys(rows.data.items[0]).slice(0, 7) : [];
      const columns = names.map((name) => ({ id: name, title: name, cell: (row) => html`<code>${typeof row[name] === "object" ? JSON.stringify(row[name]) : String(row[name])}</code>` }));
      return html`<${Page}
        title=${kind(one)}
        crumbs=${[[t("nav.jobs"), "#/jobs"]]}
        actions=${html`${one.kind === "search" && html`<a class="button button-plain" href=${href(["messages"], { by: "time", job: id })}>${t("job.open")}</a>`}
          ${stoppable(one) && html`<${Button} icon=${running ? "stop" : "trash"} onClick=${() => end(running)}>${t(running ? "action.cancel" : "job.forget")}<//>`}`}
      >
        <${Card}>
          ${running && html`<${Progress} done=${one.done} total=${one.total} /><p class="sub">${one.doing}</p>`}
          <${Facts}
            rows=${[
              [t("column.state"), html`<${Badge} tone=${TONES[one.state]}>${t(`job.${one.state}`)}<//>`],
              [t("column.who"), one.who],
              [t("job.begun"), html`<${Time} ms=${one.begunMs} />`],
              [t("job.took"), took(one)],
              [t("job.rows"), number(one.rows)],
              one.result && [t("job.result"), html`<code>${JSON.stringify(one.result)}</code>`],
            ]}
          />
          ${one.error && html`<${Failure} error=${{ message: one.error }} />`}
        <//>
        ${columns.length > 0 && html`<${Card} title=${t("job.firstrows")} flush><${Table} columns=${columns} rows=${rows.data.items} label=${t("job.rows")} /><//>`}
      <//>`;
    }}
  <//>`;
}
