// The login with a token, or read-only access without one where that is allowed.
import { html, useState } from "./html.js";
import { logIn, loginWanted, session } from "./api.js";
import { LANGUAGES, language, setLanguage, t } from "./i18n.js";
import { Logo } from "./icons.js";
import { Button, Field } from "./parts.js";

export function Login() {
  const [token, setToken] = useState("");
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
      await logIn(code ? { code } : { token: written });
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
      <${Field} label=${t("login.token")} hint=${t("login.hint")} error=${error}>
        ${(field) =>
          html`<input
            ...${field}
            type="password"
            class="mono"
            autocomplete="current-password"
            autofocus
            value=${token}
            onInput=${(event) => setToken(event.currentTarget.value)}
          />`}
      <//>
      <button type="submit" class="button button-primary button-full" disabled=${busy || !token.trim()}>${t("login.action")}</button>
      ${mayLook &&
      html`<${Button} kind="ghost" class="button-full" onClick=${() => (loginWanted.value = false)}>${t("login.look")}<//>`}
      <p class="login-foot">
        <button type="button" class="link" onClick=${() => setLanguage(other)}>${LANGUAGES[other]}</button>
      </p>
    </form>
  </div>`;
}
