// The time range of charts.
import { html } from "../app/html.js";
import { t } from "../app/i18n.js";
import { Select } from "../app/parts.js";
import { setQuery } from "../app/router.js";

const SECONDS = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800 };
const FIRST = "15m";

// Return the time range in the address, in seconds.
export function spanOf(query) {
  return SECONDS[query.span in SECONDS ? query.span : FIRST];
}

export function SpanSelect({ query }) {
  return html`<${Select}
    aria-label=${t("overview.span")}
    value=${query.span in SECONDS ? query.span : FIRST}
    options=${Object.keys(SECONDS).map((one) => [one, t(`span.${one}`)])}
    onChange=${(span) => setQuery({ span })}
  />`;
}
