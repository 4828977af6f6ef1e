// Problems that need attention, derived from the data of the overview; the server's alert rules have the thresholds.
import { html } from "../app/html.js";
import { masterless, missingText, processName } from "../app/brokers.js";
import { ago, duration, durationMs, number, percent } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Icon } from "../app/icons.js";
import { Card } from "../app/parts.js";
import { href } from "../app/router.js";

const MOST = 8;

// The tone of a value by the alert rule of that name: null within its threshold, or while the rule is unknown or disabled.
function toneOf(rules, name, value) {
  const rule = rules.find((one) => one.name === name && one.enabled);
  if (rule === undefined || !(value > rule.threshold)) return null;
  return rule.severity === "critical" || (rule.grave !== null && value >= rule.grave) ? "bad" : "warn";
}

// Findings, the worst first: { tone, text, place }.
function findings(brokers, registries, groups, rules) {
  const found = [];
  for (const one of registries) {
    if (!one.up) found.push({ tone: "bad", place: ["cluster"], text: t("attention.registry", { address: one.address }) });
  }
  for (const one of brokers) {
    const place = ["cluster", one.name];
    if (one.state === "missing") {
      const text = t("attention.missing", { name: processName(one), ago: ago(one.lastSeenMs) });
      found.push({ tone: "bad", place, text: `${text} ${missingText(one)}`.trim() });
    } else if (!one.up) found.push({ tone: "bad", place, text: t("attention.down", { name: one.name, address: one.address }) });
    else {
      const tone = toneOf(rules, "disk-full", one.diskRatio);
      if (tone) found.push({ tone, place, text: t("attention.disk", { name: one.name, ratio: percent(one.diskRatio) }) });
      if (one.contenders.length) found.push({ tone: "bad", place, text: t("attention.contended", { name: one.name, addresses: one.contenders.join(", ") }) });
      if (one.refusal) found.push({ tone: "bad", place, text: t("attention.refuses", { name: one.name, reason: one.refusal }) });
      const offset = one.clockOffset ?? 0;
      const clock = toneOf(rules, "clock-differs", Math.abs(offset));
      if (clock) found.push({ tone: clock, place, text: t(offset > 0 ? "attention.clock.ahead" : "attention.clock.behind", { name: one.name, duration: duration(Math.abs(offset)) }) });
    }
  }
  const missing = new Set(brokers.filter((one) => one.id === 0 && one.state === "missing").map((one) => one.name));
  for (const name of masterless(brokers)) {
    if (!missing.has(name)) found.push({ tone: "bad", place: ["cluster"], text: t("attention.masterless", { name }) });
  }
  for (const one of groups) {
    const removed = one.progress?.removedUnread ?? 0;
    if (removed) found.push({ tone: "bad", place: ["groups", one.name], text: tn("attention.removed", removed, { name: one.name }) });
    const lag = one.progress?.lag ?? 0;
    if (!lag) continue;
    const place = ["groups", one.name];
    const values = { name: one.name, n: number(lag), duration: durationMs(one.progress.lagMs) };
    if (!one.consumeEnabled) found.push({ tone: "bad", place, text: t("attention.disabled", values) });
    else if (one.members === 0) found.push({ tone: "warn", place, text: t("attention.nobody", values) });
    else {
      const tone = toneOf(rules, "group-late", (one.progress.lagMs ?? 0) / 1000);
      if (tone) found.push({ tone, place, text: t(one.progress.consumeTps > 0 ? "attention.late" : "attention.stopped", values) });
    }
  }
  return found.sort((one, other) => (other.tone === "bad") - (one.tone === "bad"));
}

export function Attention({ brokers, registries, groups, rules }) {
  const found = findings(brokers, registries, groups, rules);
  if (!found.length) return null;
  return html`<${Card} title=${t("attention.title")} flush>
    <ul class="attention" role="status">
      ${found.slice(0, MOST).map(
        (one) => html`<li key=${one.text}>
          <a href=${href(one.place)}><span class=${`tone-${one.tone}`}><${Icon} name="dlq" size=${16} /></span><span>${one.text}</span></a>
        </li>`,
      )}
    </ul>
  <//>`;
}
