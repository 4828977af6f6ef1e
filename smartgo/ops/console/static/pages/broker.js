// The page of a broker for people: charts, role and version, connections, store.
import { html } from "../app/html.js";
import { get, path } from "../app/api.js";
import { bytes, duration, number, percent, rate, short } from "../app/format.js";
import { t, tn } from "../app/i18n.js";
import { Badge, Card, Code, Facts, Failure, LinkButton, Skeleton, Time } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href } from "../app/router.js";
import { SeriesCard, useSeries } from "./series.js";
import { SpanSelect, spanOf } from "./spans.js";

export function BrokerOverview({ broker, query }) {
  const seconds = spanOf(query);
  const points = useSeries(`broker:${broker.address}`, seconds);
  const lag = useSeries(`broker-lag:${broker.name}`, seconds);
  return html`<div class="cards">
      <${State} broker=${broker} />
      ${broker.state !== "missing" && html`<${StoreFacts} broker=${broker} />`}
    </div>
    <div class="cards">
      <${SeriesCard}
        title=${t("overview.rates")}
        points=${points}
        format=${rate}
        lines=${[["putTps", t("figure.put"), "chart-1"], ["getTps", t("figure.get"), "chart-2"]]}
        actions=${html`<${SpanSelect} query=${query} />`}
      />
      <${SeriesCard} title=${t("overview.bytes")} points=${points} binary format=${bytes} lines=${[["putBytes", t("figure.putBytes"), "chart-3"], ["getBytes", t("figure.getBytes"), "chart-2"]]} />
      <${SeriesCard} title=${t("broker.chart.lag")} points=${lag} format=${short} lines=${[["lag", t("column.lag"), "chart-3"]]} />
      <${SeriesCard} title=${t("figure.disk")} points=${points} format=${percent} lines=${[["diskRatio", t("figure.disk"), "chart-4"]]} />
    </div>`;
}

// How many clients of a role are connected: a client counts once for each of its groups.
function useClients(broker, role) {
  const ask = (abort) => get("/clients", { broker: broker.name, role, limit: 1 }, abort);
  return useResource(ask, [broker.name, role], 10000).data?.total;
}

function State({ broker }) {
  const producers = useClients(broker, "producer");
  const consumers = useClients(broker, "consumer");
  const role = broker.role ? t(`role.${broker.role}`) : broker.id === 0 ? t("role.master") : t("role.slave", { id: broker.id });
  const gone = broker.state === "missing"; // the clients of its name are those of a slave
  return html`<${Card} title=${t(gone ? "broker.process.gone" : "broker.process")}>
    <${Facts}
      rows=${[
        [t("column.role"), html`<span data-test="role">${role}</span>`],
        [t("column.cluster"), broker.cluster],
        [t("column.address"), html`<${Code} copy>${broker.address}<//>`],
        gone && [t("broker.seen"), html`<${Time} ms=${broker.lastSeenMs} relative />`],
        broker.up && [t("cluster.version"), html`<span data-test="broker-version">${broker.product ? `smartgo ${broker.product}` : "RocketMQ"} <span class="soft">${broker.version ?? ""}</span></span>`],
        broker.bootMs && [t("broker.started"), html`<${Time} ms=${broker.bootMs} /> <span class="soft">${t("broker.uptime", { duration: duration((Date.now() - broker.bootMs) / 1000) })}</span>`],
        !gone && [t("broker.producers"), html`<a href=${href(["clients"], { role: "producer" })}>${number(producers)}</a>`],
        !gone && [t("broker.consumers"), html`<a href=${href(["clients"], { role: "consumer" })}>${number(consumers)}</a>`],
        ...broker.slaves.map((slave) => [t("cluster.slave"), html`<${Code}>${slave.address}<//> ${behind(slave.behind)}`]),
        broker.following && [t("broker.follows"), html`<${Badge} tone=${broker.following.state === "FOLLOWING" ? "good" : "warn"}>${t(`follow.${broker.following.state}`)}<//> ${broker.following.master && html`<code>${broker.following.master}</code>`} ${behind(broker.following.behind)}`],
      ]}
    />
  <//>`;
}

function behind(size) {
  if (size === null || size === undefined) return null;
  return html`<span class="soft">${size === 0 ? t("cluster.level") : t("cluster.behind", { size: bytes(size) })}</span>`;
}

// What matters of the store; its own page has the rest. Brokers of RocketMQ do not tell it.
function StoreFacts({ broker }) {
  const store = useResource((abort) => get(path`/brokers/${broker.name}/store`, { id: broker.id }, abort), [broker.name, broker.id], 10000);
  return html`<${Card} title=${t("broker.store")} actions=${html`<${LinkButton} small icon="stores" href=${href(["stores", broker.name, String(broker.id)])}>${t("broker.store.more")}<//>`}>
    ${store.data ? html`<${StoreRows} store=${store.data} />` : store.error ? html`<${Failure} error=${store.error} />` : html`<${Skeleton} />`}
  <//>`;
}

function StoreRows({ store }) {
  const { log, disk, retention, integrity, timers, refusal } = store;
  return html`${refusal && html`<p class="hint hint-warn" role="alert">${t("store.refusal", { why: refusal })}</p>`}
    <${Facts}
      rows=${[
        [t("store.disk.free"), t("store.disk.free.value", { free: bytes(disk.free), total: bytes(disk.total) })],
        [t("figure.log"), html`${bytes(log.end - log.begin)} <span class="soft">${tn("store.files", log.files)}</span>`],
        [t("store.oldest"), html`<${Time} ms=${log.earliestMs} />`],
        [t("retention.title"), html`<span data-test="retention">${retention.enabled ? t("retention.rules", { duration: duration(retention.reservedSeconds), hours: retention.hours.map((one) => `${one}:00`).join(", ") }) : t("retention.off")}</span>`],
        [t("store.damaged"), html`<span class=${integrity.regions ? "tone-bad" : ""}>${integrity.regions ? tn("damage.text", integrity.regions, { size: bytes(integrity.bytes) }) : t("damage.none")}</span>`],
        timers && [t("store.timed"), number(timers.waiting)],
      ]}
    />`;
}
