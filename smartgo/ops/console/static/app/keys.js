// Keyboard shortcuts: g and a letter open a page, / the filter or the search, ? lists all shortcuts.
import { html } from "./html.js";
import { closeDialog, openDialog } from "./dialog.js";
import { t } from "./i18n.js";
import { PAGES } from "./places.js";
import { go } from "./router.js";
import { nextTheme } from "./theme.js";

const WAIT = 1200; // ms between g and the letter

let pending = -WAIT; // when g was pressed, in ms since the page was opened

function typing(target) {
  return target.closest?.("input, textarea, select, [contenteditable]");
}

// Whether nothing that has a use for arrow keys has the focus.
function atNothing() {
  const at = document.activeElement;
  return !at || at === document.body || at.id === "main" || at.tagName === "H1";
}

// Focus the first row of the page's first list whose rows can be opened.
function toRows() {
  const row = document.querySelector("#main tbody tr[tabindex]");
  row?.focus();
  return row !== null;
}

export function showKeys() {
  openDialog(
    t("keys.title"),
    () => html`<div class="keys">
      <dl>
        ${[
          ["/", t("keys.filter")],
          ["Ctrl K", t("keys.search")],
          ["↑ ↓ Enter", t("keys.rows")],
          ["t", t("keys.theme")],
          ["?", t("keys.help")],
          ["Esc", t("keys.escape")],
        ].map(([key, text]) => html`<div><dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd>`)}</dt><dd>${text}</dd></div>`)}
      </dl>
      <dl>
        ${PAGES.filter((one) => one.key).map(
          (one) => html`<div><dt><kbd>g</kbd><kbd>${one.key}</kbd></dt><dd>${t(`nav.${one.id}`)}</dd></div>`,
        )}
      </dl>
    </div>`,
    true,
  );
}

export function listenToKeys() {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      const search = document.querySelector("[data-search]");
      search?.focus();
      search?.select();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (typing(event.target)) {
      if (event.key === "Escape") event.target.blur();
      else if (event.target.matches?.("[data-filter]") && (event.key === "ArrowDown" || event.key === "Enter") && toRows()) event.preventDefault();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const now = event.timeStamp; // of the key, however late we hear of it
    if (now - pending < WAIT) {
      pending = -WAIT;
      const page = PAGES.find((one) => one.key === event.key);
      if (page) {
        event.preventDefault();
        go([page.id]);
      }
      return;
    }
    if (event.key === "g") pending = now;
    else if (event.key === "?") showKeys();
    else if (event.key === "t") nextTheme();
    else if (event.key === "/") (document.querySelector("[data-filter]") ?? document.querySelector("[data-search]"))?.focus();
    else if (event.key === "Escape") closeDialog();
    else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && atNothing() && toRows()) pending = -WAIT;
    else return;
    event.preventDefault();
  });
}
