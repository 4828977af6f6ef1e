// The lag of groups. Computing it costs brokers CPU, so it is requested for a few groups at a time, after the page is drawn.
import { useEffect, useState } from "../app/html.js";
import { get } from "../app/api.js";

const PIECE = 10;

// Lag of groups by name, of `count` rows of a list from `from`; loaded in pieces, and reloaded after `every` ms.
export function useProgress(query, from, count, every) {
  const [rows, setRows] = useState(() => new Map());
  const key = JSON.stringify([query, from, count]);
  useEffect(() => {
    const abort = new AbortController();
    let timer = null;
    async function load() {
      try {
        for (let at = from; at < from + count; at += PIECE) {
          const limit = Math.min(PIECE, from + count - at);
          const page = await get("/groups", { ...query, progress: true, offset: at, limit }, abort.signal);
          setRows((before) => new Map([...before, ...page.items.map((one) => [one.name, one])]));
        }
      } catch {
        // Known values stay; the list itself reports that the server does not answer.
      }
      if (!abort.signal.aborted) timer = setTimeout(again, every);
    }
    function again() {
      if (document.hidden) timer = setTimeout(again, every);
      else load();
    }
    if (count) load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return rows;
}
