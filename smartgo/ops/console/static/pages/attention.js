// Problems that need attention, derived from the data of the overview.
import { html } from "../app/html.js";
import { masterless } from "../app/brokers.js";
import { duration, number, percent } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Icon } from "../app/icons.js";
import { Card } from "../app/parts.js";
import { href } from "../app/router.js";

const DISK_FULL = 0.85; // of a disk: RocketMQ begins to delete there, whatever the age
const DISK_OVER = 0.95;
const LATE = 600; // seconds that a group is behind
const MOST = 8;

// Findings, the worst first: { tone, text, place }.
function findings(brokers, groups) {
  const found = [];
  for (const one of brokers) {
    const place = ["cluster", one.name];
    if (!one.up) found.push({ tone: "bad", place, text: t("attention.down", { name: one.name, address: one.address }) });
    else if (one.diskRatio >= DISK_FULL) {
      const tone = one.diskRatio >= DISK_OVER ? "bad" : "warn";
      found.push({ tone, place, text: t("attention.disk", { name: one.name, ratio: percent(one.diskRatio) }) });
    }
  }
  for (const name of masterless(brokers)) {
    found.push({ tone: "bad", place: ["cluster"], text: t("attention.masterless", { name }) });
  }
  for (const one of groups) {
    const lag = one.progress?.lag ?? 0;
    if (!lag) continue;
    const place = ["groups", one.name];
    const values = { name: one.name, n: number(lag), duration: duration(one.progress.lagMs / 1000) };
    if (!one.consumeEnabled) found.push({ tone: "bad", place, text: t("attention.disabled", values) });
    else if (one.members === 0) found.push({ tone: "warn", place, text: t("attention.nobody", values) });
    else if (one.progress.lagMs >= LATE * 1000) found.push({ tone: "warn", place, text: t("attention.late", values) });
  }
  return found.sort((one, other) => (other.tone === "bad") - (one.tone === "bad"));
}

export function Attention({ brokers, groups }) {
  const found = findings(brokers, groups);
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
