// The settings of the process that serves this console, each with where it comes from.
import { html } from "../app/html.js";
import { get } from "../app/api.js";
import { t } from "../app/i18n.js";
import { Badge, Card, Check, Empty, Facts, Loaded, Page, Select } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { setQuery } from "../app/router.js";
import { RemoteTable } from "../app/table.js";
import { number } from "../app/format.js";

const TABLES = ["", "broker", "registry", "store", "ha", "limits", "tls", "ops"];
const TONES = { default: "plain", environment: "info", file: "good", flag: "warn", request: "warn" };

export default function Config({ query }) {
  const changed = query.changed === "yes";
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
    { id: "origin", title: t("config.origin"), sort: "origin", cell: (one) => html`<${Badge} tone=${TONES[one.origin]} title=${one.place}>${t(`origin.${one.origin}`)}<//> ${one.place && html`<code class="sub">${one.place}</code>`}` },
  ];
  return html`<${Page} title=${t("nav.config")} about=${t("config.about")}>
    <${Card} flush>
      <${RemoteTable}
        where="/config"
        query=${{ table: query.table, changed: changed ? true : undefined }}
        columns=${columns}
        defaultSort="table"
        label=${t("nav.config")}
        filterText=${t("config.filter")}
        rowKey=${(one) => `${one.table} ${one.name}`}
        extra=${html`<${Select} aria-label=${t("config.table")} value=${query.table ?? ""} options=${TABLES.map((one) => [one, one || t("config.tables")])} onChange=${(table) => setQuery({ table, from: "" })} />
          <${Check} label=${t("config.changed")} checked=${changed} onChange=${(on) => setQuery({ changed: on ? "yes" : "", from: "" })} />`}
        empty=${html`<${Empty} icon="config" title=${t("config.none")}>${t("config.none.text")}<//>`}
      />
    <//>
    <${Process} />
  <//>`;
}

// Figures that no remoting request tells.
function Process() {
  const figures = useResource((abort) => get("/process", null, abort), [], 5000);
  return html`<${Loaded} from=${figures}>
    ${(found) => Object.keys(found).length > 0 && html`<${Card} title=${t("config.process")}><${Facts} rows=${Object.entries(found).map(([name, value]) => [name, number(value)])} /><//>`}
  <//>`;
}
