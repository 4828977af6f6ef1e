// A table of messages, used by all pages that list some.
import { html } from "../app/html.js";
import { limited } from "../app/api.js";
import { bytes, number, time } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge } from "../app/parts.js";
import { href } from "../app/router.js";

export function messagePlace(one) {
  const place = limited() ? { queue: one.queueId, offset: one.queueOffset } : {};
  return [["messages", one.offsetId], { topic: one.topic, broker: one.broker, ...place }];
}

// Return the columns; `topic`: whether rows can be of several topics.
export function messageColumns({ topic = false, extra = [] } = {}) {
  return [
    ...extra,
    { id: "stored", title: t("message.stored"), cell: (one) => html`<a class="nowrap" href=${href(...messagePlace(one))}>${time(one.storedMs, true)}</a>` },
    ...(topic ? [{ id: "topic", title: t("column.topic"), cell: (one) => html`<span class="name">${one.topic}</span>` }] : []),
    { id: "queue", title: t("column.queue"), hide: true, cell: (one) => html`<span class="nowrap">${one.broker} <span class="soft">#${one.queueId}</span> · ${number(one.queueOffset)}</span>` },
    { id: "tag", title: t("message.tag"), cell: (one) => one.tag && html`<${Badge} tone="info">${one.tag}<//>` },
    { id: "keys", title: t("message.keys"), hide: true, cell: (one) => html`<code class="preview preview-short">${one.keys.join(" ")}</code>` },
    { id: "preview", title: t("message.body"), cell: (one) => html`<span class="preview mono">${one.preview}</span>` },
    { id: "size", title: t("message.size"), num: true, hide: true, cell: (one) => bytes(one.sizeBytes) },
  ];
}
