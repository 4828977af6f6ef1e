// Choices that this browser stores for a person; nothing secret.
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
    // The browser stores nothing: the choice applies to this page view only.
  }
}
