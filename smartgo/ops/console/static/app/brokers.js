// Facts about brokers that several pages show.
import { get } from "./api.js";
import { html } from "./html.js";
import { ago, number } from "./format.js";
import { t, tn } from "./i18n.js";
import { Badge } from "./parts.js";

export const FOLLOWS = new Set(["FOLLOWING", "CATCHING_UP"]); // else how far a slave is behind is not known

let asked = null; // the request for the brokers that is under way

// Ask for the broker processes; the parts of a page that ask at the same time share one request.
export function askBrokers() {
  asked ??= get("/brokers", { limit: 200 }).finally(() => {
    asked = null;
  });
  return asked;
}

// Return the names of which only slaves are registered: they cannot store messages.
export function masterless(brokers) {
  const registered = brokers.filter((one) => one.state !== "missing");
  const led = new Set(registered.filter((one) => one.id === 0).map((one) => one.name));
  return [...new Set(registered.map((one) => one.name))].filter((name) => !led.has(name));
}

// The name of a broker process in a sentence.
export function processName(one) {
  return one.id === 0 ? one.name : `${one.name}#${one.id}`;
}

// The state of a broker process, where it is not well.
export function ProcessBadge({ one }) {
  if (one.state === "up") return null;
  return html`<${Badge} tone="bad">${t(`broker.process.${one.state}`)}<//>`;
}

// How a missing process left, as a sentence; null where nobody knows.
export function departureText(one) {
  if (one.left === "stopped") return t("broker.left.stopped", { ago: ago(one.leftMs) });
  return one.left === "vanished" ? t("broker.left.vanished") : null;
}

// Sentences about a missing process: how it left, and what does not work without it; empty where nothing is known.
export function missingText(one) {
  const effect = one.id === 0 && one.brokerState === "no-master" ? t(one.routed === false ? "broker.effect.unrouted" : "broker.effect.reads") : lossText(one.unreachable);
  return [departureText(one), effect].filter(Boolean).join(" ");
}

// Whether something is wrong with a process itself: a slave whose master is missing has none to follow, and serves reads.
export function unwell(one) {
  return !one.up || Boolean(one.refusal) || (orphan(one) && one.brokerState !== "no-master");
}

// A mark of a process whose store takes no messages.
export function RefusalBadge({ one }) {
  return one.up && one.refusal ? html`<${Badge} tone="bad" title=${one.refusal}>${t("store.refuses")}<//>` : null;
}

// Whether a slave answers and follows no master.
export function orphan(one) {
  return one.up && Boolean(one.following) && !FOLLOWS.has(one.following.state);
}

// A sentence about what cannot be reached; null where that is nothing.
export function lossText(lost) {
  if (!lost) return null;
  const timed = lost.timed ? ` ${t("broker.lost.timed", { n: number(lost.timed) })}` : "";
  if (lost.messages === null) return (lost.queues === null ? t("broker.lost.unknown") : t("broker.lost.uncounted", { queues: number(lost.queues) })) + timed;
  return tn("broker.lost", lost.messages, { queues: number(lost.queues), topics: number(lost.topics) }) + timed;
}
