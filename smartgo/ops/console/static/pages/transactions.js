// Transactions: what no producer has decided yet, and what was given up; resume the check of one.
import { html, useState } from "../app/html.js";
import { path, post } from "../app/api.js";
import { attempt, confirm } from "../app/dialog.js";
import { number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Page, Select, Time } from "../app/parts.js";
import { href, setQuery } from "../app/router.js";
import { RemoteTable } from "../app/table.js";

const TONES = { pending: "info", givenUp: "bad", committed: "good", rolledBack: "plain", unknown: "plain" };

export default function Transactions({ query }) {
  const [page, setPage] = useState(null);
  const [version, setVersion] = useState(0);
  const state = query.state === "givenUp" ? "givenUp" : "pending";
  async function resume(one) {
    const id = one.id || one.offsetId;
    const sure = await confirm({ title: t("transactions.resume.title"), text: t("transactions.resume.text", { id }), action: t("transactions.resume"), danger: false });
    if (sure && (await attempt(() => post(path`/transactions/${one.offsetId}/resume`), t("transactions.resumed")))) setVersion((before) => before + 1);
  }
  const columns = [
    { id: "id", title: t("transactions.id"), sort: "id", cell: (one) => html`<code class="name">${one.id || one.offsetId}</code>` },
    { id: "state", title: t("alerts.state"), cell: (one) => html`<${Badge} tone=${TONES[one.state]}>${t(`transactions.state.${one.state}`)}<//>` },
    { id: "group", title: t("column.group"), sort: "group", cell: (one) => one.group },
    { id: "topic", title: t("column.topic"), sort: "topic", cell: (one) => html`<a href=${href(["topics", one.topic])}>${one.topic}</a>` },
    { id: "broker", title: t("column.broker"), sort: "broker", hide: true, cell: (one) => one.broker },
    { id: "born", title: t("transactions.born"), sort: "bornMs", num: true, cell: (one) => html`<${Time} ms=${one.bornMs} relative />` },
    { id: "checks", title: t("transactions.checks"), sort: "checks", num: true, cell: (one) => `${number(one.checks)} / ${number(one.checkLimit)}` },
    { id: "producers", title: t("transactions.producers"), num: true, cell: (one) => html`<span class=${one.producers ? "" : "tone-warn"} title=${one.producers ? "" : t("transactions.producers.none")}>${number(one.producers)}</span>` },
  ];
  if (state === "givenUp") {
    columns.push({ id: "givenup", title: t("transactions.givenup"), num: true, cell: (one) => html`<${Time} ms=${one.givenUpMs} relative />` });
    columns.push({ id: "actions", title: "", tight: true, cell: (one) => one.state === "givenUp" && html`<${Button} needs="admin" small onClick=${() => resume(one)}>${t("transactions.resume")}<//>` });
  }
  return html`<${Page} title=${t("nav.transactions")} about=${t("transactions.about")}>
    <${Card} flush>
      <${RemoteTable}
        key=${state}
        where="/transactions"
        query=${{ state, group: query.group }}
        columns=${columns}
        defaultSort=${state === "pending" ? "bornMs" : "-bornMs"}
        label=${t("nav.transactions")}
        filterText=${t("transactions.filter")}
        rowKey=${(one) => `${one.broker} ${one.offsetId}`}
        every=${10000}
        version=${version}
        onLoaded=${setPage}
        extra=${html`<${Select} aria-label=${t("alerts.state")} value=${state} options=${["pending", "givenUp"].map((one) => [one, t(`transactions.state.${one}`)])} onChange=${(chosen) => setQuery({ state: chosen, from: "", sort: "" })} />
          ${page?.truncated && html`<p class="hint hint-warn">${t("transactions.more")}</p>`}`}
        empty=${html`<${Empty} icon="check" title=${t(`transactions.none.${state}`)} />`}
      />
    <//>
  <//>`;
}
