// Tables: of given rows, and of lists that the server filters, sorts and pages.
import { cx, html, useEffect, useRef, useState } from "./html.js";
import { get } from "./api.js";
import { number } from "./format.js";
import { t } from "./i18n.js";
import { Icon } from "./icons.js";
import { Button, Empty, Failure, Missing } from "./parts.js";
import { useResource } from "./resource.js";
import { go, place, setQuery } from "./router.js";

const PAGE = 50;

// One column: { id, title, cell(row), sort (the API's value), num, tight, hide (on narrow screens) }.
export function Table({ columns, rows, sort, onSort, rowPlace, label, busy = false, rowKey, chosen, stack = false }) {
  function head(one) {
    if (!one.sort || !onSort) return one.title;
    const down = sort === `-${one.sort}`;
    const up = sort === one.sort;
    return html`<button type="button" class="sort" onClick=${() => onSort(up ? `-${one.sort}` : one.sort)}>
      ${one.title}
      <${Icon} name=${down ? "down" : "up"} size=${13} />
    </button>`;
  }
  function sorted(one) {
    if (!one.sort) return undefined;
    return sort === one.sort ? "ascending" : sort === `-${one.sort}` ? "descending" : "none";
  }
  // Arrow keys move from row to row, Enter opens a row.
  function key(event, row) {
    const rows_ = event.currentTarget.parentElement.children;
    const at = [...rows_].indexOf(event.currentTarget);
    if (event.target !== event.currentTarget) return;
    if (event.key === "ArrowDown") rows_[at + 1]?.focus();
    else if (event.key === "ArrowUp") rows_[at - 1]?.focus();
    else if (event.key === "Enter" && rowPlace) go(...rowPlace(row));
    else return;
    event.preventDefault();
  }
  function click(event, row) {
    if (event.target.closest("a, button, input, select, label") || String(getSelection())) return;
    go(...rowPlace(row));
  }
  return html`<div class="table-scroll">
    <table class=${cx("table", stack && "table-stack", busy && "table-busy")} aria-label=${label} aria-busy=${busy ? "true" : "false"}>
      <thead>
        <tr>
          ${columns.map(
            (one) =>
              html`<th
                key=${one.id}
                scope="col"
                class=${cx(one.num && "num", one.tight && "tight", one.hide && "wide-only")}
                aria-sort=${sorted(one)}
              >
                ${head(one)}
              </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row, at) =>
            html`<tr
              key=${rowKey ? rowKey(row) : at}
              tabindex=${rowPlace ? 0 : undefined}
              class=${cx(rowPlace && "row-link", chosen?.(row) && "row-chosen")}
              onClick=${rowPlace && ((event) => click(event, row))}
              onKeyDown=${rowPlace && ((event) => key(event, row))}
            >
              ${columns.map(
                (one) =>
                  html`<td key=${one.id} class=${cx(one.num && "num", one.tight && "tight", one.hide && "wide-only")}>
                    ${one.cell(row)}
                  </td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Bones({ columns }) {
  return html`<div class="table-scroll" role="status" aria-label=${t("loading")}>
    <table class="table table-bones">
      <thead>
        <tr>
          ${columns.map((one) => html`<th class=${cx(one.num && "num", one.hide && "wide-only")}>${one.title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${Array.from(
          { length: 6 },
          (_, at) =>
            html`<tr key=${at}>
              ${columns.map((one) => html`<td class=${cx(one.hide && "wide-only")}><span class="bone"></span></td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Filter({ value, onChange, placeholder }) {
  const [text, setText] = useState(value);
  const timer = useRef(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  function input(event) {
    const now = event.currentTarget.value;
    setText(now);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(now.trim()), 180);
  }
  return html`<label class="filter">
    <${Icon} name="search" size=${15} />
    <span class="hidden">${placeholder}</span>
    <input type="search" value=${text} onInput=${input} placeholder=${placeholder} data-filter spellcheck=${false} autocomplete="off" />
  </label>`;
}

// A list of the API. The address contains its filter, order and page, with names that begin with `prefix`, so that
// a link to the current view can be shared.
export function RemoteTable({
  where,
  query,
  columns,
  rowPlace,
  rowKey,
  label,
  defaultSort = "",
  filterText,
  extra,
  empty,
  every = 0,
  prefix = "",
  version = 0,
  onLoaded,
  chosen,
  stack,
}) {
  const asked = place.value.query;
  const q = asked[`${prefix}q`] ?? "";
  const sort = asked[`${prefix}sort`] ?? defaultSort;
  const at = Math.max(0, Number.parseInt(asked[`${prefix}from`] ?? "0", 10) || 0);
  const set = (changes) =>
    setQuery(Object.fromEntries(Object.entries(changes).map(([name, value]) => [prefix + name, value])));
  const full = { ...query, q, sort, offset: at, limit: PAGE };
  const found = useResource((abort) => get(where, full, abort), [where, full, version], every);
  const { data, error, loading, reload } = found;
  useEffect(() => {
    if (data) onLoaded?.(data);
  }, [data]);

  const bar = html`<div class="table-bar">
    ${filterText && html`<${Filter} value=${q} onChange=${(text) => set({ q: text, from: "" })} placeholder=${filterText} />`}
    ${extra}
    <span class="table-space"></span>
    ${data && html`<${Pager} at=${at} count=${data.items.length} total=${data.total} onMove=${(from) => set({ from: from || "" })} />`}
    <${Button} icon="reload" small kind="ghost" onClick=${reload} aria-label=${t("action.reload")} title=${t("action.reload")} />
  </div>`;

  let inside;
  if (error && !data) inside = html`<${Failure} error=${error} again=${reload} />`;
  else if (!data) inside = html`<${Bones} columns=${columns} />`;
  else if (!data.items.length) {
    inside = q
      ? html`<${Empty} title=${t("table.nothing", { q })}><button type="button" class="link" onClick=${() => set({ q: "", from: "" })}>${t("table.clear")}</button><//>`
      : at > 0
        ? html`<${Empty} title=${t("table.past")}><button type="button" class="link" onClick=${() => set({ from: "" })}>${t("table.first")}</button><//>`
        : (empty ?? html`<${Empty} title=${t("table.empty")} />`);
  } else {
    inside = html`<${Table}
      ...${{ columns, rowPlace, rowKey, label, sort, chosen, stack }}
      rows=${data.items}
      busy=${loading}
      onSort=${(word) => set({ sort: word, from: "" })}
    />`;
  }
  return html`${bar}${error && data && html`<${Failure} error=${error} again=${reload} />`}<${Missing} from=${data} />${inside}`;
}

function Pager({ at, count, total, onMove }) {
  return html`<div class="pager" role="group" aria-label=${t("table.pages")}>
    <span class="pager-text"
      >${total === 0 ? "0" : `${number(at + 1)}–${number(at + count)}`} ${t("table.of")} <b>${number(total)}</b></span
    >
    <${Button}
      icon="left"
      small
      kind="ghost"
      disabled=${at === 0}
      onClick=${() => onMove(Math.max(0, at - PAGE))}
      aria-label=${t("table.previous")}
      title=${t("table.previous")}
    />
    <${Button}
      icon="right"
      small
      kind="ghost"
      disabled=${at + count >= total}
      onClick=${() => onMove(at + PAGE)}
      aria-label=${t("table.next")}
      title=${t("table.next")}
    />
  </div>`;
}
