// What this browser keeps of a person's choices; nothing secret.
const PREFIX = "smartgo.";

export function kept(name, otherwise = null) {
  try {
    return localStorage.getItem(PREFIX + name) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // A browser that keeps nothing: the choice holds for this page.
  }
}
