// Facts about brokers that several pages show.
import { html } from "./html.js";
import { number } from "./format.js";
import { t, tn } from "./i18n.js";
import { Badge } from "./parts.js";

// Return the names of which only slaves are registered: they cannot store messages.
export function masterless(brokers) {
  const registered = brokers.filter((one) => one.state !== "missing");
  const led = new Set(registered.filter((one) => one.id === 0).map((one) => one.name));
  return [...new Set(registered.map((one) => one.name))].filter((name) => !led.has(name));
}

// The name of a broker process in a sentence.
export function processName(one) {
  return one.id === 0 ? one.name : t("broker.slave", { name: one.name, id: one.id });
}

// The state of a broker process, where it is not well.
export function ProcessBadge({ one }) {
  if (one.state === "up") return null;
  return html`<${Badge} tone="bad">${t(`broker.process.${one.state}`)}<//>`;
}

// A sentence about what cannot be reached; null where that is nothing.
export function lossText(lost) {
  if (!lost) return null;
  if (lost.messages === null) return lost.queues === null ? t("broker.lost.unknown") : t("broker.lost.uncounted", { queues: number(lost.queues) });
  return tn("broker.lost", lost.messages, { queues: number(lost.queues), topics: number(lost.topics) });
}
