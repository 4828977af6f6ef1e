// Places in the console, stored in the fragment of the address: #/topics/NAME?q=text.
import { signal } from "./html.js";
import { queryText } from "./api.js";

function parsed() {
  const [path, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  try {
    return { parts: parts.map(decodeURIComponent), query: Object.fromEntries(new URLSearchParams(text)) };
  } catch {
    return { parts: ["nowhere"], query: {} };
  }
}

export const place = signal(parsed());

addEventListener("hashchange", () => {
  place.value = parsed();
});

// The address of a place: href(["topics", name], {q: "text"}).
export function href(parts, query) {
  return `#/${parts.map(encodeURIComponent).join("/")}${queryText(query)}`;
}

export function go(parts, query, replace = false) {
  const target = href(parts, query);
  if (replace) {
    history.replaceState(null, "", target);
    place.value = parsed();
  } else {
    location.hash = target;
  }
}

// Change some parameters of the current place, without a new entry in the browser's history.
export function setQuery(changes) {
  const query = { ...place.value.query, ...changes };
  go(place.value.parts, query, true);
}
