// A field for the name of a topic or group, with existing names as suggestions.
import { html, useEffect, useState } from "../app/html.js";
import { get } from "../app/api.js";
import { Field } from "../app/parts.js";

const FEW = 20;

export function NameField({ label, hint, value, onChange, where = "/topics", query = {}, required = true }) {
  const [names, setNames] = useState([]);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      get(where, { ...query, q: value, limit: FEW }, abort.signal)
        .then((page) => setNames(page.items.map((one) => one.name)))
        .catch(() => {});
    }, 150);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [value, where]);
  return html`<${Field} label=${label} hint=${hint}>
    ${(field) =>
      html`<input
          ...${field}
          class="mono"
          list=${`${field.id}-names`}
          required=${required}
          autocomplete="off"
          spellcheck=${false}
          value=${value}
          onInput=${(event) => onChange(event.currentTarget.value.trim())}
        /><datalist id=${`${field.id}-names`}>${names.map((one) => html`<option value=${one}></option>`)}</datalist>`}
  <//>`;
}
