// Answers of the API as component state: loading, data, error, reload.
import { useCallback, useEffect, useRef, useState } from "./html.js";

const NOTHING = { data: null, error: null, loading: true };

// Call `ask(abort)` now, whenever `deps` change, and every `every` milliseconds while the page is visible.
// The previous data stays while the same request is repeated.
export function useResource(ask, deps, every = 0) {
  const [state, setState] = useState(NOTHING);
  const [round, setRound] = useState(0);
  const asked = useRef(null);
  const key = JSON.stringify(deps);

  useEffect(() => {
    const abort = new AbortController();
    let timer = null;
    if (asked.current !== key) setState((before) => ({ ...before, loading: true, stale: asked.current !== null }));
    asked.current = key;

    async function once() {
      try {
        const data = await ask(abort.signal);
        if (!abort.signal.aborted) setState({ data, error: null, loading: false, stale: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        setState((before) => ({ data: before.stale ? null : before.data, error, loading: false, stale: false }));
      }
      if (every && !abort.signal.aborted) timer = setTimeout(again, every);
    }
    function again() {
      if (document.hidden) timer = setTimeout(again, every);
      else once();
    }
    once();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, round, every]);

  const reload = useCallback(() => setRound((before) => before + 1), []);
  return { ...state, reload };
}
