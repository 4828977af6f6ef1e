// Registry values.
import { html, useState } from "../app/html.js";
import { del, may, path, put } from "../app/api.js";
import { attempt, confirm, openDialog } from "../app/dialog.js";
import { t } from "../app/i18n.js";
import { Button, Card, Empty, Field, Page } from "../app/parts.js";
import { setQuery } from "../app/router.js";
import { RemoteTable } from "../app/table.js";

const FIRST = "ORDER_TOPIC_CONFIG";

export default function Kv({ query }) {
  const namespace = query.namespace || FIRST;
  const [wanted, setWanted] = useState(namespace);
  const [version, setVersion] = useState(0);
  const changed = () => setVersion((before) => before + 1);
  function edit(row) {
    openDialog(t(row ? "kv.edit" : "kv.new"), (close) => html`<${Form} namespace=${namespace} row=${row} close=${(done) => (close(done), done && changed())} />`);
  }
  async function remove(row) {
    const sure = await confirm({ title: t("kv.delete"), text: t("kv.delete.text", { name: row.name, namespace }), action: t("action.delete"), typed: row.name });
    if (sure && (await attempt(() => del(path`/kv/${namespace}/${row.name}`), t("kv.deleted", { name: row.name })))) changed();
  }
  function submit(event) {
    event.preventDefault();
    setQuery({ namespace: wanted.trim(), from: "", q: "" });
  }
  const columns = [
    { id: "name", title: t("column.name"), sort: "name", cell: (one) => html`<code class="name">${one.name}</code>` },
    { id: "value", title: t("column.value"), cell: (one) => html`<code>${one.value}</code>` },
    {
      id: "actions",
      title: "",
      tight: true,
      cell: (one) => may("admin") && html`<span class="badges"><${Button} small icon="edit" onClick=${() => edit(one)} aria-label=${t("action.edit")} title=${t("action.edit")} /><${Button} small icon="trash" kind="danger-plain" onClick=${() => remove(one)} aria-label=${t("action.delete")} title=${t("action.delete")} /></span>`,
    },
  ];
  return html`<${Page} title=${t("nav.kv")} about=${t("kv.about")} actions=${html`<${Button} needs="admin" kind="primary" icon="plus" onClick=${() => edit(null)}>${t("kv.new")}<//>`}>
    <${Card} flush>
      <form class="table-bar" onSubmit=${submit}>
        <${Field} inline label=${t("kv.namespace")}>${(field) => html`<input ...${field} class="mono" required pattern="[a-zA-Z0-9_.%\\-]+" value=${wanted} onInput=${(event) => setWanted(event.currentTarget.value)} />`}<//>
        <button type="submit" class="button button-plain button-small">${t("action.show")}</button>
      </form>
      <${RemoteTable}
        key=${namespace}
        where=${path`/kv/${namespace}`}
        columns=${columns}
        defaultSort="name"
        label=${t("nav.kv")}
        filterText=${t("config.filter")}
        rowKey=${(one) => one.name}
        version=${version}
        empty=${html`<${Empty} icon="kv" title=${t("kv.none", { namespace })} />`}
      />
    <//>
  <//>`;
}

function Form({ namespace, row, close }) {
  const [name, setName] = useState(row?.name ?? "");
  const [value, setValue] = useState(row?.value ?? "");
  async function submit(event) {
    event.preventDefault();
    if (await attempt(() => put(path`/kv/${namespace}/${name.trim()}`, { value }), t("kv.saved", { name }))) close(true);
  }
  return html`<form class="form" onSubmit=${submit}>
    <${Field} label=${t("column.name")}>${(field) => html`<input ...${field} class="mono" required disabled=${row !== null} value=${name} onInput=${(event) => setName(event.currentTarget.value)} />`}<//>
    <${Field} label=${t("column.value")}>${(field) => html`<textarea ...${field} rows="4" spellcheck=${false} value=${value} onInput=${(event) => setValue(event.currentTarget.value)}></textarea>`}<//>
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-primary" disabled=${!name.trim()}>${t("action.save")}</button>
    </div>
  </form>`;
}
