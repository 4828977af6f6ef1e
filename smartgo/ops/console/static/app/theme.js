// Light theme, dark theme, or the system's.
import { effect, signal } from "./html.js";
import { keep, kept } from "./store.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

// "auto", "light" or "dark".
export const theme = signal(kept("theme", "auto"));
// The effective theme: true for dark. Charts redraw when it changes.
export const isDark = signal(false);

function shown() {
  isDark.value = theme.value === "auto" ? dark.matches : theme.value === "dark";
}

dark.addEventListener("change", shown);

effect(() => {
  const root = document.documentElement;
  if (theme.value === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
  shown();
});

export function nextTheme() {
  const order = ["auto", "light", "dark"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length];
  keep("theme", theme.value === "auto" ? null : theme.value);
}

// A colour of the style sheet, for drawing on a canvas.
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
