// The settings of the process that serves this console: values with their source, changes, and their history.
import { html, useState } from "../app/html.js";
import { get, may } from "../app/api.js";
import { openDialog } from "../app/dialog.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Check, Empty, Facts, Loaded, Page, Select, Tabs } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href, setQuery } from "../app/router.js";
import { RemoteTable } from "../app/table.js";
import { number } from "../app/format.js";
import { ConfigHistory } from "./confighistory.js";
import { SettingForm } from "./settingform.js";

const TABLES = ["", "broker", "registry", "store", "ha", "limits", "tls", "ops"];
export const ORIGIN_TONES = { default: "plain", environment: "info", file: "good", kept: "info", flag: "warn", request: "warn" };

export default function Config({ parts, query }) {
  const tab = parts[0] === "history" ? "history" : "settings";
  const tabs = [
    ["settings", t("config.tab.settings"), href(["config"])],
    ["history", t("config.tab.history"), href(["config", "history"])],
  ];
  return html`<${Page} title=${t("nav.config")} about=${t("config.about")}>
    <${Tabs} tabs=${tabs} chosen=${tab} label=${t("nav.config")} />
    ${tab === "history" ? html`<${ConfigHistory} query=${query} />` : html`<${Settings} query=${query} /><${Process} />`}
  <//>`;
}

function Settings({ query }) {
  const [version, setVersion] = useState(0);
  const changed = query.changed === "yes";
  const changeable = query.changeable === "yes";
  async function edit(one) {
    const done = await openDialog(one.name, (close) => html`<${SettingForm} setting=${one} close=${close} />`);
    if (done) setVersion((before) => before + 1);
  }
  const columns = [
    {
      id: "name",
      title: t("config.setting"),
      sort: "name",
      cell: (one) => html`<details class="setting"><summary><code class="name">${one.name}</code></summary><p class="soft">${one.about}</p>
        <p class="sub">${t("config.allowed")}: ${one.allowed || "–"}${one.origin !== "default" && html` · ${t("config.default")}: <code>${one.default || "–"}</code>`}</p></details>`,
    },
    { id: "table", title: t("config.table"), sort: "table", hide: true, cell: (one) => one.table },
    { id: "value", title: t("column.value"), cell: (one) => html`<code>${one.value === "" ? "–" : one.value}</code>` },
    { id: "origin", title: t("config.origin"), sort: "origin", cell: (one) => html`<${Badge} tone=${ORIGIN_TONES[one.origin]} title=${one.place}>${t(`origin.${one.origin}`)}<//> ${one.place && html`<code class="sub">${one.place}</code>`}` },
    {
      id: "actions",
      title: "",
      tight: true,
      cell: (one) =>
        one.changeable &&
        may("admin") &&
        html`<span class="row-actions"
          ><${Button} small kind="ghost" icon="audit" onClick=${() => (location.hash = href(["config", "history"], { setting: one.name }))} aria-label=${t("config.past", { name: one.name })} title=${t("config.past", { name: one.name })} />
          <${Button} small icon="edit" onClick=${() => edit(one)} aria-label=${t("config.edit", { name: one.name })} title=${t("config.edit", { name: one.name })} /></span
        >`,
    },
  ];
  return html`<${Card} flush>
    <${RemoteTable}
      where="/config"
      query=${{ table: query.table, changed: changed ? true : undefined, changeable: changeable ? true : undefined }}
      columns=${columns}
      defaultSort="table"
      label=${t("nav.config")}
      filterText=${t("config.filter")}
      rowKey=${(one) => `${one.table} ${one.name}`}
      version=${version}
      extra=${html`<${Select} aria-label=${t("config.table")} value=${query.table ?? ""} options=${TABLES.map((one) => [one, one || t("config.tables")])} onChange=${(table) => setQuery({ table, from: "" })} />
        <${Check} label=${t("config.changed")} checked=${changed} onChange=${(on) => setQuery({ changed: on ? "yes" : "", from: "" })} />
        <${Check} label=${t("config.changeable")} checked=${changeable} onChange=${(on) => setQuery({ changeable: on ? "yes" : "", from: "" })} />`}
      empty=${html`<${Empty} icon="config" title=${t("config.none")}>${t("config.none.text")}<//>`}
    />
  <//>`;
}

// Figures of the process that no remoting request returns.
function Process() {
  const figures = useResource((abort) => get("/process", null, abort), [], 5000);
  return html`<${Loaded} from=${figures}>
    ${(found) => Object.keys(found).length > 0 && html`<${Card} title=${t("config.process")}><${Facts} rows=${Object.entries(found).map(([name, value]) => [name, number(value)])} /><//>`}
  <//>`;
}
