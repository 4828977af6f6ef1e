// The audit log: all changes and attempts.
import { html } from "../app/html.js";
import { t } from "../app/i18n.js";
import { Badge, Card, Empty, Page, Select, Time } from "../app/parts.js";
import { setQuery } from "../app/router.js";
import { RemoteTable } from "../app/table.js";

export default function Audit({ query }) {
  const columns = [
    { id: "at", title: t("column.when"), sort: "atMs", cell: (one) => html`<span class="nowrap"><${Time} ms=${one.atMs} /></span>` },
    { id: "who", title: t("column.who"), sort: "who", cell: (one) => html`<span class="name">${one.who}</span><br /><span class="sub">${one.address}</span>` },
    { id: "action", title: t("audit.action"), cell: (one) => html`<code>${one.action}</code>` },
    { id: "subject", title: t("audit.subject"), cell: (one) => html`<code>${Object.values(one.subject).join(" ")}</code>` },
    { id: "detail", title: t("audit.detail"), hide: true, cell: (one) => Object.keys(one.detail).length > 0 && html`<details><summary>${t("action.show")}</summary><pre class="code-wrap">${JSON.stringify(one.detail, null, 2)}</pre></details>` },
    { id: "status", title: t("audit.result"), sort: "status", num: true, cell: (one) => html`<${Badge} tone=${one.status < 400 ? "good" : "bad"} title=${one.error}>${one.status}<//>` },
  ];
  return html`<${Page} title=${t("nav.audit")} about=${t("audit.about")}>
    <${Card} flush>
      <${RemoteTable}
        where="/audit"
        query=${{ failed: query.failed }}
        columns=${columns}
        defaultSort="-atMs"
        label=${t("nav.audit")}
        filterText=${t("audit.filter")}
        rowKey=${(one) => one.requestId}
        every=${10000}
        extra=${html`<${Select} aria-label=${t("audit.result")} value=${query.failed ?? ""} options=${[["", t("audit.all")], ["true", t("audit.failed")], ["false", t("audit.well")]]} onChange=${(failed) => setQuery({ failed, from: "" })} />`}
        empty=${html`<${Empty} icon="audit" title=${t("audit.none")} />`}
      />
    <//>
  <//>`;
}
