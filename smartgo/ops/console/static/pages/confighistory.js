// The history of settings, with undo.
import { html, useState } from "../app/html.js";
import { path, post } from "../app/api.js";
import { attempt, confirm } from "../app/dialog.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Time } from "../app/parts.js";
import { setQuery } from "../app/router.js";
import { RemoteTable } from "../app/table.js";
import { Change } from "./change.js";

export function ConfigHistory({ query }) {
  const [version, setVersion] = useState(0);
  async function undo(one) {
    await attempt(async () => {
      const [planned] = await post(path`/config/history/${one.id}/undo`, { dryRun: true });
      const sure = await confirm({
        title: t("config.undo"),
        text: html`<span>${t(`config.undo.${one.kept ? "kept" : "text"}`, { name: one.name })}</span> <${Change} before=${planned.before} after=${planned.value} />`,
        action: t("config.undo"),
        danger: false,
      });
      if (sure) await attempt(() => post(path`/config/history/${one.id}/undo`, {}), t("config.done", { name: one.name, value: planned.value }));
    });
    setVersion((before) => before + 1);
  }
  const columns = [
    { id: "at", title: t("column.when"), sort: "atMs", cell: (one) => html`<span class="nowrap"><${Time} ms=${one.atMs} /></span>` },
    { id: "name", title: t("config.setting"), sort: "name", cell: (one) => html`<code class="name">${one.name}</code>` },
    { id: "change", title: t("config.change"), cell: (one) => html`<${Change} before=${one.before} after=${one.after} />` },
    { id: "state", title: "", cell: (one) => html`<${Marks} one=${one} />` },
    { id: "who", title: t("column.who"), sort: "who", cell: (one) => html`<span class="name">${one.who}</span>${one.address !== one.who && html`<br /><span class="sub">${one.address}</span>`}` },
    { id: "id", title: t("config.number"), sort: "id", num: true, hide: true, cell: (one) => one.id },
    {
      id: "actions",
      title: "",
      tight: true,
      cell: (one) => one.undoable && html`<${Button} needs="admin" small icon="undo" onClick=${() => undo(one)} aria-label=${t("config.undo.of", { name: one.name, id: one.id })}>${t("config.undo")}<//>`,
    },
  ];
  return html`<${Card} flush>
    <${RemoteTable}
      where="/config/history"
      query=${{ setting: query.setting }}
      columns=${columns}
      defaultSort="-id"
      label=${t("config.tab.history")}
      filterText=${t("config.history.filter")}
      rowKey=${(one) => one.id}
      every=${15000}
      version=${version}
      extra=${query.setting && html`<span class="line"><code>${query.setting}</code> <button type="button" class="link" onClick=${() => setQuery({ setting: "", from: "" })}>${t("config.history.all")}</button></span>`}
      empty=${html`<${Empty} icon="audit" title=${t("config.history.none")}>${t("config.history.none.text")}<//>`}
    />
  <//>`;
}

function Marks({ one }) {
  return html`<span class="badges">
    <${Badge} tone=${one.kept ? "info" : "plain"}>${t(one.kept ? "config.kept" : "config.fornow")}<//>
    ${one.undoes && html`<${Badge}>${t("config.undoes", { id: one.undoes })}<//>`}
    ${one.undoneBy && html`<${Badge} tone="warn">${t("config.undoneby", { id: one.undoneBy })}<//>`}
  </span>`;
}
