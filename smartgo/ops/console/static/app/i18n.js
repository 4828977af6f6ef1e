// Texts in all languages. A table is one flat object; all tables have the same keys (a test checks this).
import { effect, signal } from "./html.js";
import { keep, kept } from "./store.js";

export const LANGUAGES = { en: "English", zh: "中文" };

const tables = {};

function preferred() {
  const chosen = kept("language");
  if (chosen in LANGUAGES) return chosen;
  return (navigator.languages ?? []).some((one) => one.toLowerCase().startsWith("zh")) &&
    !(navigator.language ?? "").toLowerCase().startsWith("en")
    ? "zh"
    : "en";
}

async function load(language) {
  if (tables[language]) return;
  const answer = await fetch(new URL(`../i18n/${language}.json`, import.meta.url));
  if (!answer.ok) throw new Error(`no table for ${language}: ${answer.status}`);
  tables[language] = await answer.json();
}

export const language = signal(preferred());

// Nothing is drawn before the first table is loaded.
export const ready = load(language.value);

effect(() => {
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
});

export async function setLanguage(wanted) {
  await load(wanted);
  keep("language", wanted);
  language.value = wanted;
}

// Return the text of a key, with {names} replaced. An unknown key is returned as it is.
export function t(key, values) {
  const sentence = tables[language.value][key] ?? key;
  if (!values) return sentence;
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// As t, for a count: uses the key's ".one" or ".other", with {n} as the formatted number.
export function tn(key, count, values) {
  const rule = new Intl.PluralRules(language.value).select(count) === "one" ? "one" : "other";
  return t(`${key}.${rule}`, { n: new Intl.NumberFormat(language.value).format(count), ...values });
}
