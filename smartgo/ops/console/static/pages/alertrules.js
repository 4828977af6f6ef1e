// Alert rules and their thresholds.
import { html, useState } from "../app/html.js";
import { get, path, put } from "../app/api.js";
import { attempt, openDialog } from "../app/dialog.js";
import { duration } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Check, Field, Loaded } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { Table } from "../app/table.js";
import { amount, ruleName, RuleTitle, Runbook, severityTone } from "./alertwords.js";

// In the order of the server's table.
export const RULES = [
  "broker-down",
  "broker-gone",
  "master-missing",
  "master-contended",
  "store-refuses",
  "recovery-long",
  "disk-full",
  "disk-full-tomorrow",
  "flush-behind",
  "index-behind",
  "transactions-old",
  "log-damaged",
  "put-failures",
  "reactor-stalls",
  "connections-turned-away",
  "held-pulls",
  "registration-refused",
  "access-files-refused",
  "replica-diverged",
  "replica-alone",
  "replica-behind",
  "clock-differs",
  "registry-down",
  "group-late",
  "group-behind",
  "group-stopped",
  "group-empty",
  "group-disabled",
  "group-lost-messages",
  "dead-letters",
];

export function AlertRules() {
  const found = useResource((abort) => get("/alerts/rules", null, abort), [], 0);
  async function edit(one) {
    if (await openDialog(ruleName(one.name), (close) => html`<${RuleForm} rule=${one} close=${close} />`)) found.reload();
  }
  const set = (one) => one.threshold !== one.defaultThreshold || one.seconds !== one.defaultSeconds;
  const columns = [
    { id: "severity", title: t("alerts.severity"), cell: (one) => html`<${Badge} tone=${one.enabled ? severityTone(one) : "plain"}>${t(`severity.${one.severity}`)}<//>` },
    { id: "what", title: t("alerts.what"), cell: (one) => html`<details class="setting"><summary><${RuleTitle} rule=${one.name} /></summary><p class="soft">${t(`alert.${one.name}.about`)}</p><${Runbook} one=${one} /></details>` },
    { id: "kind", title: t("alerts.kind"), hide: true, cell: (one) => t(`alerts.kind.${one.kind}`) },
    { id: "threshold", title: t("alerts.threshold"), num: true, cell: (one) => (one.adjustable ? html`<span class="nowrap">> ${amount(one.unit, one.threshold)}${one.window > 0 && html` <span class="sub">${t("alerts.window", { duration: duration(one.window) })}</span>`}</span>` : "") },
    { id: "seconds", title: t("alerts.for"), num: true, cell: (one) => (one.seconds ? duration(one.seconds) : t("alerts.atonce")) },
    { id: "marks", title: "", cell: (one) => html`<span class="badges">${!one.enabled && html`<${Badge} tone="warn">${t("alerts.off")}<//>`}${set(one) && html`<${Badge} tone="info">${t("alerts.set")}<//>`}</span>` },
    { id: "prometheus", title: "Prometheus", hide: true, cell: (one) => (one.prometheus ? html`<code class="sub">${one.prometheus}</code>` : html`<span class="faint">–</span>`) },
    { id: "actions", title: "", tight: true, cell: (one) => html`<${Button} needs="admin" small icon="edit" onClick=${() => edit(one)} aria-label=${t("config.edit", { name: ruleName(one.name) })} title=${t("config.edit", { name: ruleName(one.name) })} />` },
  ];
  return html`<${Card} flush>
    <${Loaded} from=${found}>
      ${(rows) => html`<${Table} columns=${columns} rows=${rows} label=${t("alerts.tab.rules")} rowKey=${(one) => one.name} />`}
    <//>
  <//>`;
}

// Ratios are edited in percent, bytes in MiB.
const SCALES = { ratio: 100, bytes: 1 / 1048576 };

function RuleForm({ rule, close }) {
  const scale = SCALES[rule.unit] ?? 1;
  const [threshold, setThreshold] = useState(String(Number((rule.threshold * scale).toPrecision(12))));
  const [seconds, setSeconds] = useState(String(rule.seconds));
  const [enabled, setEnabled] = useState(rule.enabled);
  const [busy, setBusy] = useState(false);
  async function save(body) {
    setBusy(true);
    const done = await attempt(() => put(path`/alerts/rules/${rule.name}`, body), t("alerts.rule.saved"));
    setBusy(false);
    if (done) close(true);
  }
  function submit(event) {
    event.preventDefault();
    save({ threshold: rule.adjustable ? Number(threshold) / scale : null, seconds: Number(seconds), enabled });
  }
  return html`<form class="form" onSubmit=${submit}>
    <p class="dialog-text">${t(`alert.${rule.name}.about`)}</p>
    ${rule.adjustable &&
    html`<${Field} label=${`${t("alerts.threshold")} (${t(`alerts.unit.${rule.unit}`)})`} hint=${`${t("config.default")}: ${amount(rule.unit, rule.defaultThreshold)}`}>
      ${(field) => html`<input ...${field} type="number" required min="0" step="any" value=${threshold} onInput=${(event) => setThreshold(event.currentTarget.value)} />`}
    <//>`}
    <${Field} label=${t("alerts.for.seconds")} hint=${`${t("config.default")}: ${rule.defaultSeconds ? duration(rule.defaultSeconds) : t("alerts.atonce")}`}>
      ${(field) => html`<input ...${field} type="number" required min="0" max="86400" step="1" value=${seconds} onInput=${(event) => setSeconds(event.currentTarget.value)} />`}
    <//>
    <${Check} label=${t("alerts.rule.on")} checked=${enabled} onChange=${setEnabled} />
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="button" class="button button-plain" disabled=${busy} onClick=${() => save({})}>${t("alerts.rule.reset")}</button>
      <button type="submit" class="button button-primary" disabled=${busy}>${t("action.save")}</button>
    </div>
  </form>`;
}
