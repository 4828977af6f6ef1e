// Backups of a broker's store: how the last one went, and a button that begins one.
import { html, useState } from "../app/html.js";
import { get, path, post } from "../app/api.js";
import { attempt, openDialog } from "../app/dialog.js";
import { bytes, number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Facts, Field, Loaded, Progress, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";

const TONES = { running: "info", done: "good", failed: "bad", cancelled: "plain" };

export function Backups({ name, id }) {
  const backup = useResource((abort) => get(path`/brokers/${name}/backup`, { id }, abort), [name, id], 2000);
  function begin() {
    openDialog(t("backup.begin"), (close) => html`<${Begin} name=${name} id=${id} close=${(done) => (close(done), backup.reload())} />`);
  }
  const running = backup.data?.state === "running";
  return html`<${Card}
    title=${t("backup.title")}
    actions=${html`<${Button} needs="admin" small icon="plus" disabled=${running} onClick=${begin}>${t("backup.begin")}<//>`}
  >
    <p class="soft">${t("backup.text")}</p>
    <${Loaded} from=${backup} lines=${2}>
      ${(one) =>
        one.state
          ? html`<${Facts}
              rows=${[
                [t("backup.last"), html`<b>${one.name}</b> <${Badge} tone=${TONES[one.state]}>${t(`backup.${one.state}`)}<//>`],
                [t("backup.directory"), html`<code>${one.directory}</code> ${one.state === "cancelled" && html`<${Badge}>${t("backup.gone")}<//>`}`],
                [t("backup.begun"), html`<${Time} ms=${one.begun} />`],
                one.ended > 0 && [t("backup.ended"), html`<${Time} ms=${one.ended} />`],
                one.state === "running" && [t("job.progress"), html`<${Progress} done=${one.done} total=${one.size} /> ${t("backup.progress", { done: bytes(one.done), total: bytes(one.size) })}`],
                [t("backup.files"), t("backup.files.value", { n: number(one.files), linked: number(one.linked), size: bytes(one.copied) })],
                one.removed.length > 0 && [t("backup.removed"), html`<span data-test="pruned">${one.removed.join(", ")}</span>`],
                one.error && [t("backup.error"), html`<span class="tone-bad">${one.error}</span>`],
              ]}
            />`
          : html`<${Empty} icon="download" title=${t("backup.none")}>${t("backup.none.text")}<//>`}
    <//>
  <//>`;
}

// "20261123T033000Z": the name that the command line gives a backup.
const stamp = () => new Date().toISOString().replace(/\.\d+|[-:]/g, "");

function Begin({ name, id, close }) {
  const [title, setTitle] = useState(stamp);
  const [rate, setRate] = useState("");
  const [keep, setKeep] = useState("");
  const [days, setDays] = useState("");
  const [busy, setBusy] = useState(false);
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    const order = { name: title, rateBytes: Math.round(Number(rate) * 1048576), keep: Number(keep), keepSeconds: Math.round(Number(days) * 86400) };
    const done = await attempt(() => post(path`/brokers/${name}/backup`, order, { id }), t("backup.started", { name: title }));
    setBusy(false);
    if (done) close(true);
  }
  return html`<form class="form" onSubmit=${submit}>
    <p class="dialog-text">${t("backup.begin.text", { name })}</p>
    <${Field} label=${t("backup.name")} hint=${t("backup.name.hint")}>
      ${(field) => html`<input ...${field} class="mono" required pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" maxlength="100" value=${title} onInput=${(event) => setTitle(event.currentTarget.value)} />`}
    <//>
    <div class="form-row">
      <${Field} label=${t("backup.rate")} hint=${t("backup.rate.hint")}>${(field) => html`<input ...${field} type="number" min="0" value=${rate} onInput=${(event) => setRate(event.currentTarget.value)} />`}<//>
      <${Field} label=${t("backup.keep")} hint=${t("backup.keep.hint")}>${(field) => html`<input ...${field} type="number" min="0" value=${keep} onInput=${(event) => setKeep(event.currentTarget.value)} />`}<//>
      <${Field} label=${t("backup.days")} hint=${t("backup.days.hint")}>${(field) => html`<input ...${field} type="number" min="0" value=${days} onInput=${(event) => setDays(event.currentTarget.value)} />`}<//>
    </div>
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <${Button} kind="primary" type="submit" busy=${busy}>${t("backup.begin")}<//>
    </div>
  </form>`;
}
