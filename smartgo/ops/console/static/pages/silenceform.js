// The form that silences alerts for a time.
import { html, useState } from "../app/html.js";
import { post } from "../app/api.js";
import { attempt } from "../app/dialog.js";
import { t } from "../app/i18n.js";
import { Check, Field, Select } from "../app/parts.js";
import { RULES } from "./alertrules.js";
import { ruleName } from "./alertwords.js";

const HOUR = 3600;
const SPANS = [1, 4, 12, 24, 72, 168, 720];

export function SilenceForm({ rule: firstRule, subject: firstSubject, close }) {
  const [rule, setRule] = useState(firstRule);
  const [subject, setSubject] = useState(firstSubject);
  const [hours, setHours] = useState("4");
  const [comment, setComment] = useState("");
  const [all, setAll] = useState(false);
  const [busy, setBusy] = useState(false);
  const anything = !rule && !subject;
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    const done = await attempt(() => post("/alerts/silences", { rule, subject, all: anything && all, comment, seconds: Number(hours) * HOUR }), t("silence.made"));
    setBusy(false);
    if (done) close(true);
  }
  return html`<form class="form" onSubmit=${submit}>
    <p class="dialog-text">${t("silence.text")}</p>
    <${Field} label=${t("alerts.what")}>${(field) => html`<${Select} ...${field} value=${rule} options=${[["", t("silence.anyrule")], ...RULES.map((one) => [one, ruleName(one)])]} onChange=${setRule} />`}<//>
    <${Field} label=${t("alerts.subject")} hint=${t("silence.subject.hint")}>${(field) => html`<input ...${field} class="mono" maxlength="300" autocomplete="off" spellcheck=${false} value=${subject} onInput=${(event) => setSubject(event.currentTarget.value)} />`}<//>
    ${anything && html`<${Check} label=${t("silence.everything")} checked=${all} onChange=${setAll} />`}
    <${Field} label=${t("silence.span")}>${(field) => html`<${Select} ...${field} value=${hours} options=${SPANS.map((one) => [String(one), t(`silence.hours.${one}`)])} onChange=${setHours} />`}<//>
    <${Field} label=${t("silence.comment")} hint=${t("silence.comment.hint")}>${(field) => html`<input ...${field} maxlength="300" autocomplete="off" value=${comment} onInput=${(event) => setComment(event.currentTarget.value)} />`}<//>
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-primary" disabled=${busy || (anything && !all)}>${t("silence.action")}</button>
    </div>
  </form>`;
}
