// Reset the offsets of a group: choose a target, preview the effect, apply it, undo it.
import { html, useState } from "../app/html.js";
import { all, del, get, may, path, post } from "../app/api.js";
import { attempt, confirm } from "../app/dialog.js";
import { fromInput, number, time, toInput } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Facts, Field, Loaded, Missing, Select, Skeleton, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { Table } from "../app/table.js";

const WAYS = ["earliest", "latest", "time", "offset", "shift"];
const TONES = { planned: "info", applied: "good", undone: "plain", failed: "bad" };

export function Positions({ group, onMoved }) {
  const [plan, setPlan] = useState(null);
  const plans = useResource((abort) => get("/offsets/plans", { q: group.name, sort: "-madeMs", limit: 50 }, abort), [group.name]);

  async function apply() {
    const sure = await confirm({
      title: t("positions.apply"),
      text: t("positions.apply.text", { group: plan.group, topic: plan.topic, skipped: number(plan.skipped), repeated: number(plan.repeated) }),
      action: t("positions.apply"),
      typed: plan.skipped > 0 ? plan.group : undefined,
    });
    if (sure) await change(plan, "apply", t("positions.applied"));
  }
  async function change(one, what, said) {
    await attempt(async () => {
      const now = await post(path`/offsets/plans/${one.id}/${what}`);
      setPlan(now);
    }, said);
    plans.reload();
    onMoved();
  }
  async function undo(one) {
    const sure = await confirm({ title: t("positions.undo"), text: t("positions.undo.text", { group: one.group, topic: one.topic }), action: t("positions.undo"), danger: false });
    if (sure) await change(one, "undo", t("positions.undone"));
  }
  async function show(one) {
    await attempt(async () => setPlan(await get(path`/offsets/plans/${one.id}`)));
  }
  async function forget(one) {
    await attempt(() => del(path`/offsets/plans/${one.id}`), t("positions.forgotten"));
    if (plan?.id === one.id) setPlan(null);
    plans.reload();
  }
  const columns = [
    { id: "made", title: t("column.when"), cell: (one) => html`<${Time} ms=${one.madeMs} />` },
    { id: "topic", title: t("column.topic"), cell: (one) => html`<span class="name">${one.topic}</span>` },
    { id: "to", title: t("positions.to"), cell: (one) => goal(one) },
    { id: "state", title: t("column.state"), cell: (one) => html`<${Badge} tone=${TONES[one.state]} title=${one.error}>${t(`plan.${one.state}`)}<//>` },
    { id: "skipped", title: t("positions.skipped"), num: true, hide: true, cell: (one) => number(one.skipped) },
    { id: "repeated", title: t("positions.repeated"), num: true, hide: true, cell: (one) => number(one.repeated) },
    { id: "who", title: t("column.who"), hide: true, cell: (one) => one.who },
    {
      id: "actions",
      title: "",
      tight: true,
      cell: (one) => html`<span class="badges">
        <${Button} small onClick=${() => show(one)}>${t("action.show")}<//>
        ${one.undoable && html`<${Button} needs="admin" small icon="undo" onClick=${() => undo(one)}>${t("positions.undo")}<//>`}
        <${Button} needs="admin" small kind="ghost" icon="trash" onClick=${() => forget(one)} aria-label=${t("positions.forget")} title=${t("positions.forget")} />
      </span>`,
    },
  ];
  return html`${may("admin") ? html`<${Order} group=${group} onPlan=${(one) => (setPlan(one), plans.reload())} />` : html`<p class="hint">${t("positions.readonly")}</p>`}
    ${plan && html`<${Plan} plan=${plan} onApply=${apply} onUndo=${() => undo(plan)} onClose=${() => setPlan(null)} />`}
    <${Card} title=${t("positions.plans")} flush>
      <${Loaded} from=${plans}>
        ${(page) => {
          const rows = page.items.filter((one) => one.group === group.name);
          return rows.length
            ? html`<${Table} columns=${columns} rows=${rows} label=${t("positions.plans")} rowKey=${(one) => one.id} />`
            : html`<${Empty} icon="undo" title=${t("positions.noplans")}>${t("positions.noplans.text")}<//>`;
        }}
      <//>
    <//>`;
}

function goal(plan) {
  if (plan.to === "time") return t("positions.goal.time", { time: time(plan.value) });
  if (plan.to === "offset") return t("positions.goal.offset", { n: number(plan.value) });
  if (plan.to === "shift") return t("positions.goal.shift", { n: (plan.value > 0 ? "+" : "") + number(plan.value) });
  return t(`positions.to.${plan.to}`);
}

function Order({ group, onPlan }) {
  const topics = useResource(() => all(path`/groups/${group.name}/topics`, {}, 1000), [group.name]);
  const [topic, setTopic] = useState("");
  const [to, setTo] = useState("time");
  const [at, setAt] = useState(() => toInput(Date.now() - 3600000));
  const [value, setValue] = useState("0");
  const [busy, setBusy] = useState(false);
  if (!topics.data) return html`<${Card} title=${t("positions.title")}><${Skeleton} lines=${2} /><//>`;
  // The topics of applications first; the group's retry topic last.
  const names = topics.data.map((one) => one.topic).sort((one, other) => one.startsWith("%") - other.startsWith("%") || one.localeCompare(other));
  const chosen = topic || names[0];
  if (!names.length) return html`<${Card} title=${t("positions.title")}><${Empty} icon="topics" title=${t("lag.notopics")}>${t("positions.notopics")}<//><//>`;

  async function submit(event) {
    event.preventDefault();
    const wanted = to === "time" ? fromInput(at) : to === "offset" || to === "shift" ? Number(value) : 0;
    setBusy(true);
    await attempt(async () => onPlan(await post("/offsets/reset", { group: group.name, topic: chosen, to, value: wanted, dryRun: true })));
    setBusy(false);
  }
  return html`<${Card} title=${t("positions.title")}>
    <form class="form" onSubmit=${submit}>
      <div class="form-row">
        <${Field} label=${t("column.topic")}>
          ${(field) => html`<${Select} ...${field} value=${chosen} options=${names.map((one) => [one, one])} onChange=${setTopic} />`}
        <//>
        <${Field} label=${t("positions.to")}>
          ${(field) => html`<${Select} ...${field} value=${to} options=${WAYS.map((one) => [one, t(`positions.to.${one}`)])} onChange=${setTo} />`}
        <//>
        ${to === "time" &&
        html`<${Field} label=${t("positions.time")}>
          ${(field) => html`<input ...${field} type="datetime-local" step="1" required value=${at} onInput=${(event) => setAt(event.currentTarget.value)} />`}
        <//>`}
        ${(to === "offset" || to === "shift") &&
        html`<${Field} label=${t(`positions.value.${to}`)}>
          ${(field) => html`<input ...${field} type="number" required min=${to === "offset" ? 0 : undefined} value=${value} onInput=${(event) => setValue(event.currentTarget.value)} />`}
        <//>`}
      </div>
      <div class="form-foot">
        <button type="submit" class="button button-primary" disabled=${busy}>${t("positions.preview")}</button>
        <span class="sub">${t("positions.preview.note")}</span>
      </div>
    </form>
  <//>`;
}

function Plan({ plan, onApply, onUndo, onClose }) {
  const columns = [
    { id: "queue", title: t("column.queue"), cell: (one) => html`<span class="name">${one.broker}</span> <span class="soft">#${one.queueId}</span>` },
    { id: "bounds", title: t("positions.bounds"), num: true, hide: true, cell: (one) => `${number(one.minimum)} – ${number(one.maximum)}` },
    { id: "before", title: t("positions.before"), num: true, cell: (one) => (one.before === null ? t("positions.nowhere") : number(one.before)) },
    { id: "after", title: t("positions.after"), num: true, cell: (one) => html`<b>${number(one.after)}</b>` },
    { id: "skipped", title: t("positions.skipped"), num: true, cell: (one) => html`<span class=${one.skipped ? "tone-bad" : "faint"}>${number(one.skipped)}</span>` },
    { id: "repeated", title: t("positions.repeated"), num: true, cell: (one) => html`<span class=${one.repeated ? "tone-warn" : "faint"}>${number(one.repeated)}</span>` },
  ];
  return html`<${Card}
    title=${html`${t("positions.plan")} · ${plan.topic} <${Badge} tone=${TONES[plan.state]}>${t(`plan.${plan.state}`)}<//>`}
    actions=${html`${plan.state === "planned" && html`<${Button} needs="admin" kind="primary" small icon="check" onClick=${onApply}>${t("positions.apply")}<//>`}
      ${plan.undoable && html`<${Button} needs="admin" small icon="undo" onClick=${onUndo}>${t("positions.undo")}<//>`}
      <${Button} small kind="ghost" icon="close" onClick=${onClose} aria-label=${t("action.close")} />`}
    flush
  >
    <${Missing} from=${plan} />
    <div class="card-pad">
      <${Facts}
        rows=${[
          [t("positions.to"), goal(plan)],
          [t("positions.skipped"), number(plan.skipped)],
          [t("positions.repeated"), number(plan.repeated)],
          [t("column.members"), number(plan.members)],
          [t("positions.expires"), html`<${Time} ms=${plan.expiresMs} />`],
          plan.written.length > 0 && [t("positions.written"), plan.written.join(", ")],
          plan.error && [t("column.error"), html`<span class="tone-bad">${plan.error}</span>`],
        ]}
      />
    </div>
    <${Table} columns=${columns} rows=${plan.moves} label=${t("positions.plan")} rowKey=${(one) => `${one.broker} ${one.queueId}`} />
  <//>`;
}
