// The dialog that empties a topic: what that does is said first, group by group.
import { html, useState } from "../app/html.js";
import { path, post } from "../app/api.js";
import { attempt, openDialog, toast } from "../app/dialog.js";
import { number } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Button, Field, Loaded } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { Table } from "../app/table.js";

export function emptyTopic(name) {
  return openDialog(t("topic.empty"), (close) => html`<${Emptying} name=${name} close=${close} />`);
}

function Emptying({ name, close }) {
  const plan = useResource(() => post(path`/topics/${name}/empty`, { dryRun: true }), [name]);
  const [written, setWritten] = useState("");
  const [busy, setBusy] = useState(false);
  const groups = plan.data?.groups ?? [];
  const columns = [
    { id: "group", title: t("column.group"), cell: (one) => one.group },
    { id: "skipped", title: t("positions.skipped"), num: true, cell: (one) => (one.error ? html`<span class="tone-bad">${one.error}</span>` : number(one.skipped)) },
  ];
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    const done = await attempt(async () => {
      const found = await post(path`/topics/${name}/empty`, {});
      const failed = found.groups.filter((one) => one.error);
      for (const one of failed) toast(t("topic.empty.failed", { group: one.group, why: one.error }), "bad");
      if (!failed.length) toast(tn("topic.emptied", found.groups.length, { name }));
    });
    setBusy(false);
    if (done) close(true);
  }
  return html`<form class="form" onSubmit=${submit}>
    <${Loaded} from=${plan} lines=${3}>
      ${(found) => html`<p class="dialog-text">${tn("topic.empty.text", groups.length, { name })}</p>
        <p class="hint" data-test="stay">${tn("topic.empty.stay", found.messages)}</p>
        ${groups.length > 0 && html`<${Table} columns=${columns} rows=${groups} label=${t("nav.groups")} rowKey=${(one) => one.group} />`}
        ${groups.length > 0 && html`<p class="sub">${t("topic.empty.undo")}</p>`}`}
    <//>
    <${Field} label=${t("confirm.type", { name })}>
      ${(field) => html`<input ...${field} class="mono" autocomplete="off" spellcheck=${false} value=${written} onInput=${(event) => setWritten(event.currentTarget.value)} />`}
    <//>
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <${Button} kind="danger" type="submit" busy=${busy} disabled=${written !== name || !groups.length}>${t("topic.empty.action")}<//>
    </div>
  </form>`;
}
