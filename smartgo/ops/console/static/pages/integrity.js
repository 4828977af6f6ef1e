// The integrity of a store's log: the scrub, and the damaged regions that are known.
import { html } from "../app/html.js";
import { may, path, post } from "../app/api.js";
import { attempt } from "../app/dialog.js";
import { bytes, duration, number } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Button, Card, Empty, Facts, Progress, Time } from "../app/parts.js";
import { href } from "../app/router.js";
import { Table } from "../app/table.js";

export function Scrub({ name, id, integrity, reload }) {
  const { scrub } = integrity;
  async function turn(running) {
    if (await attempt(() => post(path`/brokers/${name}/scrub`, { running }, { id }), t(running ? "scrub.begun" : "scrub.ended"))) reload();
  }
  return html`<${Card}
    title=${t("scrub.title")}
    actions=${may("admin") &&
    html`<${Button} small icon=${scrub.running ? "stop" : "play"} onClick=${() => turn(!scrub.running)} data-test="scrub">
      ${t(scrub.running ? "scrub.stop" : "scrub.start")}
    <//>`}
  >
    <p class="soft">${t("scrub.text")}</p>
    ${scrub.running &&
    html`<${Progress} done=${scrub.checkedBytes} total=${scrub.totalBytes} />
      <p class="sub" role="status">
        ${t("scrub.progress", { done: bytes(scrub.checkedBytes), total: bytes(scrub.totalBytes), left: duration(scrub.secondsLeft), n: number(scrub.records) })}
        ${scrub.damaged > 0 && html` <b class="tone-bad">${tn("scrub.damaged", scrub.damaged)}</b>`}
      </p>`}
    <${Facts}
      rows=${[
        [t("scrub.rate"), t("unit.persecond", { size: bytes(scrub.rateBytes) })],
        [t("scrub.last"), scrub.lastEndedMs ? html`<${Time} ms=${scrub.lastEndedMs} />` : t("scrub.never")],
        scrub.lastEndedMs > 0 && [
          t("scrub.result"),
          html`<span class=${scrub.lastDamaged ? "tone-bad" : ""} data-test="scrubbed">${t("scrub.result.value", { size: bytes(scrub.lastBytes), n: number(scrub.lastRecords) })} ${tn("scrub.damaged", scrub.lastDamaged)}</span>`,
        ],
        !scrub.running && [t("scrub.next"), scrub.nextMs ? html`<${Time} ms=${scrub.nextMs} />` : t("scrub.unplanned")],
      ]}
    />
  <//>`;
}

export function Damage({ integrity }) {
  const columns = [
    { id: "offset", title: t("damage.offset"), num: true, cell: (one) => html`<span data-test="damage">${number(one.offset)}</span>` },
    { id: "size", title: t("column.size"), num: true, cell: (one) => bytes(one.length) },
    {
      id: "message",
      title: t("column.message"),
      cell: (one) =>
        one.topic
          ? html`<a href=${href(["topics", one.topic])}>${one.topic}</a> <span class="soft">#${one.queueId}, ${t("message.at", { n: number(one.queueOffset) })}</span>`
          : html`<span class="faint">${t("damage.unreadable")}</span>`,
    },
    { id: "why", title: t("damage.why"), cell: (one) => one.reason },
    { id: "found", title: t("damage.found"), hide: true, num: true, cell: (one) => html`<${Time} ms=${one.foundMs} />` },
    { id: "saved", title: t("damage.saved"), hide: true, cell: (one) => (one.saved ? html`<code>quarantine/${one.saved}</code>` : html`<span class="faint">${t("damage.unsaved")}</span>`) },
  ];
  const { regions, repaired, newest } = integrity;
  return html`<${Card} title=${t("damage.title")} flush=${regions > 0}>
    ${regions > 0
      ? html`<p class="hint hint-warn card-note">${tn("damage.text", regions, { size: bytes(integrity.bytes) })}</p>
          <${Table} columns=${columns} rows=${newest} label=${t("damage.title")} rowKey=${(one) => one.offset} />
          ${newest.length < regions && html`<p class="sub card-note">${t("damage.more", { n: number(newest.length), total: number(regions) })}</p>`}`
      : html`<${Empty} icon="check" title=${t("damage.none")}>${t("damage.none.text")}<//>`}
    ${repaired > 0 && html`<p class="sub card-note" data-test="repaired">${tn("damage.repaired", repaired)}</p>`}
  <//>`;
}
