// The live tail of a topic as component state: messages as they arrive, the newest first.
import { useEffect, useRef, useState } from "../app/html.js";
import { listen } from "../app/api.js";
import { number } from "../app/format.js";
import { t } from "../app/i18n.js";

export const KEPT = 300; // rows on the page
const SHOW_EVERY = 120; // ms; messages come faster than a page should be drawn

export function rowName(one) {
  return `${one.broker} ${one.queueId} ${one.queueOffset}`;
}

// Follow a topic with filters: { topic, tag, key, body, last, count }; `unseen`: also while nobody sees the page.
export function useTail(query, unseen = false) {
  const [rows, setRows] = useState([]);
  const [state, setState] = useState("waiting");
  const [note, setNote] = useState("");
  const [lost, setLost] = useState(0);
  const [seen, setSeen] = useState(0);
  const [paused, setPaused] = useState(false);
  const held = useRef({ rows: [], names: new Set(), paused: false });
  held.current.paused = paused;

  useEffect(() => {
    const waiting = held.current;
    const timer = setInterval(() => {
      if (waiting.paused || !waiting.rows.length) return;
      const fresh = waiting.rows.reverse();
      waiting.rows = [];
      setRows((before) => [...fresh, ...before].slice(0, KEPT));
    }, SHOW_EVERY);
    let over = false;
    const stop = listen(
      "/tail",
      query,
      {
        begun: (one) => (setState("live"), setNote(t("tail.queues", { n: number(one.queues) }))),
        message: (one) => {
          // After a reconnect the server sends the last messages again.
          const name = rowName(one);
          if (waiting.names.has(name)) return;
          waiting.names.add(name);
          if (waiting.names.size > 2 * KEPT) waiting.names.delete(waiting.names.values().next().value);
          waiting.rows.push(one);
          if (waiting.rows.length > KEPT) waiting.rows.shift();
          setSeen((before) => before + 1);
        },
        skipped: (one) => setLost((before) => before + one.count),
        dropped: (one) => setLost((before) => before + one.count),
        trouble: (one) => setNote(`${one.broker}: ${one.error}`),
        ended: (one) => {
          over = true;
          setState("ended");
          setNote(one.detail ?? t(`tail.ended.${one.why}`));
          stop();
        },
        lost: () => over || setState("lost"),
      },
      unseen,
    );
    return () => {
      clearInterval(timer);
      stop();
    };
  }, []);

  return { rows, state, note, lost, seen, paused, setPaused, clear: () => setRows([]) };
}
