// The frame around every page: navigation, the top bar with cluster, health and search, and the login.
import { AlarmBadge, useAlarm } from "./alarm.js";
import { cx, html, signal, useEffect, useState } from "./html.js";
import { limited, loginWanted, logOut, may, online, session } from "./api.js";
import { askBrokers, masterless } from "./brokers.js";
import { attempt, Overlays } from "./dialog.js";
import { zone } from "./format.js";
import { LANGUAGES, language, setLanguage, t } from "./i18n.js";
import { Icon, Logo } from "./icons.js";
import { showKeys } from "./keys.js";
import { Login } from "./login.js";
import { Button, Empty, Failure, lacking, Skeleton } from "./parts.js";
import { PAGES, SECTIONS } from "./places.js";
import { useResource } from "./resource.js";
import { href, place } from "./router.js";
import { Search } from "./search.js";
import { keep } from "./store.js";
import { nextTheme, theme } from "./theme.js";

const navOpen = signal(false);

// Why the session may not open a page; null where it may.
function closed(page) {
  if (limited()) return page.open ? null : lacking();
  return page.scope && !may(page.scope) ? t("page.forbidden", { scope: t(`scope.${page.scope}`) }) : null;
}

function Nav({ current }) {
  function narrow() {
    const root = document.documentElement;
    const now = root.dataset.nav !== "narrow";
    if (now) root.dataset.nav = "narrow";
    else delete root.dataset.nav;
    keep("nav", now ? "narrow" : null);
  }
  return html`<nav class=${cx("nav", navOpen.value && "nav-open")} aria-label=${t("nav.main")}>
    <a class="nav-brand" href="#/overview" aria-label="smartgo">
      <${Logo} size=${26} />
      <span>smartgo</span>
    </a>
    ${SECTIONS.map((section) => {
      const pages = PAGES.filter((one) => one.section === section && !closed(one));
      return (
        pages.length > 0 &&
        html`<div class="nav-section" key=${section}>
          <p class="nav-title">${t(`nav.section.${section}`)}</p>
          ${pages.map(
            (one) =>
              html`<a
                key=${one.id}
                href=${href([one.id])}
                class=${cx("nav-link", one.id === current && "nav-current")}
                aria-current=${one.id === current ? "page" : undefined}
                title=${t(`nav.${one.id}`)}
                ><${Icon} name=${one.id} /><span>${t(`nav.${one.id}`)}</span>${one.id === "alerts" && html`<${AlarmBadge} />`}</a
              >`,
          )}
        </div>`
      );
    })}
    <div class="nav-foot">
      <a class="nav-link" href="/docs" title=${t("nav.api")}><${Icon} name="external" /><span>${t("nav.api")}</span></a>
      <button type="button" class="nav-link nav-narrow" onClick=${narrow} title=${t("nav.narrow")}>
        <${Icon} name="left" /><span>${t("nav.narrow")}</span>
      </button>
      <p class="nav-version" data-test="zone">${t("nav.zone", { zone: zone() })}</p>
      ${session.value?.version && html`<p class="nav-version" data-test="version">smartgo ${session.value.version}</p>`}
    </div>
  </nav>`;
}

function ClusterName() {
  const { data, error } = useResource(askBrokers, [session.value?.name], 10000);
  if (error) {
    return html`<a class="bar-cluster" href="#/cluster"><span class="dot dot-bad"></span><b>${t("bar.unreachable")}</b></a>`;
  }
  if (!data) return html`<span class="bar-cluster faint">…</span>`;
  const missing = data.items.filter((one) => one.state === "missing").length;
  const down = data.items.filter((one) => !one.up).length - missing;
  const refusing = data.items.filter((one) => one.up && one.refusal).length;
  const clusters = [...new Set(data.items.map((one) => one.cluster))];
  const orphans = data.next ? 0 : masterless(data.items).length;
  const tone = data.total === 0 || missing || refusing ? "bad" : down || orphans ? "warn" : "good";
  const words = missing
    ? t("bar.missing", { n: missing, total: data.total })
    : down
    ? t("bar.down", { n: down, total: data.total })
    : refusing
    ? t("bar.refusing", { n: refusing, total: data.total })
    : orphans
      ? t("bar.masterless", { n: orphans })
      : t(data.total ? "bar.well" : "bar.nobroker");
  return html`<a class="bar-cluster" href="#/cluster" title=${words}>
    <span class=${`dot dot-${tone}`} aria-hidden="true"></span>
    <b>${clusters.join(", ") || t("bar.nocluster")}</b>
    <span class="bar-health">${words}</span>
  </a>`;
}

function Account() {
  const who = session.value;
  if (!who) return null;
  if (!who.csrfToken) {
    return html`<span class="bar-readonly" title=${t("bar.readonly.why")}>${t("bar.readonly")}</span>
      <${Button} small kind="primary" onClick=${() => (loginWanted.value = true)}>${t("login.action")}<//>`;
  }
  return html`<span class="bar-user" title=${who.limited ? t("account.limited") : who.scopes.join(", ")}><${Icon} name="user" size=${15} />${who.name}</span>
    <${Button}
      small
      kind="ghost"
      icon="logout"
      aria-label=${t("login.out")}
      title=${t("login.out")}
      onClick=${() => attempt(logOut, t("login.gone"))}
    />`;
}

function Bar() {
  const other = Object.keys(LANGUAGES).find((one) => one !== language.value);
  const icons = { auto: "auto", light: "sun", dark: "moon" };
  return html`<header class="bar">
    <button
      type="button"
      class="button button-ghost button-icon bar-menu"
      aria-label=${t("nav.menu")}
      aria-expanded=${navOpen.value ? "true" : "false"}
      onClick=${() => (navOpen.value = !navOpen.value)}
    >
      <${Icon} name="menu" />
    </button>
    ${!limited() && html`<${ClusterName} />`}
    <${Search} />
    <div class="bar-tools">
      ${!online.value && html`<span class="bar-offline" role="alert">${t("bar.offline")}</span>`}
      <button
        type="button"
        class="button button-ghost button-small bar-language"
        lang=${other === "zh" ? "zh-CN" : "en"}
        onClick=${() => attempt(() => setLanguage(other))}
        data-test="language"
      >
        ${LANGUAGES[other]}
      </button>
      <${Button}
        small
        kind="ghost"
        icon=${icons[theme.value]}
        onClick=${nextTheme}
        aria-label=${t(`theme.${theme.value}`)}
        title=${t(`theme.${theme.value}`)}
        data-test="theme"
      />
      <${Button} class="bar-keys" small kind="ghost" icon="keyboard" onClick=${showKeys} aria-label=${t("keys.title")} title=${t("keys.title")} />
      <${Account} />
    </div>
  </header>`;
}

// The page of a place, loaded when it is first opened.
function Content({ page, parts, query }) {
  const [loaded, setLoaded] = useState({ id: null, Draw: null, error: null });
  useEffect(() => {
    let left = false;
    page
      .load()
      .then((module) => !left && setLoaded({ id: page.id, Draw: module.default, error: null }))
      .catch((error) => !left && setLoaded({ id: page.id, Draw: null, error }));
    return () => {
      left = true;
    };
  }, [page.id]);
  if (loaded.id !== page.id) return html`<div class="page"><${Skeleton} /></div>`;
  if (loaded.error) {
    return html`<div class="page"><${Failure} error=${loaded.error} again=${() => location.reload()} /></div>`;
  }
  return html`<${loaded.Draw} parts=${parts} query=${query} />`;
}

export function Shell() {
  const { parts, query } = place.value;
  useAlarm();
  const [id = limited() ? "topics" : "overview", ...rest] = parts;
  const page = PAGES.find((one) => one.id === id);
  const why = page && closed(page);
  useEffect(() => {
    navOpen.value = false;
    document.getElementById("main")?.scrollTo(0, 0);
  }, [parts.join("/")]);
  if (loginWanted.value) return html`<${Login} /><${Overlays} />`;
  return html`<a class="skip" href="#main" onClick=${skip}>${t("nav.skip")}</a>
    <div class="shell">
      <${Nav} current=${page?.id} />
      ${navOpen.value && html`<div class="nav-shade" onClick=${() => (navOpen.value = false)}></div>`}
      <${Bar} />
      <main id="main" class="main" tabindex="-1">
        ${why
          ? html`<${Empty} icon="tokens" title=${why}>
              ${!session.value?.csrfToken && html`<${Button} kind="primary" onClick=${() => (loginWanted.value = true)}>${t("login.action")}<//>`}
            <//>`
          : page
          ? html`<${Content} key=${session.value?.name} page=${page} parts=${rest} query=${query} />`
          : html`<${Nowhere} />`}
      </main>
    </div>
    <${Overlays} />`;
}

function Nowhere() {
  useEffect(() => {
    document.title = `${t("nowhere.title")} · smartgo`;
  }, []);
  return html`<${Empty} title=${t("nowhere.title")}><a href="#/overview">${t("nowhere.back")}</a><//>`;
}

// The fragment is a place in the console, so the link must not change it.
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}
