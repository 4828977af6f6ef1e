// The entry point: load the session, then draw the shell.
import { html, render } from "./html.js";
import { logIn, whoAmI } from "./api.js";
import { toast } from "./dialog.js";
import { ready, t } from "./i18n.js";
import { listenToKeys } from "./keys.js";
import { PAGES } from "./places.js";
import { place } from "./router.js";
import { Shell } from "./shell.js";
import "./theme.js";

// A login link ends in #login=CODE. The code leaves the address, and so the browser's history, before it is used.
async function begin() {
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1];
  if (code) {
    history.replaceState(null, "", "#/overview");
    dispatchEvent(new HashChangeEvent("hashchange"));
    try {
      await logIn({ code });
      return;
    } catch (error) {
      await ready;
      toast(`${t("login.failed")} ${error.message}`, "bad");
    }
  }
  await whoAmI();
}

const root = document.getElementById("root");

// The page's module loads while the session is requested; a failure is shown where the page is drawn.
PAGES.find((one) => one.id === (place.value.parts[0] ?? "overview"))
  ?.load()
  .catch(() => {});

Promise.all([ready, begin()])
  .catch((error) => toast(error.message, "bad"))
  .finally(() => {
    root.replaceChildren();
    render(html`<${Shell} />`, root);
    listenToKeys();
  });
