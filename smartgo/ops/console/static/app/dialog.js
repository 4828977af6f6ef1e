// Dialogs, one at a time, and short notices. The browser's own <dialog> keeps the focus inside and closes on Escape.
import { html, signal, useEffect, useRef, useState } from "./html.js";
import { t } from "./i18n.js";
import { Icon } from "./icons.js";

const shown = signal(null);
const notices = signal([]);
let serial = 0;

// Show a dialog with the content `draw(close)`. Resolves with the argument of `close`; undefined if it was dismissed.
export function openDialog(title, draw, wide = false) {
  shown.value?.settle(undefined);
  return new Promise((resolve) => {
    const mine = {
      title,
      draw,
      wide,
      settle(result) {
        if (shown.value === mine) shown.value = null;
        resolve(result);
      },
    };
    shown.value = mine;
  });
}

export function closeDialog() {
  shown.value?.settle(undefined);
}

// A dialog belongs to the place where it was opened: it is dismissed when somebody goes elsewhere.
addEventListener("hashchange", closeDialog);

export function toast(text, tone = "good") {
  serial += 1;
  const mine = { id: serial, text, tone };
  notices.value = [...notices.value.slice(-3), mine];
  setTimeout(() => dismiss(mine.id), tone === "bad" ? 9000 : 4500);
}

function dismiss(id) {
  notices.value = notices.value.filter((one) => one.id !== id);
}

// Run something that can fail, and show a notice if it does, or if it did not reach brokers. Resolves with whether it succeeded.
export async function attempt(work, said) {
  try {
    const done = await work();
    if (said) toast(said);
    if (done?.missing?.length) toast(t("missing.unreached", { names: done.missing.map((one) => one.broker).join(", ") }), "bad");
    return true;
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message, "bad");
    return false;
  }
}

// Ask for confirmation. With `typed`, the user must type that name first.
export function confirm({ title, text, action, typed, danger = true }) {
  return openDialog(title, (close) => html`<${Confirmation} ...${{ text, action, typed, danger, close }} />`);
}

function Confirmation({ text, action, typed, danger, close }) {
  const [written, setWritten] = useState("");
  const allowed = !typed || written === typed;
  function submit(event) {
    event.preventDefault();
    if (allowed) close(true);
  }
  return html`<form onSubmit=${submit} class="form">
    <p class="dialog-text">${text}</p>
    ${typed &&
    html`<div class="field">
      <label for="confirm-name">${t("confirm.type", { name: typed })}</label>
      <input
        id="confirm-name"
        class="mono"
        autocomplete="off"
        spellcheck=${false}
        value=${written}
        onInput=${(event) => setWritten(event.currentTarget.value)}
      />
    </div>`}
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close(undefined)}>${t("action.cancel")}</button>
      <button type="submit" class=${`button button-${danger ? "danger" : "primary"}`} disabled=${!allowed}>
        ${action}
      </button>
    </div>
  </form>`;
}

function Shown({ one }) {
  const place = useRef(null);
  useEffect(() => {
    const dialog = place.current;
    const before = document.activeElement;
    if (!dialog.open) dialog.showModal();
    dialog.querySelector("input, textarea, select, .dialog-foot button:last-child")?.focus();
    return () => before?.focus?.();
  }, []);
  return html`<dialog
    ref=${place}
    class=${one.wide ? "dialog dialog-wide" : "dialog"}
    aria-labelledby="dialog-title"
    onClose=${() => one.settle(undefined)}
    onMouseDown=${(event) => event.target === place.current && one.settle(undefined)}
  >
    <div class="dialog-box">
      <header class="dialog-head">
        <h2 id="dialog-title">${one.title}</h2>
        <button type="button" class="button button-plain button-icon" aria-label=${t("action.close")} onClick=${() => one.settle(undefined)}>
          <${Icon} name="close" size=${16} />
        </button>
      </header>
      ${one.draw(one.settle)}
    </div>
  </dialog>`;
}

// The place where dialogs and notices are drawn.
export function Overlays() {
  return html`${shown.value && html`<${Shown} key=${shown.value.title} one=${shown.value} />`}
    <div class="notices" role="status" aria-live="polite">
      ${notices.value.map(
        (one) =>
          html`<div key=${one.id} class=${`notice notice-${one.tone}`}>
            <span>${one.text}</span>
            <button type="button" class="notice-close" aria-label=${t("action.close")} onClick=${() => dismiss(one.id)}>
              <${Icon} name="close" size=${14} />
            </button>
          </div>`,
      )}
    </div>`;
}
