"""The page of a topic: its newest messages, its groups with their lag; charts of topics, groups and brokers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from smartgo.env.product import product_version
from smartgo.ops.figures.sampler import FIGURES
from smartgo.ops.figures.subjectsampler import BROKER_LAG_FIGURES, GROUP_FIGURES, TOPIC_FIGURES
from smartgo.ops.resources import tail
from tests.ops.console.browser import ConsoleCase, in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOUR = 3_600_000


class TopicPageTests(ConsoleCase):
    """One topic."""

    async def fill(self) -> None:
        """A topic with nine messages and a group that consumed four of them."""
        await self.make_topic("Orders", 3)
        await self.send("Orders", *(b'{"order": %d}' % number for number in range(4)), tag="new", keys=["key-7"])
        await self.consume("audit", "Orders", 4)
        await self.send("Orders", *(b'{"order": %d}' % number for number in range(4, 9)), tag="new", keys=["key-7"])

    def previews(self, page: Page) -> list[str]:
        """The bodies in the table, from top to bottom."""
        found: list[str] = page.locator("tbody tr .preview.mono").all_inner_texts()
        return found

    @in_browser()
    def test_newest(self, page: Page) -> None:
        """A topic opens on its newest messages, the newest first; a new one comes by itself; one click shows it."""
        self.do(self.fill)
        self.go(page, "topics/Orders")
        page.get_by_role("tab", name="Messages", selected=True).wait_for()
        page.locator("tbody tr").nth(8).wait_for()
        stored = [f'{{"order": {number}}}' for number in reversed(range(9))]
        self.assertEqual(self.previews(page)[0], stored[0])
        self.assertEqual(sorted(self.previews(page)), sorted(stored))
        page.locator("[data-test=newest-state]").get_by_text("Live", exact=True).wait_for()
        self.do(self.send, "Orders", b"after that")
        page.locator("tbody tr").nth(9).wait_for()
        self.assertEqual(self.previews(page)[0], "after that")
        page.get_by_role("button", name="Pause").click()
        self.do(self.send, "Orders", b"while it was paused")
        page.get_by_role("button", name="Resume").click()
        page.get_by_text("while it was paused").wait_for()
        page.locator("tbody tr").first.get_by_role("link").first.click()
        page.get_by_role("heading", name="Message", exact=True).wait_for()
        page.get_by_text("while it was paused").wait_for()

    @in_browser(errors=(503,))
    def test_without_tail(self, page: Page) -> None:
        """While there are as many tails as there may be, the newest messages are asked for again and again."""
        self.patch(tail, "TAILS", 0)
        self.do(self.fill)
        self.go(page, "topics/Orders")
        page.locator("[data-test=newest-state]").get_by_text("Every 5 s").wait_for()
        page.locator("tbody tr").nth(8).wait_for()
        self.do(self.send, "Orders", b"after that")
        page.get_by_text("after that").wait_for()

    @in_browser()
    def test_any_topic(self, page: Page) -> None:
        """The search of the top bar leads to messages of any topic, by their key or by the id of their producer."""
        self.do(self.make_topic, "Orders", 2)
        self.do(self.make_topic, "Payments", 2)
        self.do(partial(self.send, "Orders", b"an order", keys=["key-7"]))
        self.do(partial(self.send, "Payments", b"a payment", keys=["key-7", "key-8"]))
        page.keyboard.press("Control+k")
        page.keyboard.type("key-7")
        page.get_by_role("option", name="Messages with the key or ID “key-7”").wait_for()
        page.keyboard.press("Enter")
        page.get_by_text("2 found").wait_for()
        self.assertEqual(self.previews(page), ["a payment", "an order"])
        page.keyboard.press("Control+k")
        page.keyboard.type("key-8")
        page.get_by_role("option", name="Messages with the key or ID “key-8”").click()
        page.get_by_role("heading", name="Message", exact=True).wait_for()  # of the only one
        page.get_by_text("a payment").wait_for()
        unique = page.locator("dd code").first.inner_text()
        self.assertRegex(unique, "^[0-9A-F]{32}$")
        page.keyboard.press("Control+k")
        page.keyboard.type(unique)
        page.get_by_role("option", name=unique).wait_for()
        self.go(page, "overview")
        page.get_by_role("heading", name="Overview").wait_for()
        self.go(page, f"messages/{unique}")
        page.get_by_text("a payment").wait_for()

    @in_browser()
    def test_empty(self, page: Page) -> None:
        """A topic without messages says so, until the first one comes."""
        self.do(self.make_topic, "Empty")
        self.go(page, "topics/Empty")
        page.get_by_text("No messages", exact=True).wait_for()
        page.locator("[data-test=newest-state]").get_by_text("Live", exact=True).wait_for()
        self.do(self.send, "Empty", b"the first")
        page.get_by_text("the first").wait_for()

    @in_browser()
    def test_groups(self, page: Page) -> None:
        """The groups of a topic stand there with their members and their lag in it."""
        self.do(self.fill)
        self.go(page, "topics/Orders/groups")
        row = page.get_by_role("row").filter(has_text="audit")
        row.wait_for()
        self.assertEqual([one.strip() for one in row.locator("td").all_inner_texts()[:3]], ["audit", "0", "5"])
        self.assertRegex(row.locator("td").nth(3).inner_text(), r"\d+ (ms|s|min)")
        row.click()
        page.get_by_role("heading", name="audit", level=1).wait_for()

    def record(self, *series: tuple[str, Any]) -> None:
        """Record a point a minute for an hour."""
        now = self.live.env.clock.wall_ms()
        for name, figures in series:
            for minute in range(60, 0, -1):
                self.ops.sampler.history.add(name, now - minute * 60_000, figures, [float(minute)] * len(figures))

    @in_browser()
    def test_charts(self, page: Page) -> None:
        """Topic, group and broker have charts of rates and lag with what was recorded; none begins in 1970."""
        self.do(self.fill)
        address = f"broker:{self.live.node.broker}"
        places = {"topics/Orders/charts": 3, "groups/audit": 3, "cluster/broker-a": 4}
        for place in places:
            self.go(page, place)
            page.locator(".chart-plot canvas").first.wait_for()
            self.until(
                page,
                "() => [...document.querySelectorAll('.chart-plot')]"
                ".every(one => Number(one.dataset.begin) > Date.now() / 1000 - 86400)",
            )
        self.record(
            ("topic:Orders", TOPIC_FIGURES),
            ("group:audit", GROUP_FIGURES),
            (address, FIGURES),
            ("broker-lag:broker-a", BROKER_LAG_FIGURES),
        )
        for place, count in places.items():
            self.go(page, "overview")
            self.go(page, f"{place}?span=1h")
            self.until(
                page,
                "count => [...document.querySelectorAll('.chart')]"
                ".filter(one => Number(one.dataset.points) >= 55).length === count",
                count,
            )
            self.assertEqual(page.locator("[data-test=unsampled]").count(), 0)

    @in_browser()
    def test_broker(self, page: Page) -> None:
        """The page of a broker says in words what it is, who is connected and what its store has; the rest is a tab."""
        self.do(self.fill)
        member = self.do(self.join, "readers", "Orders", [])
        self.ops.view.forget()
        self.go(page, "cluster/broker-a")
        page.get_by_role("tab", name="Overview", selected=True).wait_for()
        page.get_by_text("master, asynchronous replication").wait_for()
        version = page.locator("[data-test=broker-version]").inner_text()
        self.assertEqual(version.split(), ["smartgo", product_version(), "V4_9_8"])
        page.get_by_text("Log files are kept for 3 d").wait_for()
        text = page.inner_text("#main")
        for words in ("No damage is known", "Producers connected", "Consumers connected", "Disk used"):
            self.assertIn(words, text)
        self.assertNotIn("bootTimestamp", text)
        self.until(page, "() => [...document.querySelectorAll('dd a')].some(one => one.textContent === '1')")
        page.get_by_role("tab", name="Runtime figures").click()
        page.get_by_text("bootTimestamp").wait_for()
        self.do(member.stop)

    @in_browser()
    def test_system_groups(self, page: Page) -> None:
        """Groups that brokers have for themselves are neither listed nor counted, until somebody asks for them."""
        self.do(self.fill)
        page.reload()
        stat = page.locator("a.stat").filter(has_text="Groups")
        stat.get_by_text("1", exact=True).wait_for()
        page.locator("a.stat").filter(has_text="Topics").get_by_text("1", exact=True).wait_for()
        self.go(page, "groups")
        self.listed(page, 1, 1, 1)
        page.get_by_label("System groups").check()
        page.get_by_text("TOOLS_CONSUMER").wait_for()
        page.get_by_label("System groups").uncheck()
        self.listed(page, 1, 1, 1)

    @in_browser()
    def test_low_rows(self, page: Page) -> None:
        """A row of the list of topics has one line."""
        self.do(self.fill)
        self.go(page, "topics")
        page.locator("tbody tr").first.wait_for()
        self.until(page, "document.querySelector('tbody tr').getBoundingClientRect().height < 50")

    @in_browser()
    def test_left_out(self, page: Page) -> None:
        """Of a topic that is not sampled the page says so, and how many are."""
        self.do(self.fill)
        subjects = self.ops.subjects
        subjects._known["topic"], subjects._sampled["topic"] = 812, set(map(str, range(500)))
        self.go(page, "topics/Orders/charts")
        page.get_by_text("500 of 812 topics are recorded for charts").wait_for()
