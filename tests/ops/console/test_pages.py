"""Every page of the console in a real browser, as a person goes through them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch
from urllib.parse import quote

from twisted.internet.defer import Deferred

from smartgo.client.client import Client
from smartgo.client.internal.copystates import CopyStates
from smartgo.client.internal.redeliveries import Fate
from smartgo.client.messages import Message, SendResult
from smartgo.client.producer import Producer
from smartgo.ops.alerts.table import RuleAdjustment
from smartgo.ops.security.principals import Principal
from smartgo.ops.web.jobs import RestJob
from smartgo.schema.bodies import RegisterBrokerBody, TopicConfigSerializeWrapper
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import RegisterBrokerRequest
from smartgo.schema.topics import dlq_topic
from tests.ops.console.browser import MARK, SECONDS, ConsoleCase, in_browser
from tests.ops.console.test_files import table

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES: Final = (
    "overview",
    "cluster",
    "stores",
    "topics",
    "groups",
    "messages",
    "dlq",
    "transactions",
    "transactions?state=givenUp",
    "clients",
    "tail",
    "send",
    "jobs",
    "config",
    "config/history",
    "alerts",
    "alerts/history",
    "alerts/rules",
    "alerts/silences",
    "alerts/receivers",
    "kv",
    "definitions",
    "audit",
    "tokens",
)
EVIL: Final = f"<script>{MARK}</script><img src=x onerror='{MARK}'>"


async def never(job: RestJob) -> None:
    """Run a search that never ends until it is cancelled."""
    job.progress(7, 9, "reading")
    await Deferred()


def shown_keys(page: Page) -> list[str]:
    """Return the keys that a page shows instead of their texts."""
    text = page.inner_text("body")
    return [key for key in table("en") if "." in key and key in text.split()]


def shown_blanks(page: Page) -> list[str]:
    """Return the lines that a page shows with a C{{blank}} of a text left in it; code and bodies may have braces."""
    text = page.evaluate("""() => {
        const copy = document.body.cloneNode(true);
        copy.querySelectorAll("code, pre, textarea, script").forEach((one) => one.remove());
        return copy.textContent;
    }""")
    return re.findall(r"[^{]{0,30}\{[a-zA-Z]\w*\}", text)


class PagesTests(ConsoleCase):
    """Pages."""

    async def register_slave(self, name: str) -> None:
        """Register a slave that does not answer, and no master."""
        header = RegisterBrokerRequest(
            broker_name=name, broker_addr="127.0.0.1:1", cluster_name="DefaultCluster", ha_server_addr="", broker_id=1
        )
        body = RegisterBrokerBody(TopicConfigSerializeWrapper({})).encode(compressed=False)
        await self.client.ask(
            f"127.0.0.1:{self.live.registry_port}", Command.request(RequestCode.REGISTER_BROKER, header, body)
        )
        self.ops.view.forget()

    async def fill(self) -> None:
        """Create content for every page."""
        await self.make_topic("Orders")
        await self.make_topic("Payments", 2)
        await self.send("Orders", *(b'{"order": %d}' % number for number in range(8)), tag="new", keys=["key-7"])
        await self.consume("audit", "Orders", 8)
        await self.send("Payments", b"to be mended", b"to be left", keys=["bad"], properties={"region": "north"})
        await self.consume("mailer", "Payments", 2, dead=True)

    @in_browser()
    def test_every_page(self, page: Page) -> None:
        """Each page is drawn in both languages, light and dark, without an error."""
        self.do(self.fill)
        for language in ("en", "zh"):
            names = table(language)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                for place in PAGES:
                    self.go(page, place)
                    page.get_by_role(
                        "heading", name=names[f"nav.{re.split('[/?]', place)[0]}"], level=1, exact=True
                    ).wait_for()
                    self.assertEqual(shown_keys(page), [], place)
                    self.assertEqual(shown_blanks(page), [], place)
                    self.assertEqual(page.locator(".failure").count(), 0, place)
                ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
                self.assertEqual(ground, {"light": "rgb(244, 246, 248)", "dark": "rgb(13, 19, 22)"}[scheme])
            page.locator("[data-test=language]").click()
        self.until(page, "document.documentElement.lang === 'en'")

    @in_browser()
    def test_every_detail(self, page: Page) -> None:
        """Each detail page is drawn, with each of its tabs."""
        self.do(self.fill)
        places = {
            "topics/Orders": ("messages", "queues", "groups", "charts", "route", "settings"),
            "groups/audit": ("lag", "members", "positions", "settings"),
            "cluster/broker-a": ("overview", "figures", "config", "care"),
        }
        for place, tabs in places.items():
            for tab in tabs:
                self.go(page, f"{place}/{tab}")
                page.locator("[role=tab][aria-selected=true]").wait_for()
                page.locator(".card").first.wait_for()
                self.assertEqual((page.locator(".failure").count(), shown_keys(page)), (0, []), f"{place}/{tab}")
                self.assertEqual(shown_blanks(page), [], f"{place}/{tab}")
        self.go(page, "topics/Orders/queues")
        page.get_by_text("ago").first.wait_for()  # since when it keeps messages
        self.go(page, "nowhere")
        page.get_by_text("Page not found").wait_for()

    @in_browser(viewport={"width": 390, "height": 844})
    def test_narrow(self, page: Page) -> None:
        """On a phone no page is wider than the screen, and the menu opens and closes."""
        self.do(self.fill)
        for place in (*PAGES, "topics/Orders", "groups/audit", "dlq/mailer", "stores/broker-a/0"):
            self.go(page, place)
            page.locator(".card").first.wait_for()
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390, place)
        page.get_by_role("button", name="Menu").click()
        page.get_by_role("link", name="Topics").click()
        page.get_by_role("heading", name="Topics", level=1).wait_for()
        page.locator(".nav-open").wait_for(state="detached")

    # -- figures -----------------------------------------------------------------------------------------------------

    @in_browser()
    def test_chart_moves(self, page: Page) -> None:
        """The overview's chart gets a point per second, and shows the sends."""
        self.do(self.make_topic, "Orders")
        page.get_by_text("Live", exact=True).wait_for()
        chart = page.get_by_label("Messages per second")
        seen = []
        for _ in range(3):
            before = chart.get_attribute("data-last")
            self.do(self.send, "Orders", *[b"x"] * 20)
            self.until(page, "last => document.querySelector('.chart').dataset.last !== last", before)
            seen.append(float(chart.get_attribute("data-last") or 0))
        self.assertEqual(seen, sorted(set(seen)))
        while not page.evaluate("parseFloat(document.querySelector('.chart-name b').textContent) > 0"):
            self.do(self.send, "Orders", b"x")  # the rate of a second is soon gone
            page.wait_for_timeout(100)
        self.until(
            page,
            "() => { const one = document.querySelector('.chart canvas');"
            " return one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some(part => part > 0); }",
        )

    @in_browser()
    def test_attention(self, page: Page) -> None:
        """The overview shows a problem that needs attention: a group with lag and no members."""
        self.do(self.fill)
        self.do(self.send, "Orders", b"nobody takes it")
        page.reload()
        page.get_by_role("link", name="Group audit has no connected members; messages waiting: 1").click()
        page.get_by_role("heading", name="audit").wait_for()

    @in_browser()
    def test_attention_thresholds(self, page: Page) -> None:
        """The overview judges disks by the alert rule in force: its threshold, and whether it is enabled."""
        full = page.get_by_role("link", name=re.compile("The disk of broker .* is .* full"))
        broker = page.locator("tbody").get_by_role("link", name="broker-a")
        for adjusted in (RuleAdjustment(1.0), RuleAdjustment(0.0), RuleAdjustment(0.0, enabled=False)):
            self.ops.alerts.table.adjust("disk-full", adjusted)
            with page.expect_response("**/api/v1/alerts/rules"):
                page.reload()
            broker.wait_for()
            if adjusted == RuleAdjustment(0.0):
                full.wait_for()
            else:
                self.assertEqual(full.count(), 0)

    @in_browser()
    def test_no_master(self, page: Page) -> None:
        """The overview shows which broker name has only slaves, and not that all brokers are up."""
        self.do(self.register_slave, "lonely")
        page.reload()
        page.locator(".stat", has_text="Broker processes").get_by_text("without a master: 1").wait_for()
        page.get_by_role("link", name="Broker lonely has no master and cannot store messages").click()
        page.get_by_text("lonely", exact=True).first.wait_for()

    @in_browser()
    def test_slave_alone(self, page: Page) -> None:
        """Without a master, the bar does not report all brokers up, nor the cluster page the slave as up to date."""

        def alone(route: Any) -> None:
            answer = route.fetch()
            found = answer.json()
            following = {"state": "CONNECTING", "reason": "nobody there", "behind": 0}
            for one in found["items"]:
                one |= {"id": 1, "role": "SLAVE", "following": following}
            route.fulfill(response=answer, json=found)

        page.route("**/api/v1/brokers?*", alone)
        self.go(page, "cluster")
        page.reload()
        page.locator(".bar-health", has_text="without a master: 1").wait_for()
        row = page.locator(".node-facts div", has_text="Connecting")
        row.get_by_text("copies nothing", exact=True).wait_for()
        page.unroute_all(behavior="wait")

    # -- messages ----------------------------------------------------------------------------------------------------

    @in_browser()
    def test_search_by_key(self, page: Page) -> None:
        """A message is found by its key, and shown as JSON, as text, in hex and byte by byte."""
        self.do(self.fill)
        self.go(page, "messages?by=key")
        page.get_by_label("Topic", exact=True).fill("Orders")
        page.get_by_label("Key", exact=True).last.fill("key-7")
        page.get_by_role("button", name="Search").click()
        page.get_by_text("8 found").wait_for()
        page.locator("tbody tr").first.locator("a").click()
        body = page.locator("[data-test=body]")
        self.assertEqual(json.loads(body.inner_text()).keys(), {"order"})
        page.get_by_text("Hex", exact=True).click()
        self.until(page, "document.querySelector('[data-test=body]').textContent.startsWith('00000000  7b 22')")
        page.get_by_role("tab", name="Record").click()
        page.get_by_text("physical_offset", exact=True).wait_for()
        page.get_by_role("tab", name="Properties").click()
        page.get_by_text("UNIQ_KEY", exact=True).wait_for()
        page.get_by_role("tab", name="Delivery").click()
        page.get_by_role("cell", name="audit", exact=True).wait_for()

    @in_browser()
    def test_search_by_time(self, page: Page) -> None:
        """A search by time shows its progress, its results can be filtered, and its job is listed."""
        self.do(self.fill)
        self.go(page, "messages?by=time")
        page.get_by_label("Topic", exact=True).fill("Orders")
        page.get_by_label("Body contains").fill("order")
        page.get_by_role("button", name="Search").click()
        page.get_by_text("8 found").wait_for()
        page.get_by_placeholder("Filter results…").fill('\\"order\\": 3')
        self.listed(page, 1, 1, 1)
        self.go(page, "jobs")
        page.get_by_role("link", name="Message search").first.click()
        page.get_by_text("complete").wait_for()

    @in_browser(errors=(404, 409))  # what it says of itself may be asked for just when it is gone
    def test_close_a_client(self, page: Page) -> None:
        """A client's connections are closed after a confirmation, with a reason for the audit log."""
        self.do(self.fill)
        member = self.do(self.join, "audit", "Orders", [])
        try:
            self.go(page, f"clients/{quote(member.id)}")
            page.get_by_role("button", name="Close connections").click()
            dialog = page.get_by_role("dialog", name="Close connections")
            dialog.get_by_text("reconnects by itself").wait_for()
            dialog.get_by_label("Reason").fill("hangs since noon")
            dialog.get_by_role("button", name="Close", exact=True).last.click()
            page.get_by_text("connection closed").or_(page.get_by_text("connections closed")).wait_for()
            page.get_by_role("heading", name="Clients", level=1).wait_for()
            self.go(page, "audit")
            page.get_by_role("row").filter(has_text="DELETE /clients/{id}").get_by_text("200").wait_for()
            (entry,) = (one for one in self.ops.audit.entries() if one.action == "DELETE /clients/{id}")
            self.assertEqual(entry.detail["query"], {"reason": "hangs since noon"})
        finally:
            self.do(member.stop)

    @in_browser()
    def test_found_into_a_file(self, page: Page) -> None:
        """The browser saves the results of a search as a file: a line of JSON for each message, with its body."""
        self.do(self.fill)
        self.go(page, "messages?by=time")
        page.get_by_label("Topic", exact=True).fill("Orders")
        page.get_by_role("button", name="Search").click()
        page.get_by_text("8 found").wait_for()
        with page.expect_download() as download:
            page.get_by_role("link", name="Save as file").click()
        self.assertRegex(download.value.suggested_filename, r"^search-[0-9a-f]{16}\.jsonl$")
        with open(download.value.path(), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(sorted(one["body"] for one in lines), [f'{{"order": {number}}}' for number in range(8)])

    @in_browser(errors=(404,))
    def test_unknown_message(self, page: Page) -> None:
        """For a message that no topic has the page says so, and asks for the topic."""
        self.go(page, "messages/0123456789ABCDEF0123456789ABCDEF")
        page.get_by_text("Message not found").wait_for()
        page.get_by_text("If you know the topic of the message, enter it too.").wait_for()

    @in_browser()
    def test_explain(self, page: Page) -> None:
        """One click leads from a message to its delivery check for a group."""
        self.do(self.fill)
        (sent,) = self.do(self.send, "Orders", b"late")
        self.go(page, f"messages/{sent.message_id}?topic=Orders&tab=delivery")
        page.get_by_role("link", name="Check delivery").first.click()
        page.get_by_role("heading", name="Delivery check").wait_for()
        page.locator(".checked").nth(3).wait_for()
        self.assertTrue(page.locator(".verdict .badge").inner_text())

    async def send_traced(self) -> SendResult:
        """Send a message with a client that writes traces, which are there when this returns."""
        client = Client(self.live.env, f"127.0.0.1:{self.live.registry_port}", "traced", trace=True)
        producer = Producer(client, "shop")
        await producer.start()
        sent: SendResult = await producer.send(Message(topic="Orders", body=b"traced"))
        await client.stop()
        self.ops.view.forget()
        return sent

    @in_browser()
    def test_history(self, page: Page) -> None:
        """The page of a message tells what happened to it: its traces, where it is stored, and the groups' states."""
        self.do(self.fill)
        (sent,) = self.do(self.send, "Orders", b"plain")
        self.go(page, f"messages/{sent.message_id}?topic=Orders&tab=history")
        steps = page.get_by_role("list", name="What happened to this message").get_by_role("listitem")
        steps.filter(has_text="Stored by broker broker-a").wait_for()
        steps.filter(has_text="Sent by 127.0.0.1").wait_for()
        steps.filter(has_text="audit").wait_for()
        page.get_by_text("no client writes traces").wait_for()
        traced = self.do(self.send_traced)
        self.go(page, f"messages/{traced.message_id}?topic=Orders&tab=history")
        told = steps.filter(has_text="sent it, and the broker stored it, in")
        told.wait_for()
        self.assertIn("shop", told.inner_text())
        self.assertEqual(steps.filter(has_text="Sent by").count(), 0)

    @in_browser()
    def test_cancel_a_search(self, page: Page) -> None:
        """A long search shows its progress, and ends when it is cancelled."""
        self.ops.jobs.start("search", Principal("live", frozenset({"admin"})), never)
        (job,) = self.ops.jobs.all()
        self.go(page, f"messages?by=time&topic=Orders&job={job.id}")
        page.get_by_text("7 of 9 read").wait_for()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("Cancelled", exact=True).wait_for()
        self.assertEqual(job.state, "cancelled")

    @in_browser()
    def test_member(self, page: Page) -> None:
        """The page of a connected consumer shows its details, and the consumer consumes a message on request."""
        self.do(self.fill)
        got: list[bytes] = []
        client = self.do(self.join, "audit", "Orders", got)
        self.go(page, "clients")
        page.get_by_role("link", name="audit-member").click()
        page.get_by_text("PROP_CONSUME_TYPE").wait_for()
        (sent,) = self.do(self.send, "Orders", b"once more")
        self.go(page, f"messages/{sent.message_id}?topic=Orders&tab=delivery")
        page.get_by_role("row").filter(has_text="audit").get_by_role("button", name="Consume now").click()
        page.get_by_role("dialog").get_by_role("button", name="Consume now").click()
        page.get_by_text("The client answered CR_SUCCESS").wait_for()
        for _ in range(SECONDS * 10):  # the first time it came by itself, whenever that was
            if got.count(b"once more") > 1:
                break
            page.wait_for_timeout(100)
        self.assertEqual(got.count(b"once more"), 2)
        self.do(client.stop)

    @in_browser()
    def test_send_and_tail(self, page: Page) -> None:
        """A message sent on one page arrives on another page that tails the topic."""
        self.do(self.make_topic, "Orders")
        self.go(page, "tail")
        page.get_by_label("Topic", exact=True).fill("Orders")
        page.get_by_role("button", name="Start tail").click()
        page.get_by_text("4 queues").wait_for()
        other = page.context.new_page()
        self.go(other, "send?topic=Orders")
        other.get_by_label("Body", exact=True).fill("seen by the tail")
        other.get_by_label("Tag").fill("hot")
        other.get_by_role("button", name="Send", exact=True).click()
        other.get_by_text("SEND_OK").wait_for()
        page.get_by_text("seen by the tail").wait_for()
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("Paused", exact=True).wait_for()

    # -- repairs -----------------------------------------------------------------------------------------------------

    @in_browser()
    def test_dead_letter(self, page: Page) -> None:
        """A dead letter is edited and resent; the group receives the edited one. All of them can be exported."""
        self.do(self.fill)
        self.go(page, "dlq")
        page.get_by_role("link", name="mailer").click()
        row = page.get_by_role("row").filter(has_text="to be mended")
        row.get_by_role("button", name="Edit").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Body", exact=True).fill("mended")
        dialog.get_by_label("Properties").fill("region=south")
        dialog.get_by_role("button", name="Dry run").click()
        dialog.get_by_text("Would be sent to %RETRY%mailer").wait_for()
        dialog.get_by_role("button", name="Resend").click()
        page.get_by_text("Resent to %RETRY%mailer").wait_for()
        self.assertEqual(self.do(self.consume, "mailer", "Payments", 1), [b"mended"])
        with page.expect_download() as exported:
            page.get_by_role("button", name="Export").click()
        lines = [json.loads(line) for line in exported.value.path().read_text().splitlines()]
        self.assertEqual({one["body"] for one in lines}, {"to be mended", "to be left"})

    @in_browser()
    def test_all_dead_letters(self, page: Page) -> None:
        """Selected dead letters, or all, are resent by a job whose result is shown."""
        self.do(self.fill)
        self.go(page, "dlq/mailer")
        page.locator("tbody tr").nth(1).wait_for()
        page.get_by_label("Select all on this page").check()
        page.get_by_role("button", name="Resend 2").click()
        page.get_by_role("dialog").get_by_role("button", name="Resend").click()
        page.get_by_text("Resent: 2. Failed: 0. Not found: 0.").wait_for()
        page.get_by_role("dialog").get_by_text("Close", exact=True).click()
        page.get_by_text("resent: not consumed yet").nth(1).wait_for()
        page.get_by_role("button", name="Resend all").wait_for(state="detached")

        async def refused(states: CopyStates, group: str, letters: Any, marks: Any) -> dict[str, Fate]:
            return dict.fromkeys(marks, Fate("refused", 2))

        with patch.object(CopyStates, "of", refused):
            self.go(page, "dlq/mailer?state=closed")
            page.get_by_text("resent: refused, tried again (waits for retry 2").nth(1).wait_for()
        self.go(page, "dlq")
        row = page.get_by_role("row").filter(has_text="mailer")
        row.wait_for()
        self.assertEqual(row.locator("td").all_inner_texts()[:4], ["mailer", "0", "2", "2"])
        self.assertEqual(len(self.do(self.consume, "mailer", "Payments", 2)), 2)

    @in_browser()
    def test_dead_letter_marks(self, page: Page) -> None:
        """Each dead letter says what was done about it; all that are open are acknowledged, and one is opened again."""
        self.do(self.fill)
        self.go(page, "dlq/mailer")
        row = page.get_by_role("row").filter(has_text="to be left")
        row.get_by_text("open", exact=True).wait_for()
        page.get_by_role("button", name="Acknowledge all 2").click()
        dialog = page.get_by_role("dialog", name="Acknowledge")
        dialog.get_by_label("Comment").fill("paid by hand")
        dialog.get_by_role("button", name="Acknowledge").click()
        page.get_by_text("2 dead letters acknowledged").wait_for()
        row.get_by_text("paid by hand").wait_for()
        page.get_by_role("button", name="Resend all").wait_for(state="detached")
        row.get_by_role("button", name="Reopen").click()
        row.get_by_text("open", exact=True).wait_for()
        page.get_by_role("button", name="Resend all 1").wait_for()
        self.go(page, "dlq/mailer?state=closed")
        row.wait_for(state="detached")
        page.get_by_role("row").filter(has_text="to be mended").wait_for()

    @in_browser()
    def test_empty(self, page: Page) -> None:
        """Emptying a topic says first what each group skips and what stays; then its groups have no lag."""
        self.do(self.fill)
        self.do(self.send, "Orders", b"nine", b"ten")
        self.go(page, "topics/Orders")
        page.get_by_role("button", name="Empty topic").click()
        page.locator("[data-test=stay]", has_text="10 messages stay on the disk until retention removes").wait_for()
        page.get_by_role("dialog").locator("tr", has_text="audit").locator("td", has_text="2").wait_for()
        go_on = page.get_by_role("dialog").get_by_role("button", name="Skip all messages")
        self.assertTrue(go_on.is_disabled())
        page.get_by_role("dialog").get_by_role("textbox").fill("Orders")
        go_on.click()
        page.get_by_text("1 group skips all messages of Orders").wait_for()
        self.go(page, "groups/audit")
        page.get_by_text("no lag").first.wait_for()

    @in_browser()
    def test_positions(self, page: Page) -> None:
        """Offsets of a group are reset after a preview, its messages are redelivered, and the reset is undone."""
        self.do(self.fill)
        before = self.positions()
        self.go(page, "groups/audit/positions")
        page.get_by_label("Target").select_option("earliest")
        page.get_by_role("button", name="Preview").click()
        page.get_by_text("Planned").first.wait_for()
        self.assertEqual(self.positions(), before)
        page.get_by_role("button", name="Reset offsets").click()
        page.get_by_role("dialog").get_by_role("button", name="Reset offsets").click()
        page.get_by_text("The offsets were reset").wait_for()
        self.assertEqual(set(self.positions().values()), {0})
        page.get_by_role("button", name="Undo").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Undo").click()
        page.get_by_text("The reset was undone").wait_for()
        self.assertEqual(self.positions(), before)

    def positions(self) -> dict[int, int]:
        """Return the consumer offsets of the group audit in Orders, by queue."""
        stats = self.do(self.ops.admin.groups.progress, "audit")
        return {
            queue.queue_id: one.consumer_offset for queue, one in stats.offset_table.items() if queue.topic == "Orders"
        }

    # -- topics and groups -------------------------------------------------------------------------------------------

    @in_browser()
    def test_topics(self, page: Page) -> None:
        """Topics are created, edited, filtered and sorted by the server, and deleted after their name is typed."""
        for number in range(60):
            self.do(self.make_topic, f"Many{number:02d}", 1)
        self.go(page, "topics")
        self.listed(page, 1, 50, 60)
        page.get_by_role("button", name="Next page").click()
        self.listed(page, 51, 60, 60)
        page.get_by_placeholder("Filter by topic name…").fill("many1")
        self.listed(page, 1, 10, 10)
        page.get_by_role("columnheader", name="Topic").get_by_role("button").click()
        self.until(page, "document.querySelector('tbody tr').textContent.startsWith('Many19')")
        page.get_by_role("button", name="New topic").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Topic name").fill("Fresh")
        dialog.get_by_label("Write queues").fill("3")
        dialog.get_by_role("button", name="Create").click()
        page.get_by_role("heading", name="Fresh").wait_for()
        page.get_by_role("button", name="Edit").click()
        page.get_by_role("dialog").get_by_label("Permission").select_option("read")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        page.locator(".stat").get_by_text("read only").wait_for()
        page.get_by_role("button", name="Delete").click()
        button = page.get_by_role("dialog").get_by_role("button", name="Delete")
        self.assertTrue(button.is_disabled())
        page.get_by_label("Type Fresh to confirm").fill("Fresh")
        button.click()
        page.get_by_text("Topic Fresh deleted").wait_for()
        self.go(page, "audit")
        page.get_by_text("DELETE /topics/{name}").wait_for()

    @in_browser()
    def test_groups(self, page: Page) -> None:
        """Groups are created and edited."""
        self.go(page, "groups")
        page.get_by_role("button", name="New group").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Group name").fill("fresh")
        dialog.get_by_label("Max retries").fill("3")
        dialog.get_by_role("button", name="Create").click()
        page.get_by_role("heading", name="fresh").wait_for()
        page.get_by_text("No connected members").first.wait_for()
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Allow the group to consume").uncheck()
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Group fresh updated").wait_for()
        page.get_by_role("tab", name="Settings").click()
        page.get_by_role("cell", name="3", exact=True).wait_for()

    @in_browser()
    def test_tokens(self, page: Page) -> None:
        """A token is created, shown once, valid for its scope, and deleted."""
        self.go(page, "tokens")
        page.get_by_role("button", name="New token").click()
        page.get_by_label("Name").fill("robot")
        page.get_by_role("dialog").get_by_role("button", name="Create").click()
        secret = page.locator("[data-test=token]").inner_text()
        page.get_by_role("button", name="I have saved it").click()
        self.assertEqual(self.ops.tokens.find(secret).scopes, ("read",))
        page.get_by_role("row").filter(has_text="robot").get_by_role("button", name="Delete").click()
        page.get_by_label("Type robot to confirm").fill("robot")
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_text("Token robot deleted").wait_for()

    # -- scripts in data ---------------------------------------------------------------------------------------------

    @in_browser()
    def test_scripts_do_not_run(self, page: Page) -> None:
        """Script text in bodies, keys, tags, properties and names is shown as text and runs nowhere."""
        self.do(self.make_topic, "Orders")
        key = EVIL.replace(" ", "/")
        sent = self.do(self.evil, key)
        for place in (
            f"messages?by=queue&topic=Orders&broker=broker-a&queue={sent.queue.queue_id}",
            "tail?topic=Orders&on=1",
            f"messages/{sent.message_id}?topic=Orders",
            f"messages/{sent.message_id}?topic=Orders&tab=properties",
            f"messages/{sent.message_id}?topic=Orders&tab=record",
        ):
            self.go(page, place)
            page.get_by_text(MARK).first.wait_for()
        self.go(page, f"messages?by=key&topic={quote(EVIL)}")
        page.get_by_role("button", name="Search").wait_for()
        self.assertEqual(page.get_by_label("Topic", exact=True).input_value(), EVIL)
        self.go(page, f"topics?q={quote(EVIL[:100])}")
        page.get_by_text(f"No entries contain “{EVIL[:100]}”").wait_for()
        page.get_by_label("Topic, group, client, message key or ID").fill(EVIL[:100])
        page.get_by_text("Nothing found").wait_for()
        self.assertEqual(page.locator("main script, main img").count(), 0)

    async def evil(self, key: str) -> Any:
        """Send a message that is full of scripts."""
        (sent,) = await self.send("Orders", EVIL.encode(), tag="<b>", keys=[key], properties={f"<i>{EVIL}": EVIL})
        return sent

    @in_browser(errors=(400, 404))
    def test_scripts_in_names(self, page: Page) -> None:
        """Script text in place of a name is an error that is shown as text."""
        for place in (f"topics/{quote(EVIL, safe='')}", f"groups/{quote(EVIL, safe='')}", "topics/Gone"):
            self.go(page, place)
            page.locator(".failure").wait_for()
        self.go(page, f"dlq/{quote(dlq_topic('a'), safe='')}")
        page.get_by_role("heading", level=1).wait_for()
