// The form that creates or edits a group.
import { html, useState } from "../app/html.js";
import { path, post, put } from "../app/api.js";
import { attempt } from "../app/dialog.js";
import { t } from "../app/i18n.js";
import { Check, Field } from "../app/parts.js";

const NAME = /^[%|a-zA-Z0-9_-]+$/;

export function GroupForm({ group, close }) {
  const first = group?.settings[0];
  const [name, setName] = useState(group?.name ?? "");
  const [body, setBody] = useState({
    consumeEnabled: first?.consumeEnabled ?? true,
    fromMinEnabled: first?.fromMinEnabled ?? true,
    broadcastEnabled: first?.broadcastEnabled ?? true,
    retryQueues: first?.retryQueues ?? 1,
    retryMax: first?.retryMax ?? 16,
    brokerId: first?.brokerId ?? 0,
    slowBrokerId: first?.slowBrokerId ?? 1,
    notifyChanges: first?.notifyChanges ?? true,
  });
  const [busy, setBusy] = useState(false);
  const wrong = name && !NAME.test(name) ? t("name.wrong") : "";
  const set = (member) => (value) => setBody((before) => ({ ...before, [member]: value }));

  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    const done = await attempt(
      () => (group ? put(path`/groups/${name}`, body) : post("/groups", { name, ...body })),
      t(group ? "group.changed" : "group.made", { name }),
    );
    setBusy(false);
    if (done) close(name);
  }
  const count = (member, min, max) => (field) =>
    html`<input ...${field} type="number" required min=${min} max=${max} value=${body[member]} onInput=${(event) => set(member)(Number(event.currentTarget.value))} />`;
  return html`<form class="form" onSubmit=${submit}>
    ${!group &&
    html`<${Field} label=${t("group.name")} error=${wrong}>
      ${(field) => html`<input ...${field} class="mono" required maxlength="255" autocomplete="off" spellcheck=${false} value=${name} onInput=${(event) => setName(event.currentTarget.value)} />`}
    <//>`}
    <div class="form-row">
      <${Field} label=${t("group.retryMax")} hint=${t("group.retryMax.hint")}>${count("retryMax", -1, 10000)}<//>
      <${Field} label=${t("group.retryQueues")}>${count("retryQueues", 0, 64)}<//>
    </div>
    <${Check} label=${t("group.enabled.label")} checked=${body.consumeEnabled} onChange=${set("consumeEnabled")} />
    <${Check} label=${t("group.fromMin.label")} checked=${body.fromMinEnabled} onChange=${set("fromMinEnabled")} />
    <${Check} label=${t("group.broadcast.label")} checked=${body.broadcastEnabled} onChange=${set("broadcastEnabled")} />
    <${Check} label=${t("group.notify.label")} checked=${body.notifyChanges} onChange=${set("notifyChanges")} />
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-primary" disabled=${busy || !name || wrong}>${t(group ? "action.save" : "action.create")}</button>
    </div>
  </form>`;
}
