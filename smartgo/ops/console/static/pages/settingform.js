// The form that changes one setting, with a preview. Only the server knows the allowed values.
import { html, useState } from "../app/html.js";
import { patch } from "../app/api.js";
import { attempt } from "../app/dialog.js";
import { t } from "../app/i18n.js";
import { Check, Facts, Field, Select } from "../app/parts.js";
import { Change } from "./change.js";

export function SettingForm({ setting, close }) {
  const flag = setting.origin === "flag";
  const [value, setValue] = useState(setting.value);
  const [keep, setKeep] = useState(!flag);
  const [planned, setPlanned] = useState(null);
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  const body = { changes: { [setting.name]: value }, keep };

  async function preview() {
    try {
      setPlanned((await patch("/config", { ...body, dryRun: true }))[0]);
    } catch (error) {
      setWrong(error.message);
    }
  }
  async function apply() {
    if (await attempt(() => patch("/config", body), t("config.done", { name: setting.name, value: planned.value }))) close(true);
    else setPlanned(null);
  }
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    await (planned ? apply() : preview());
    setBusy(false);
  }
  function set(text) {
    setValue(text);
    setWrong("");
    setPlanned(null);
  }
  const same = planned && planned.before === planned.value && (!keep || setting.origin === "kept");
  return html`<form class="form" onSubmit=${submit}>
    <p class="dialog-text">${setting.about}</p>
    <${Facts} rows=${[[t("config.default"), html`<code>${setting.default || "–"}</code>`], [t("config.origin"), html`${t(`origin.${setting.origin}`)} <span class="sub">${setting.place}</span>`]]} />
    <${Field} label=${t("column.value")} hint=${`${t("config.allowed")}: ${setting.allowed}`} error=${wrong}>
      ${(field) =>
        setting.choices.length
          ? html`<${Select} ...${field} value=${value} options=${setting.choices.map((one) => [one, one])} onChange=${set} />`
          : html`<input ...${field} class="mono" autocomplete="off" spellcheck=${false} maxlength="1024" value=${value} onInput=${(event) => set(event.currentTarget.value)} />`}
    <//>
    <${Check}
      label=${t("config.keep")}
      checked=${keep}
      disabled=${flag}
      onChange=${(on) => {
        setKeep(on);
        setPlanned(null);
      }}
    />
    <p class="hint">${t(flag ? "config.keep.flag" : keep ? "config.keep.yes" : "config.keep.no")}</p>
    ${planned && html`<div class="change-preview" role="status"><p class="label">${t(same ? "config.same" : "config.preview")}</p><${Change} before=${planned.before} after=${planned.value} /></div>`}
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-primary" disabled=${busy || same}>${t(planned && !same ? "config.apply" : "config.look")}</button>
    </div>
  </form>`;
}
