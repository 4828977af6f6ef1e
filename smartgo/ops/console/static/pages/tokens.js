// Access tokens for programs and people.
import { html, useState } from "../app/html.js";
import { del, path, post, session } from "../app/api.js";
import { attempt, confirm, openDialog } from "../app/dialog.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Check, Copy, Empty, Field, Page, Select, Time } from "../app/parts.js";
import { RemoteTable } from "../app/table.js";

const SCOPES = ["read", "publish", "admin"];
const DAY = 86400;
const SPANS = [0, 1, 7, 30, 90, 365];

export default function Tokens() {
  const [version, setVersion] = useState(0);
  const changed = () => setVersion((before) => before + 1);
  async function create() {
    const made = await openDialog(t("token.new"), (close) => html`<${Form} close=${close} />`);
    if (!made) return;
    changed();
    await openDialog(t("token.made"), (close) => html`<${Made} made=${made} close=${close} />`);
  }
  async function remove(one) {
    const sure = await confirm({ title: t("token.delete"), text: t("token.delete.text", { name: one.name }), action: t("action.delete"), typed: one.name });
    if (sure && (await attempt(() => del(path`/tokens/${one.name}`), t("token.deleted", { name: one.name })))) changed();
  }
  const columns = [
    { id: "name", title: t("column.name"), sort: "name", cell: (one) => html`<span class="name">${one.name}</span> ${one.configured && html`<${Badge} title=${t("token.configured.text")}>${t("token.configured")}<//>`}` },
    { id: "scopes", title: t("token.scopes"), cell: (one) => html`<span class="badges">${one.scopes.map((scope) => html`<${Badge} key=${scope} tone=${scope === "admin" ? "warn" : "info"}>${t(`scope.${scope}`)}<//>`)}</span>` },
    { id: "created", title: t("token.created"), sort: "createdMs", hide: true, cell: (one) => html`<${Time} ms=${one.createdMs} />` },
    { id: "expires", title: t("token.expires"), sort: "expiresMs", cell: (one) => (one.expiresMs ? html`<${Time} ms=${one.expiresMs} />` : t("token.never")) },
    { id: "actions", title: "", tight: true, cell: (one) => !one.configured && html`<${Button} small kind="danger-plain" icon="trash" onClick=${() => remove(one)} aria-label=${t("action.delete")} title=${t("action.delete")} />` },
  ];
  return html`<${Page} title=${t("nav.tokens")} about=${t("token.about")} actions=${html`<${Button} kind="primary" icon="plus" onClick=${create}>${t("token.new")}<//>`}>
    ${!session.value?.loginNeeded && html`<p class="hint">${t("token.first")}</p>`}
    <${Card} flush>
      <${RemoteTable} where="/tokens" columns=${columns} defaultSort="name" label=${t("nav.tokens")} rowKey=${(one) => one.name} version=${version} empty=${html`<${Empty} icon="tokens" title=${t("token.none")} />`} />
    <//>
  <//>`;
}

function Form({ close }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState(["read"]);
  const [days, setDays] = useState("30");
  async function submit(event) {
    event.preventDefault();
    let made = null;
    if (await attempt(async () => (made = await post("/tokens", { name, scopes, seconds: Number(days) * DAY })))) close(made);
  }
  return html`<form class="form" onSubmit=${submit}>
    <${Field} label=${t("column.name")}>${(field) => html`<input ...${field} class="mono" required maxlength="64" pattern="[A-Za-z0-9._\\-]+" autocomplete="off" value=${name} onInput=${(event) => setName(event.currentTarget.value)} />`}<//>
    <div class="field" role="group" aria-label=${t("token.scopes")}>
      <span class="label">${t("token.scopes")}</span>
      ${SCOPES.map((one) => html`<${Check} key=${one} label=${`${t(`scope.${one}`)}: ${t(`scope.${one}.text`)}`} checked=${scopes.includes(one)} onChange=${(on) => setScopes(SCOPES.filter((each) => (each === one ? on : scopes.includes(each))))} />`)}
    </div>
    <${Field} label=${t("token.holds")}>${(field) => html`<${Select} ...${field} value=${days} options=${SPANS.map((one) => [String(one), t(`token.days.${one}`)])} onChange=${setDays} />`}<//>
    <div class="dialog-foot">
      <button type="button" class="button button-plain" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" class="button button-primary" disabled=${!name || !scopes.length}>${t("action.create")}</button>
    </div>
  </form>`;
}

// The dialog that shows a new token, this once.
function Made({ made, close }) {
  return html`<div class="form">
    <p class="dialog-text">${t("token.made.text", { name: made.name })}</p>
    <div class="line secret"><code data-test="token">${made.token}</code><${Copy} text=${made.token} /></div>
    <div class="dialog-foot"><button type="button" class="button button-primary" onClick=${() => close()}>${t("token.kept")}</button></div>
  </div>`;
}
