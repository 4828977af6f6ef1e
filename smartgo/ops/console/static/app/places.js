// All pages: their place in the navigation, their shortcut after g, and their module, loaded on demand.
// `open`: accounts may use it whose rights depend on the topic and the group.
export const PAGES = [
  { id: "overview", key: "o", section: "watch", load: () => import("../pages/overview.js") },
  { id: "alerts", key: "e", section: "watch", load: () => import("../pages/alerts.js") },
  { id: "cluster", key: "c", section: "watch", load: () => import("../pages/cluster.js") },
  { id: "stores", key: "r", section: "watch", load: () => import("../pages/stores.js") },
  { id: "topics", key: "t", section: "data", open: true, load: () => import("../pages/topics.js") },
  { id: "groups", key: "g", section: "data", open: true, load: () => import("../pages/groups.js") },
  { id: "messages", key: "m", section: "data", open: true, load: () => import("../pages/messages.js") },
  { id: "dlq", key: "d", section: "data", load: () => import("../pages/dlq.js") },
  { id: "transactions", key: "h", section: "data", load: () => import("../pages/transactions.js") },
  { id: "clients", key: "l", section: "data", load: () => import("../pages/clients.js") },
  { id: "tail", key: "f", section: "tools", open: true, load: () => import("../pages/tail.js") },
  { id: "send", key: "s", section: "tools", open: true, load: () => import("../pages/send.js") },
  { id: "explain", key: "w", section: "tools", load: () => import("../pages/explain.js") },
  { id: "jobs", key: "j", section: "tools", load: () => import("../pages/jobs.js") },
  { id: "config", key: "x", section: "admin", scope: "admin", load: () => import("../pages/config.js") },
  { id: "kv", key: "k", section: "admin", load: () => import("../pages/kv.js") },
  { id: "definitions", key: "i", section: "admin", scope: "admin", load: () => import("../pages/definitions.js") },
  { id: "audit", key: "a", section: "admin", scope: "admin", load: () => import("../pages/audit.js") },
  { id: "tokens", key: "n", section: "admin", scope: "admin", load: () => import("../pages/tokens.js") },
];

export const SECTIONS = ["watch", "data", "tools", "admin"];
