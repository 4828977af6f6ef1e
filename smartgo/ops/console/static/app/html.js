// The drawing functions of every module. All values become text nodes or properties; none is parsed as markup.
import { h, render, Fragment } from "../../vendor/preact.mjs";
import htm from "../../vendor/htm.mjs";

export { render, Fragment };
export { useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback } from "../../vendor/hooks.mjs";
export { signal, computed, effect, batch, useSignal, useComputed } from "../../vendor/signals.mjs";
export const html = htm.bind(h);

// Join class names, leaving out false ones.
export function cx(...names) {
  return names.filter(Boolean).join(" ");
}
