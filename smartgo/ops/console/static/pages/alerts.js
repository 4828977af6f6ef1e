// Alerts: current alerts, history, rules, silences.
import { html, useEffect, useState } from "../app/html.js";
import { alarm } from "../app/alarm.js";
import { del, get, may, path } from "../app/api.js";
import { attempt, openDialog } from "../app/dialog.js";
import { duration } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Loaded, Page, Select, Stat, Tabs, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href, setQuery } from "../app/router.js";
import { RemoteTable, Table } from "../app/table.js";
import { AlertReceivers } from "./alertreceivers.js";
import { AlertRules, RULES } from "./alertrules.js";
import { SilenceForm } from "./silenceform.js";
import { amount, PROCESS, ruleName, RuleTitle, rulesTitled, Runbook, severityTone, STATE_TONES, Subject } from "./alertwords.js";

const TABS = ["now", "history", "rules", "silences", "receivers"];

export default function Alerts({ parts, query }) {
  const tab = TABS.includes(parts[0]) ? parts[0] : "now";
  const tabs = TABS.map((one) => [one, t(`alerts.tab.${one}`), href(one === "now" ? ["alerts"] : ["alerts", one])]);
  return html`<${Page} title=${t("nav.alerts")} about=${t("alerts.about")}>
    <${Tabs} tabs=${tabs} chosen=${tab} label=${t("nav.alerts")} />
    ${tab === "now" && html`<${Now} query=${query} />`}
    ${tab === "history" && html`<${History} query=${query} />`}
    ${tab === "rules" && html`<${AlertRules} />`}
    ${tab === "silences" && html`<${Silences} />`}
    ${tab === "receivers" && html`<${AlertReceivers} />`}
  <//>`;
}

function Now({ query }) {
  const now = alarm.value;
  const [version, setVersion] = useState(0);
  const changed = () => setVersion((before) => before + 1);
  // Reload the list when an alert event arrives.
  useEffect(changed, [now]);
  async function silence(one) {
    if (await openDialog(t("silence.title"), (close) => html`<${SilenceForm} rule=${one.rule} subject=${one.subject || PROCESS} close=${close} />`)) changed();
  }
  async function unsilence(one) {
    if (await attempt(() => del(path`/alerts/silences/${one.silence.id}`), t("silence.ended"))) changed();
  }
  const columns = [
    { id: "severity", title: t("alerts.severity"), sort: "severity", cell: (one) => html`<${Badge} tone=${one.state === "resolved" || one.cause ? "plain" : severityTone(one)}>${t(`severity.${one.severity}`)}<//>` },
    { id: "what", title: t("alerts.what"), sort: "rule", cell: (one) => html`<details class="setting"><summary><${RuleTitle} rule=${one.rule} /></summary>${one.detail && html`<p>${one.detail}</p>`}<p class="soft">${t(`alert.${one.rule}.about`)}</p><${Runbook} one=${one} /></details>` },
    { id: "subject", title: t("alerts.subject"), sort: "subject", cell: (one) => html`<${Subject} one=${one} />` },
    { id: "value", title: t("alerts.value"), num: true, cell: (one) => (one.unit === "state" ? "" : html`<b>${amount(one.unit, one.value)}</b> <span class="sub nowrap">> ${amount(one.unit, one.threshold)}</span>`) },
    { id: "state", title: t("alerts.state"), sort: "state", cell: (one) => html`<span class="badges"><${Badge} tone=${one.silence ? "plain" : STATE_TONES[one.state]}>${t(`alerts.state.${one.state}`)}<//>${one.silence && html`<${Badge} title=${one.silence.comment}>${t("alerts.silenced", { who: one.silence.who })}<//>`}${one.cause && html`<span class="sub">${t("alerts.caused", { rule: ruleName(one.cause) })}</span>`}</span>` },
    { id: "since", title: t("alerts.since"), sort: "sinceMs", hide: true, cell: (one) => html`<span class="nowrap"><${Time} ms=${one.sinceMs} relative /></span>` },
    {
      id: "actions",
      title: "",
      tight: true,
      cell: (one) =>
        may("admin") &&
        one.state !== "resolved" &&
        (one.silence
          ? html`<${Button} small icon="alerts" onClick=${() => unsilence(one)}>${t("silence.end")}<//>`
          : html`<${Button} small icon="mute" onClick=${() => silence(one)} aria-label=${t("silence.of", { rule: ruleName(one.rule), subject: one.subject })}>${t("silence.action")}<//>`),
    },
  ];
  return html`${now &&
    html`<div class="stats">
      <${Stat} label=${t("severity.critical")} value=${now.critical} tone=${now.critical ? "bad" : undefined} note=${t("alerts.note.firing")} />
      <${Stat} label=${t("severity.warning")} value=${now.warning} tone=${now.warning ? "warn" : undefined} note=${t("alerts.note.firing")} />
      <${Stat} label=${t("alerts.state.pending")} value=${now.pending} note=${t("alerts.note.pending")} />
      <${Stat} label=${t("alerts.quiet")} value=${now.silenced} note=${t("alerts.note.silenced")} href=${href(["alerts", "silences"])} />
    </div>`}
    <${Card} flush>
      <${RemoteTable}
        where="/alerts"
        query=${{ state: query.state, silenced: query.silenced, rules: rulesTitled(RULES, query.q) }}
        columns=${columns}
        defaultSort="-severity"
        label=${t("nav.alerts")}
        stack
        filterText=${t("alerts.filter")}
        rowKey=${(one) => `${one.rule} ${one.subject}`}
        every=${10000}
        version=${version}
        extra=${html`<${Select} aria-label=${t("alerts.state")} value=${query.state ?? ""} options=${["", "firing", "pending", "resolved"].map((one) => [one, t(one ? `alerts.state.${one}` : "alerts.states")])} onChange=${(state) => setQuery({ state, from: "" })} />
          <${Select} aria-label=${t("alerts.quiet")} value=${query.silenced ?? ""} options=${[["", t("alerts.all")], ["false", t("alerts.loud")], ["true", t("alerts.quiet")]]} onChange=${(silenced) => setQuery({ silenced, from: "" })} />`}
        empty=${html`<${Empty} icon="check" title=${t("alerts.none")}>${t("alerts.none.text")}<//>`}
      />
    <//>`;
}

function History({ query }) {
  const columns = [
    { id: "fired", title: t("alerts.fired"), sort: "firedMs", cell: (one) => html`<span class="nowrap"><${Time} ms=${one.firedMs} /></span>` },
    { id: "severity", title: t("alerts.severity"), cell: (one) => html`<${Badge} tone=${severityTone(one)}>${t(`severity.${one.severity}`)}<//>` },
    { id: "what", title: t("alerts.what"), sort: "rule", cell: (one) => html`<${RuleTitle} rule=${one.rule} />` },
    { id: "subject", title: t("alerts.subject"), sort: "subject", cell: (one) => html`<${Subject} one=${one} />` },
    { id: "peak", title: t("alerts.peak"), num: true, cell: (one) => (one.unit === "state" ? "" : amount(one.unit, one.peak)) },
    { id: "lasted", title: t("alerts.lasted"), num: true, cell: (one) => (one.resolvedMs ? duration((one.resolvedMs - one.sinceMs) / 1000) : html`<${Badge} tone="bad">${t("alerts.state.firing")}<//>`) },
    { id: "silenced", title: "", cell: (one) => one.silenced && html`<${Badge}>${t("alerts.quiet")}<//>` },
  ];
  return html`<${Card} flush>
    <${RemoteTable} where="/alerts/history" query=${{ rules: rulesTitled(RULES, query.q) }} columns=${columns} defaultSort="-firedMs" label=${t("alerts.tab.history")} filterText=${t("alerts.filter")} rowKey=${(one) => one.id} every=${30000} empty=${html`<${Empty} icon="check" title=${t("alerts.nohistory")} />`} />
  <//>`;
}

function Silences() {
  const found = useResource((abort) => get("/alerts/silences", null, abort), [], 30000);
  async function create() {
    if (await openDialog(t("silence.title"), (close) => html`<${SilenceForm} rule="" subject="" close=${close} />`)) found.reload();
  }
  async function end(one) {
    if (await attempt(() => del(path`/alerts/silences/${one.id}`), t("silence.ended"))) found.reload();
  }
  const columns = [
    { id: "rule", title: t("alerts.what"), cell: (one) => (one.rule ? html`<${RuleTitle} rule=${one.rule} />` : t("silence.anyrule")) },
    { id: "subject", title: t("alerts.subject"), cell: (one) => (one.subject ? html`<code>${one.subject}</code>` : t("silence.anysubject")) },
    { id: "until", title: t("silence.until"), cell: (one) => html`<span class="nowrap"><${Time} ms=${one.untilMs} /></span>` },
    { id: "who", title: t("column.who"), cell: (one) => html`<span class="name">${one.who}</span>` },
    { id: "comment", title: t("silence.comment"), cell: (one) => one.comment },
    { id: "actions", title: "", tight: true, cell: (one) => html`<${Button} needs="admin" small icon="alerts" onClick=${() => end(one)}>${t("silence.end")}<//>` },
  ];
  return html`<${Card} title=${t("alerts.tab.silences")} flush actions=${html`<${Button} needs="admin" small icon="plus" onClick=${create}>${t("silence.new")}<//>`}>
    <${Loaded} from=${found}>
      ${(rows) => (rows.length ? html`<${Table} columns=${columns} rows=${rows} label=${t("alerts.tab.silences")} rowKey=${(one) => one.id} />` : html`<${Empty} icon="alerts" title=${t("silence.none")}>${t("silence.none.text")}<//>`)}
    <//>
  <//>`;
}
