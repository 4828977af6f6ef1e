// Damaged messages in the queues of a group; nothing is drawn where there are none.
import { html } from "../app/html.js";
import { get, path } from "../app/api.js";
import { number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Card, Missing, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href } from "../app/router.js";
import { Table } from "../app/table.js";

const MOST = 50;

export function GroupDamage({ name }) {
  const damage = useResource((abort) => get(path`/groups/${name}/damage`, { limit: MOST }, abort), [name], 15000);
  const rows = damage.data?.items ?? [];
  if (!rows.length) return null;
  const { total } = damage.data;
  const columns = [
    { id: "topic", title: t("column.topic"), cell: (one) => html`<a class="name" href=${href(["topics", one.topic])}>${one.topic}</a>` },
    { id: "queue", title: t("column.queue"), cell: (one) => html`<a href=${href(["stores", one.broker, "0"])}>${one.broker}</a> <span class="soft">#${one.queueId}, ${t("message.at", { n: number(one.queueOffset) })}</span>` },
    { id: "state", title: t("column.state"), cell: (one) => html`<${Badge} tone=${one.skipped ? "bad" : "warn"}>${t(one.skipped ? "damage.skipped" : "damage.ahead")}<//>` },
    { id: "why", title: t("damage.why"), hide: true, cell: (one) => one.reason },
    { id: "found", title: t("damage.found"), hide: true, num: true, cell: (one) => html`<${Time} ms=${one.foundMs} />` },
  ];
  return html`<${Card} title=${t("damage.group")} flush>
    <${Missing} from=${damage.data} />
    <p class="hint hint-warn card-note" data-test="groupdamage">
      ${rows.some((one) => one.skipped) && t("damage.group.skipped")} ${rows.some((one) => !one.skipped) && t("damage.group.ahead")}
    </p>
    <${Table} columns=${columns} rows=${rows} label=${t("damage.group")} rowKey=${(one) => `${one.broker} ${one.logOffset}`} />
    ${total > rows.length && html`<p class="sub card-note" data-test="moredamage">${t("damage.first", { n: number(rows.length), total: number(total) })}</p>`}
  <//>`;
}
