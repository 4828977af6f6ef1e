// A value before and after a change.
import { html } from "../app/html.js";
import { Icon } from "../app/icons.js";

export function Change({ before, after }) {
  return html`<span class="change"><code class="change-before">${before || "–"}</code><${Icon} name="right" size=${14} /><code class="change-after">${after || "–"}</code></span>`;
}
