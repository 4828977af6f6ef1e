// Small components that every page uses.
import { cx, html, useEffect, useState } from "./html.js";
import { limited, may, session } from "./api.js";
import { t } from "./i18n.js";
import { Icon } from "./icons.js";
import { ago, time, zone } from "./format.js";
import { toast } from "./dialog.js";

export function Page({ title, about, crumbs = [], actions, children, wide = true }) {
  useEffect(() => {
    document.title = `${title} · smartgo`;
  }, [title]);
  return html`<div class=${cx("page", !wide && "page-narrow")}>
    <header class="page-head">
      <div class="page-title">
        ${crumbs.length > 0 &&
        html`<nav class="crumbs" aria-label=${t("nav.crumbs")}>
          ${crumbs.map(([text, where]) => html`<a href=${where}>${text}</a><span aria-hidden="true">/</span>`)}
        </nav>`}
        <h1 tabindex="-1">${title}</h1>
        ${about && html`<p class="page-about">${about}</p>`}
      </div>
      ${actions && html`<div class="page-actions">${actions}</div>`}
    </header>
    ${children}
  </div>`;
}

export function Card({ title, actions, children, flush = false, class: extra }) {
  return html`<section class=${cx("card", flush && "card-flush", extra)}>
    ${(title || actions) &&
    html`<header class="card-head">
      <h2>${title}</h2>
      ${actions && html`<div class="card-actions">${actions}</div>`}
    </header>`}
    <div class="card-body">${children}</div>
  </section>`;
}

// One figure with its label.
export function Stat({ label, value, note, tone, href }) {
  const inside = html`<span class="stat-label">${label}</span>
    <span class=${cx("stat-value", tone && `tone-${tone}`)}>${value}</span>
    ${note && html`<span class="stat-note">${note}</span>`}`;
  return href ? html`<a class="stat" href=${href}>${inside}</a>` : html`<div class="stat">${inside}</div>`;
}

// Why the account that is logged in may not do what is for administrators alone.
export const lacking = () => t("account.lacks", { name: session.value.name });

// Return why a button is disabled, "" where it is not, null where it is not shown: sessions of accounts show what they
// lack. `needs`: a scope; `refused`: the reason why the account may not, "" where it may (see rights.js).
function hindrance(needs, refused) {
  if (!limited()) return !needs || may(needs) ? "" : null;
  return refused ?? (needs ? lacking() : "");
}

export function Button({ kind = "plain", icon, small, busy, children, class: extra, needs, refused, ...more }) {
  const why = hindrance(needs, refused);
  if (why === null) return null;
  return html`<button
    type="button"
    ...${more}
    class=${cx("button", `button-${kind}`, small && "button-small", !children && "button-icon", extra)}
    disabled=${more.disabled || busy || why !== ""}
    title=${why || more.title}
    aria-busy=${busy ? "true" : undefined}
  >
    ${busy ? html`<span class="spinner" aria-hidden="true"></span>` : icon && html`<${Icon} name=${icon} size=${16} />`}
    ${children && html`<span>${children}</span>`}
  </button>`;
}

export function LinkButton({ kind = "plain", icon, children, small, needs, refused, ...more }) {
  const why = hindrance(needs, refused);
  if (why === null) return null;
  if (why) return html`<${Button} kind=${kind} icon=${icon} small=${small} disabled title=${why}>${children}<//>`;
  return html`<a ...${more} class=${cx("button", `button-${kind}`, small && "button-small")}>
    ${icon && html`<${Icon} name=${icon} size=${16} />`}<span>${children}</span>
  </a>`;
}

export function Badge({ tone = "plain", children, title }) {
  return html`<span class=${cx("badge", `badge-${tone}`)} title=${title}>${children}</span>`;
}

export function Health({ well, children }) {
  return html`<span class="health"
    ><span class=${cx("dot", well ? "dot-good" : "dot-bad")} aria-hidden="true"></span>${children}</span
  >`;
}

export function Time({ ms, relative = false, precise = false }) {
  if (!ms) return html`<span class="faint">–</span>`;
  return html`<time datetime=${new Date(ms).toISOString()} title=${relative ? `${time(ms, true)} (${zone()})` : `${ago(ms)} (${zone()})`}
    >${relative ? ago(ms) : time(ms, precise)}</time
  >`;
}

export function Copy({ text, label }) {
  const [done, setDone] = useState(false);
  async function copy(event) {
    event.preventDefault();
    event.stopPropagation();
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1200);
    } catch {
      toast(t("copy.failed"), "bad");
    }
  }
  return html`<button
    type="button"
    class="copy"
    onClick=${copy}
    aria-label=${label ?? t("copy.label")}
    title=${label ?? t("copy.label")}
  >
    <${Icon} name=${done ? "check" : "copy"} size=${14} />
  </button>`;
}

export function Code({ children, copy = false }) {
  return html`<span class="code-line"><code>${children}</code>${copy && html`<${Copy} text=${children} />`}</span>`;
}

// Names and values; rows are [name, value] pairs, and rows without a value are left out.
export function Facts({ rows }) {
  return html`<dl class="facts">
    ${rows
      .filter((row) => row && row[1] !== undefined)
      .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? "–"}</dd></div>`)}
  </dl>`;
}

export function Empty({ icon = "search", title, children }) {
  return html`<div class="empty">
    <span class="empty-mark"><${Icon} name=${icon} size=${26} /></span>
    <p class="empty-title">${title}</p>
    ${children && html`<div class="empty-text">${children}</div>`}
  </div>`;
}

export function Failure({ error, again }) {
  return html`<div class="failure" role="alert">
    <${Icon} name="dlq" size=${20} />
    <div>
      <p class="failure-title">${t(error.status === 401 || error.status === 403 ? "error.forbidden" : "error.title")}</p>
      <p>${error.message}</p>
      ${error.requestId && html`<p class="faint">${t("error.request", { id: error.requestId })}</p>`}
    </div>
    ${again && html`<${Button} icon="reload" onClick=${again}>${t("action.retry")}<//>`}
  </div>`;
}

export function Skeleton({ lines = 4 }) {
  return html`<div class="skeleton" role="status" aria-label=${t("loading")}>
    ${Array.from({ length: lines }, (_, at) => html`<span key=${at} class=${`skeleton-${at % 3}`}></span>`)}
  </div>`;
}

// The brokers that are missing in an answer.
export function Missing({ from }) {
  return (from?.missing ?? []).map(
    (one) => html`<p key=${one.broker} class="hint hint-bad card-note" role="status" data-test="missing">${t("missing.one", one)}</p>`,
  );
}

// Draw the state of `useResource`: placeholders while loading, the error, or the content.
export function Loaded({ from, lines, children }) {
  if (from.data !== null && !(from.stale && from.loading)) return html`<${Missing} from=${from.data} />${children(from.data)}`;
  if (from.error) return html`<${Failure} error=${from.error} again=${from.reload} />`;
  return html`<${Skeleton} lines=${lines} />`;
}

export function Tabs({ tabs, chosen, label }) {
  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const found = [...event.currentTarget.querySelectorAll("[role=tab]")];
    const next = found[(found.indexOf(document.activeElement) + step + found.length) % found.length];
    next.focus();
    next.click();
  }
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map(
      ([id, text, where]) =>
        html`<a
          role="tab"
          key=${id}
          href=${where}
          aria-selected=${id === chosen ? "true" : "false"}
          tabindex=${id === chosen ? 0 : -1}
          class=${cx("tab", id === chosen && "tab-chosen")}
          >${text}</a
        >`,
    )}
  </div>`;
}

let serial = 0;

// A label with its field; `children` draws the field with the id that connects both.
export function Field({ label, hint, error, children, inline = false }) {
  const [id] = useState(() => `field-${(serial += 1)}`);
  const described = hint || error ? `${id}-hint` : undefined;
  return html`<div class=${cx("field", inline && "field-inline", error && "field-wrong")}>
    <label for=${id}>${label}</label>
    ${children({ id, "aria-describedby": described, "aria-invalid": error ? "true" : undefined })}
    ${(hint || error) && html`<p class="field-hint" id=${described}>${error || hint}</p>`}
  </div>`;
}

export function Check({ label, checked, onChange, disabled }) {
  return html`<label class="check"
    ><input type="checkbox" checked=${checked} disabled=${disabled} onChange=${(event) => onChange(event.currentTarget.checked)} /><span
      >${label}</span
    ></label
  >`;
}

export function Select({ value, options, onChange, ...more }) {
  return html`<select ...${more} value=${value} onChange=${(event) => onChange(event.currentTarget.value)}>
    ${options.map(([id, text]) => html`<option value=${id} selected=${id === value}>${text}</option>`)}
  </select>`;
}

export function Progress({ done, total }) {
  return html`<progress class="progress" max=${total || undefined} value=${total ? done : undefined}></progress>`;
}

// A ratio, such as the usage of a disk, as a bar.
export function Meter({ ratio, label }) {
  const tone = ratio >= 0.9 ? "bad" : ratio >= 0.75 ? "warn" : "good";
  const width = `${Math.max(0, Math.min(1, ratio)) * 100}%`;
  return html`<span class="meter" role="meter" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(ratio * 100)} aria-label=${label}
    ><span class=${`meter-fill meter-${tone}`} style=${{ width }}></span
  ></span>`;
}
