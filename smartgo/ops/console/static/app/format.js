// Numbers, sizes and times, formatted in the current language.
import { language, t } from "./i18n.js";

const NONE = "–";
const cache = new Map();

// The browser's variant of the language (en-US, zh-TW), as the browser's own date fields have it.
function locale() {
  const mine = [navigator.language].find((one) => one?.toLowerCase().startsWith(language.value));
  return mine ?? (language.value === "zh" ? "zh-CN" : "en-GB");
}

function formatter(kind, name, options) {
  const key = `${language.value} ${name}`;
  let found = cache.get(key);
  if (!found) {
    found = new kind(locale(), options);
    cache.set(key, found);
  }
  return found;
}

export function number(value) {
  if (value === null || value === undefined) return NONE;
  return formatter(Intl.NumberFormat, "number", { maximumFractionDigits: 2 }).format(value);
}

// 12,345 stays, 1234567 becomes 1.23 M: for figures that are displayed, not copied.
export function short(value) {
  if (value === null || value === undefined) return NONE;
  if (Math.abs(value) < 100000) return number(value);
  return formatter(Intl.NumberFormat, "short", { notation: "compact", maximumFractionDigits: 2 }).format(value);
}

export function rate(value) {
  if (value === null || value === undefined) return NONE;
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return formatter(Intl.NumberFormat, `rate${digits}`, { maximumFractionDigits: digits }).format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let power = 0;
  while (Math.abs(value) >= 1024 && power < units.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${power && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

export function percent(value) {
  if (value === null || value === undefined || value < 0) return NONE;
  return formatter(Intl.NumberFormat, "percent", { style: "percent", maximumFractionDigits: 1 }).format(value);
}

// A wall-clock time in this browser's zone, on request with milliseconds.
export function time(ms, precise = false) {
  if (!ms || ms < 0) return NONE;
  const options = {
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
    ...(precise ? { fractionalSecondDigits: 3 } : {}),
  };
  return formatter(Intl.DateTimeFormat, `time${precise}`, options).format(ms);
}

// The zone of all times, such as "Europe/Berlin, GMT+1".
export function zone() {
  const parts = formatter(Intl.DateTimeFormat, "zone", { timeZoneName: "short" }).formatToParts(Date.now());
  const short = parts.find((one) => one.type === "timeZoneName")?.value ?? "";
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return name === short ? name : `${name}, ${short}`;
}

// A day and a time without year and seconds, for axes.
export function dayTime(ms) {
  return formatter(Intl.DateTimeFormat, "dayTime", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false }).format(ms);
}

export function clock(ms) {
  return formatter(Intl.DateTimeFormat, "clock", {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
  }).format(ms);
}

// A duration in milliseconds; null for unknown.
export const durationMs = (ms) => duration(ms === null || ms === undefined ? null : ms / 1000);

// "3 d 4 h", "12 min 5 s", "340 ms": two parts at most.
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  if (seconds < 0) seconds = 0;
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ${t("unit.ms")}`;
  const parts = [
    [86400, t("unit.d")],
    [3600, t("unit.h")],
    [60, t("unit.min")],
    [1, t("unit.s")],
  ];
  const words = [];
  let rest = Math.round(seconds);
  for (const [size, unit] of parts) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || (size === 1 && !words.length)) words.push(`${count} ${unit}`);
    else if (words.length) break;
    if (words.length === 2) break;
  }
  return words.join(" ");
}

export function ago(ms) {
  if (!ms || ms < 0) return NONE;
  const seconds = (Date.now() - ms) / 1000;
  if (seconds < 2) return t("time.now");
  return t("time.ago", { duration: duration(Math.max(1, Math.round(seconds))) });
}

// For <input type="datetime-local">: local time without a zone, and back.
export function toInput(ms) {
  const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
  return date.toISOString().slice(0, 19);
}

export function fromInput(text) {
  const ms = new Date(text).getTime();
  return Number.isFinite(ms) ? ms : null;
}
