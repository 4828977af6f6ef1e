// The form that creates or edits a topic.
import { html, useState } from "../app/html.js";
import { path, post, put } from "../app/api.js";
import { attempt } from "../app/dialog.js";
import { t } from "../app/i18n.js";
import { Check, Field, Select } from "../app/parts.js";

const NAME = /^[%|a-zA-Z0-9_-]+$/;
const PERMS = ["read-write", "read", "write", "none"];

export function TopicForm({ topic, close }) {
  const [name, setName] = useState(topic?.name ?? "");
  const first = topic?.settings[0];
  const [read, setRead] = useState(first?.readQueues ?? 8);
  const [write, setWrite] = useState(first?.writeQueues ?? 8);
  const [perm, setPerm] = useState(first?.perm ?? "read-write");
  const [order, setOrder] = useState(topic?.order ?? false);
  const [busy, setBusy] = useState(false);
  const wrong = name && !NAME.test(name) ? t("name.wrong") : "";

  async function submit(event) {
    event.preventDefault();
    const body = { readQueues: Number(read), writeQueues: Number(write), perm, order };
    setBusy(true);
    const done = await attempt(
      () => (topic ? put(path`/topics/${name}`, body) : post("/topics", { name, ...body })),
      t(topic ? "topic.changed" : "topic.made", { name }),
    );
    setBusy(false);
    if (done) close(name);
  }
  const count = (value, set) => (field) =>
    html`<input ...${field} type="number" min="1" max="1024" required value=${value} onInput=${(event) => set(event.currentTarget.value)} />`;
  return html`<form class="form" onSubmit=${submit}>
    ${!topic &&
    html`<${Field} label=${t("topic.name")} error=${wrong}>
      ${(field) => html`<input ...${field} class="mono" required maxlength="127" autocomplete="off" spellcheck=${false} value=${name} onInput=${(event) => setName(event.currentTarget.value)} />`}
    <//>`}
    <div class="form-row">
      <${Field} label=${t("topic.writeQueues")} hint=${t("topic.each")}>${count(write, setWrite)}<//>
      <${Field} label=${t("topic.readQueues")} hint=${t("topic.each")}>${count(read, setRead)}<//>
    </div>
    <${Field} label=${t("column.perm")}>
      ${(field) => html`<${Select} ...${field} value=${perm} options=${PERMS.map((one) => [one, t(`perm.${one}`)])} onChange=${setPerm} />`}
    <//>
    <${Check} label=${t("topic.order.label")} checked=${order} onChange=${setOrder} />
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-primary" disabled=${busy || !name || wrong}>${t(topic ? "action.save" : "action.create")}</button>
    </div>
  </form>`;
}
