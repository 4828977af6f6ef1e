// The number of firing alerts, updated by events while the page is visible.
import { html, signal, useEffect } from "./html.js";
import { listen, may, session } from "./api.js";
import { number } from "./format.js";
import { tn } from "./i18n.js";

export const alarm = signal(null);

// Subscribe to alert events, as long as the shell is shown and the user may read.
export function useAlarm() {
  const who = session.value?.name;
  const allowed = may("read");
  useEffect(() => {
    if (!allowed) return undefined;
    const stop = listen("/alerts/events", {}, { alerts: (found) => (alarm.value = found) });
    return () => {
      stop();
      alarm.value = null;
    };
  }, [who, allowed]);
}

export function AlarmBadge() {
  const now = alarm.value;
  const count = now ? now.critical + now.warning : 0;
  if (!count) return null;
  return html`<b class=${`nav-count nav-count-${now.critical ? "bad" : "warn"}`} data-test="alarm" title=${tn("alerts.firing", count)}>${number(count)}</b>`;
}
