// The login with an account of access control or a token, or read-only access without one where that is allowed.
import { html, useState } from "./html.js";
import { logIn, loginWanted, session } from "./api.js";
import { LANGUAGES, language, setLanguage, t } from "./i18n.js";
import { Logo } from "./icons.js";
import { Button, Field } from "./parts.js";

export function Login() {
  const accounts = session.value?.accounts ?? false;
  const [byToken, setByToken] = useState(false);
  const [key, setKey] = useState("");
  const [token, setToken] = useState(""); // or the secret key of the account
  const withKey = accounts && !byToken;
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const mayLook = (session.value?.scopes.length ?? 0) > 0;
  const other = Object.keys(LANGUAGES).find((one) => one !== language.value);

  async function submit(event) {
    event.preventDefault();
    const written = token.trim();
    if (!written) return;
    setBusy(true);
    setError("");
    try {
      // The field also accepts a whole login link.
      const code = /#login=([\w-]+)$/.exec(written)?.[1];
      await logIn(withKey ? { accessKey: key.trim(), secretKey: written } : code ? { code } : { token: written });
    } catch (problem) {
      setError(problem.message);
    }
    setBusy(false);
  }

  return html`<div class="login">
    <form class="login-box" onSubmit=${submit} aria-labelledby="login-title">
      <${Logo} size=${44} />
      <h1 id="login-title">${t("login.title")}</h1>
      <p class="faint">${t("login.about")}</p>
      ${withKey &&
      html`<${Field} label=${t("login.key")}>
        ${(field) =>
          html`<input ...${field} class="mono" autocomplete="username" autofocus spellcheck=${false} value=${key} onInput=${(event) => setKey(event.currentTarget.value)} />`}
      <//>`}
      <${Field} key=${withKey} label=${t(withKey ? "login.secret" : "login.token")} hint=${withKey ? undefined : t("login.hint")} error=${error}>
        ${(field) =>
          html`<input
            ...${field}
            type="password"
            class="mono"
            autocomplete="current-password"
            autofocus=${!withKey}
            value=${token}
            onInput=${(event) => setToken(event.currentTarget.value)}
          />`}
      <//>
      <button type="submit" class="button button-primary button-full" disabled=${busy || !token.trim() || (withKey && !key.trim())}>${t("login.action")}</button>
      ${accounts && html`<${Button} kind="ghost" class="button-full" onClick=${() => (setByToken(!byToken), setToken(""), setError(""))}>${t(byToken ? "login.by.account" : "login.by.token")}<//>`}
      ${mayLook &&
      html`<${Button} kind="ghost" class="button-full" onClick=${() => (loginWanted.value = false)}>${t("login.look")}<//>`}
      <p class="login-foot">
        <button type="button" class="link" onClick=${() => setLanguage(other)}>${LANGUAGES[other]}</button>
      </p>
    </form>
  </div>`;
}
