// Receivers of alert notices: the state of delivery, and a test.
import { html } from "../app/html.js";
import { get, path, post } from "../app/api.js";
import { attempt, openDialog } from "../app/dialog.js";
import { number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Loaded, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { Table } from "../app/table.js";

const TONES = { delivered: "good", failed: "bad", unused: "plain" };

export function AlertReceivers() {
  const found = useResource((abort) => get("/alerts/receivers", null, abort), [], 10000);
  async function test(one) {
    await attempt(async () => {
      const result = await post(path`/alerts/receivers/${one.name}/test`);
      await openDialog(t("receiver.test"), (close) => html`<${Result} name=${one.name} result=${result} close=${close} />`);
    });
    found.reload();
  }
  const columns = [
    { id: "name", title: t("receiver.name"), cell: (one) => html`<b>${one.name}</b> <span class="sub">${t(`receiver.kind.${one.kind}`)}</span>` },
    { id: "severity", title: t("receiver.from"), hide: true, cell: (one) => html`<${Badge} tone=${one.severity === "critical" ? "bad" : "warn"}>${t(`severity.${one.severity}`)}<//>` },
    { id: "state", title: t("alerts.state"), cell: (one) => html`<${Badge} tone=${TONES[one.state]}>${t(`receiver.state.${one.state}`)}<//>${one.lastError && html`<p class="sub">${one.lastError} · <${Time} ms=${one.lastErrorMs} relative /></p>`}` },
    { id: "pending", title: t("receiver.pending"), num: true, cell: (one) => html`${number(one.pending)}${one.nextMs && html` <span class="sub nowrap"><${Time} ms=${one.nextMs} /></span>`}` },
    { id: "sent", title: t("receiver.sent"), num: true, cell: (one) => number(one.sent) },
    { id: "failed", title: t("receiver.failed"), num: true, hide: true, cell: (one) => html`${number(one.failed)}${one.dropped > 0 && html` <span class="tone-bad">${t("receiver.dropped", { n: number(one.dropped) })}</span>`}` },
    { id: "last", title: t("receiver.last"), hide: true, cell: (one) => (one.lastSentMs ? html`<span class="nowrap"><${Time} ms=${one.lastSentMs} relative /></span>` : "–") },
    { id: "actions", title: "", tight: true, cell: (one) => html`<${Button} needs="admin" small icon="send" onClick=${() => test(one)}>${t("receiver.test")}<//>` },
  ];
  return html`<${Card} title=${t("alerts.tab.receivers")} flush>
    <${Loaded} from=${found}>
      ${(rows) => (rows.length ? html`<${Table} columns=${columns} rows=${rows} label=${t("alerts.tab.receivers")} rowKey=${(one) => one.name} />` : html`<${Empty} icon="alerts" title=${t("receiver.none")}>${t("receiver.none.text")}<//>`)}
    <//>
  <//>`;
}

function Result({ name, result, close }) {
  return html`<div class="form">
    <p class=${`hint ${result.delivered ? "" : "hint-warn"}`} role="status">${t(result.delivered ? "receiver.taken" : "receiver.refused", { name, ms: number(result.tookMs) })}</p>
    <pre class="code-wrap">${result.answer}</pre>
    <div class="dialog-foot"><button type="button" class="button button-primary" onClick=${() => close()}>${t("action.close")}</button></div>
  </div>`;
}
