// Texts of alerts: the rule, its subject, its value.
import { html } from "../app/html.js";
import { bytes, duration, number, percent } from "../app/format.js";
import { t } from "../app/i18n.js";
import { href } from "../app/router.js";

// The subject of silences of alerts about the process itself, which have none.
export const PROCESS = "the process";
const PLACES = { broker: "cluster", group: "groups", registry: "cluster", process: "cluster" };
export const STATE_TONES = { firing: "bad", pending: "info", resolved: "good" };

export function amount(unit, value) {
  if (unit === "ratio") return percent(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "seconds") return duration(value);
  return number(value);
}

export function severityTone(one) {
  return one.severity === "critical" ? "bad" : "warn";
}

export function ruleName(rule) {
  return t(`alert.${rule}`);
}

// Show a rule's title with its key, which commands, notices and the REST API use.
export function RuleTitle({ rule }) {
  return html`<b>${ruleName(rule)}</b> <code class="sub">${rule}</code>`;
}

// Return the keys of the rules whose titles contain a text, for the search of a list of alerts.
export function rulesTitled(rules, text) {
  const wanted = (text ?? "").toLowerCase();
  return wanted ? rules.filter((rule) => ruleName(rule).toLowerCase().includes(wanted)).join(",") : "";
}

// Return the link to what to do about a rule's alerts; without an address, the name of the page.
export function Runbook({ one }) {
  return html`<p class="sub">${t("alerts.runbook")}: ${/^https?:/.test(one.runbook) ? html`<a href=${one.runbook} target="_blank" rel="noopener noreferrer">${one.runbook}</a>` : html`<code>${one.runbook}</code>`}</p>`;
}

// Return the page of an alert's subject: a broker or a group; for a registry, the cluster.
export function Subject({ one }) {
  if (!one.subject) return html`<span class="soft">${t("alerts.process")}</span>`;
  const name = one.kind === "broker" ? one.subject.split("#")[0] : one.subject;
  const place = one.kind === "registry" ? ["cluster"] : [PLACES[one.kind], name];
  return html`<a class="name" href=${href(place)}>${one.subject}</a>`;
}
