// Line icons on a grid of 24, each a path.
import { html } from "./html.js";

const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM14 4v3h6V4zM4 17v3h6v-3z",
  alerts: "M6 17h12l-1.500-2.500V10a4.500 4.500 0 0 0-9 0v4.500zM10 20h4M12 5.500V3.500",
  mute: "M6 17h12l-1.500-2.500V10a4.500 4.500 0 0 0-9 0v4.500zM10 20h4M4 4l16 16",
  cluster: "M5 4h14v6H5zM5 14h14v6H5zM8.5 7h.01M8.5 17h.01M12 7h4M12 17h4",
  stores: "M4 5h16v5H4zM4 14h16v5H4zM7 7.500h.01M7 16.500h.01M11 7.500h6M11 16.500h6",
  topics: "M4 6h16M4 12h16M4 18h10",
  groups: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M2.5 20c.4-3.6 3-5.6 6.500-5.600s6.100 2 6.500 5.600M16 4.300a3.400 3.400 0 0 1 0 6.400M18 14.800c2.100.7 3.300 2.500 3.500 5.200",
  messages: "M4 5h16v12H9l-5 4z",
  search: "M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13M15.500 15.500 20 20",
  dlq: "M12 4 2.800 20h18.400zM12 10v4.500M12 17.300h.01",
  transactions: "M4 8h13M14 5l3 3-3 3M20 16H7M10 13l-3 3 3 3",
  clients: "M4 5h16v11H4zM9 20h6M12 16v4",
  send: "M21 3 10 14M21 3l-7 18-4-7-7-4z",
  tail: "M4 12h3.500l2.500-7 4 14 2.500-7H20",
  jobs: "M12 7v5l3.500 2M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18",
  audit: "M6 3h9l4 4v14H6zM14 3v5h5M9 12h6M9 16h6",
  tokens: "M14.500 13.500a5 5 0 1 0-4-4L3 17v4h4v-3h3v-3z",
  config: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  kv: "M5 6c0-3.500 14-3.500 14 0s-14 3.500-14 0M5 6v12c0 3.500 14 3.500 14 0V6M5 12c0 3.500 14 3.500 14 0",
  definitions: "M7 3h7l4 4v6M14 3v4h4M7 3v18h5M15 18h6M18.500 15.500 21 18l-2.500 2.500M10 11h5M10 15h2",
  explain: "M9.200 9.200a2.800 2.800 0 1 1 4.200 2.500c-.9.5-1.400 1.100-1.400 2.300M12 17.300h.01M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 2.500v2M12 19.500v2M4 4.500l1.500 1.500M18.500 18l1.500 1.500M2.500 12h2M19.500 12h2M4 19.500 5.500 18M18.500 6 20 4.500",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  keyboard: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4.500 20.500c.6-4 3.500-6 7.500-6s6.900 2 7.500 6",
  menu: "M4 6h16M4 12h16M4 18h16",
  close: "M6 6l12 12M18 6 6 18",
  left: "M14.500 6 8.500 12l6 6",
  right: "M9.500 6l6 6-6 6",
  up: "M6 14.500 12 8.500l6 6",
  down: "M6 9.500l6 6 6-6",
  plus: "M12 5v14M5 12h14",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  check: "M5 12.500 10 17.500 19.500 7",
  reload: "M20 5v5h-5M20 10a8.500 8.500 0 1 0 .5 4",
  undo: "M8 5 4 9l4 4M4 9h9a6 6 0 0 1 0 12h-3",
  pause: "M8 5v14M16 5v14",
  play: "M7 4.500 19.500 12 7 19.500z",
  stop: "M6 6h12v12H6z",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 14h10l1-14M10 11v6M14 11v6",
  edit: "M4 20h4L20 8l-4-4L4 16zM13.500 6.500l4 4",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  external: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
  language: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M3 12h18M12 3c3 2.500 4 6 4 9s-1 6.500-4 9c-3-2.500-4-6-4-9s1-6.500 4-9",
  logout: "M14 4h6v16h-6M10 8l-5 4 5 4M5 12h10",
};

export function Icon({ name, size = 18 }) {
  return html`<svg
    class="icon"
    width=${size}
    height=${size}
    viewBox="0 0 24 24"
    fill="none"
    stroke="currentColor"
    stroke-width="1.8"
    stroke-linecap="round"
    stroke-linejoin="round"
    aria-hidden="true"
  >
    <path d=${PATHS[name]} />
  </svg>`;
}

export function Logo({ size }) {
  return html`<svg width=${size} height=${size} viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="7" fill="#0d7a6f" />
    <path d="M8 10.5h9a4 4 0 0 1 0 8h-2a3 3 0 0 0 0 6h9" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" />
    <circle cx="24" cy="10.5" r="2.4" fill="#9ff0dd" />
  </svg>`;
}
