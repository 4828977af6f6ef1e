// The newest messages of a topic, live.
import { html, useMemo } from "../app/html.js";
import { get, limited, may } from "../app/api.js";
import { number } from "../app/format.js";
import { t } from "../app/i18n.js";
import { Badge, Button, Card, Empty, Failure, LinkButton, Missing, Skeleton } from "../app/parts.js";
import { useResource } from "../app/resource.js";
import { href } from "../app/router.js";
import { Table } from "../app/table.js";
import { KEPT, rowName, useTail } from "./livetail.js";
import { messageColumns, messagePlace } from "./messagetable.js";

const FIRST = 50;
const WITHOUT_TAIL = 5000; // ms between two requests while there is no live tail
const TONES = { waiting: "plain", live: "good", lost: "warn", ended: "plain" };

// What both brought, without repetition, the newest first; of the tail no message that is older than all of `first`.
// Of messages of one millisecond, an offset id ends with the place in the broker's log.
function merged(first, fresh) {
  const oldest = first.length < FIRST ? 0 : (first.at(-1)?.storedMs ?? 0);
  const rows = new Map(first.map((one) => [rowName(one), one]));
  for (const one of fresh) if (one.storedMs >= oldest) rows.set(rowName(one), one);
  return [...rows.values()].sort((one, other) => other.storedMs - one.storedMs || (other.offsetId > one.offsetId ? 1 : -1)).slice(0, KEPT);
}

export function Newest({ topic }) {
  const { name } = topic;
  const tail = useTail({ topic: name, last: 1, count: 10000 });
  const { state, paused } = tail;
  const every = state === "live" || state === "waiting" || paused ? 0 : WITHOUT_TAIL;
  const { data, error, reload } = useResource((abort) => get("/messages/newest", { topic: name, count: FIRST }, abort), [name], every);
  const rows = useMemo(() => merged(data?.items ?? [], tail.rows), [data, tail.rows]);
  const word = paused ? "tail.paused" : state === "live" ? "tail.live" : state === "waiting" ? "loading" : "topic.newest.every";

  let inside;
  if (error && !rows.length) inside = html`<${Failure} error=${error} again=${reload} />`;
  else if (!data) inside = html`<${Skeleton} lines=${6} />`;
  else if (rows.length) inside = html`<${Table} columns=${messageColumns()} rows=${rows} label=${t("topic.tab.messages")} rowKey=${rowName} rowPlace=${messagePlace} />`;
  else {
    inside = html`<${Empty} icon="messages" title=${t("topic.newest.none")}>
      ${(may("publish") || limited()) && topic.kind === "normal" ? html`<a href=${href(["send"], { topic: name })}>${t("nav.send")}</a>` : t("topic.newest.none.text")}
    <//>`;
  }
  return html`<${Card}
    title=${html`<span data-test="newest-state"><${Badge} tone=${paused ? "warn" : TONES[state]}>${t(word)}<//></span> <span class="sub">${t("topic.newest")}</span>`}
    actions=${html`<span class="pager-text">${tail.lost > 0 && html`<span class="tone-warn">${t("tail.missed", { n: number(tail.lost) })}</span>`}</span>
      <${Button} small icon=${paused ? "play" : "pause"} onClick=${() => tail.setPaused(!paused)}>${t(paused ? "tail.go" : "tail.pause")}<//>
      <${LinkButton} small icon="tail" href=${href(["tail"], { topic: name })}>${t("topic.newest.filter")}<//>
      <${LinkButton} small icon="search" href=${href(["messages"], { topic: name, by: "time" })}>${t("topic.newest.older")}<//>`}
    flush
  >
    <${Missing} from=${data} />${inside}
  <//>`;
}
