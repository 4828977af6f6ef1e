// The search in the top bar: topics, groups and clients by part of their name, messages of any topic by key or id.
import { cx, html, useEffect, useRef, useState } from "./html.js";
import { get, limited } from "./api.js";
import { t } from "./i18n.js";
import { Icon } from "./icons.js";
import { go } from "./router.js";

const FEW = 5;
const SHORTEST = 3; // letters of a key
const LISTS = [
  ["topics", "/topics", (one) => one.name, (one) => [["topics", one.name]]],
  ["groups", "/groups", (one) => one.name, (one) => [["groups", one.name]]],
  ["clients", "/clients", (one) => one.clientId, (one) => [["clients", one.clientId]]],
];

async function found(text, abort) {
  const lists = await Promise.all(
    LISTS.filter(([kind]) => kind !== "clients" || !limited()).map(async ([kind, where, name, target]) => {
      const page = await get(where, { q: text, limit: FEW }, abort);
      return page.items.map((one) => ({ kind, name: name(one), target: target(one) }));
    }),
  );
  const rows = lists.flat();
  const names = new Set();
  const own = rows.filter((one) => !names.has(`${one.kind} ${one.name}`) && names.add(`${one.kind} ${one.name}`));
  if (/^[0-9a-fA-F]{32}([0-9a-fA-F]{8})?$/.test(text) && !limited()) {
    own.unshift({ kind: "messages", name: text, target: [["messages", text]] });
  } else if (text.length >= SHORTEST && !limited()) {
    // Every topic has an index of its own: they are searched when somebody chooses that, not at every letter.
    own.push({ kind: "messages", name: t("search.anywhere", { word: text }), target: [["messages"], { by: "any", word: text }] });
  }
  return own;
}

export function Search() {
  const [text, setText] = useState("");
  const [rows, setRows] = useState([]);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const box = useRef(null);
  const wanted = text.trim();

  useEffect(() => {
    if (!wanted) {
      setRows([]);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const now = await found(wanted, abort.signal);
        if (abort.signal.aborted) return;
        setRows(now);
        setAt(0);
      } catch {
        if (!abort.signal.aborted) setRows([]);
      }
    }, 160);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [wanted]);

  function choose(row) {
    setText("");
    setOpen(false);
    box.current.blur();
    go(...row.target);
  }
  function key(event) {
    if (event.key === "ArrowDown") setAt(Math.min(rows.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter" && rows[at]) choose(rows[at]);
    else if (event.key === "Escape") setOpen(false);
    else return;
    if (event.key !== "Escape") event.preventDefault();
  }
  const listed = open && wanted;
  return html`<div class="search" role="search">
    <${Icon} name="search" size=${16} />
    <input
      ref=${box}
      type="text"
      role="combobox"
      aria-label=${t("search.label")}
      aria-expanded=${listed ? "true" : "false"}
      aria-controls="search-list"
      aria-activedescendant=${listed && rows[at] ? `search-${at}` : undefined}
      placeholder=${t("search.label")}
      data-search
      autocomplete="off"
      spellcheck=${false}
      value=${text}
      onInput=${(event) => {
        setText(event.currentTarget.value);
        setOpen(true);
      }}
      onFocus=${() => setOpen(true)}
      onBlur=${() => setTimeout(() => setOpen(false), 150)}
      onKeyDown=${key}
    />
    <kbd class="search-key" aria-hidden="true">Ctrl K</kbd>
    ${listed &&
    html`<ul id="search-list" class="search-list" role="listbox" aria-label=${t("search.label")}>
      ${rows.map(
        (row, order) =>
          html`<li
            key=${`${row.kind} ${row.name}`}
            id=${`search-${order}`}
            role="option"
            aria-selected=${order === at ? "true" : "false"}
            class=${cx("search-row", order === at && "search-chosen")}
            onMouseDown=${() => choose(row)}
          >
            <${Icon} name=${row.kind} size=${15} /><span class="search-name">${row.name}</span>
            <span class="search-kind">${t(`nav.${row.kind}`)}</span>
          </li>`,
      )}
      ${!rows.length && html`<li class="search-none">${t("search.none")}</li>`}
    </ul>`}
  </div>`;
}
