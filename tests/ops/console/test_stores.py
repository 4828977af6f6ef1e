"""The pages about brokers' stores, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smartgo.schema.regions import Region
from smartgo.store.queues.expiry import ExpiredUnits
from tests.ops.console.browser import ConsoleCase, in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page


class StorePageTests(ConsoleCase):
    """The list of stores, and one store."""

    @property
    def store(self) -> Any:
        """The broker's store."""
        broker: Any = self.live.node._broker
        return broker.opened.store

    async def damage(self) -> None:
        """Enter a damaged region, as a read that met it does."""
        region = Region(128, 64, "body CRC differs", "Orders", 2, 1, 1_700_000_000_000, "0128-64.bytes")
        self.store.damage.add([region])
        self.flushLoggedErrors()

    @in_browser()
    def test_list(self, page: Page) -> None:
        """The list says of each broker how large its log is and what is damaged, and leads to its store."""
        self.do(self.make_topic, "Orders")
        self.do(self.send, "Orders", b"one")
        self.do(self.damage)
        self.go(page, "stores")
        row = page.locator("tbody tr", has_text="broker-a")
        row.locator("td .tone-bad", has_text="1").wait_for()
        row.get_by_role("link", name="broker-a").click()
        page.get_by_role("heading", name="broker-a", level=1).wait_for()
        page.get_by_role("heading", name="Retention", exact=True).wait_for()

    @in_browser()
    def test_store(self, page: Page) -> None:
        """The page has the log, the disk with its thresholds, what retention would remove next and why, and damage."""
        self.do(self.make_topic, "Orders")
        self.do(self.send, "Orders", b"one", b"two")
        self.do(self.damage)
        self.go(page, "stores/broker-a/0")
        for text in (
            "Log files are kept for 3 d; older ones are removed at 4:00.",
            "the log is written there",
            "No messages are taken from",
            "quarantine/0128-64.bytes",
            "body CRC differs",
            "No backup since the start",
        ):
            page.get_by_text(text).first.wait_for()
        page.locator("[data-test=damage]", has_text="128").wait_for()
        page.locator("[data-test=retention]", has_text="None.").wait_for()
        self.assertEqual(page.locator("[data-test=refusal]").count(), 0)

    @in_browser()
    def test_scrub(self, page: Page) -> None:
        """A scrub is started by its button, and its result is shown when it has ended."""
        self.do(self.make_topic, "Orders")
        self.do(self.send, "Orders", b"one", b"two", b"three")
        self.go(page, "stores/broker-a/0")
        page.locator("[data-test=scrub]", has_text="Start a scrub").click()
        page.locator("[data-test=scrubbed]", has_text="0 damaged regions").wait_for()
        page.locator("[data-test=scrubbed]", has_text="messages right").wait_for()

    @in_browser()
    def test_backup(self, page: Page) -> None:
        """A backup is begun with a name, and the page says how it went and where it is."""
        self.go(page, "stores/broker-a/0")
        page.get_by_role("button", name="Begin a backup").click()
        name = page.get_by_role("textbox", name="Name")
        name.fill("before-upgrade")
        page.get_by_role("dialog").get_by_role("button", name="Begin a backup").click()
        page.get_by_text("backups/before-upgrade").wait_for()
        page.locator(".badge", has_text="done").wait_for()

    @in_browser()
    def test_timed(self, page: Page) -> None:
        """How many timed messages wait is shown, and when the next one is due."""
        self.do(self.make_topic, "Orders")
        self.do(lambda: self.send("Orders", b"later", delay=3600.0))
        self.go(page, "stores/broker-a/0")
        page.get_by_role("heading", name="Timed messages").wait_for()
        page.get_by_text("40 d", exact=True).wait_for()
        page.locator("[data-test=due]").first.wait_for()
        self.assertEqual(page.get_by_text("none waits").count(), 0)

    @in_browser(errors=(400,))
    def test_recall(self, page: Page) -> None:
        """A message is sent with a delay, says when it is due, and is recalled; a time too far ahead is refused."""
        self.do(self.make_topic, "Orders")
        self.go(page, "send?topic=Orders")
        page.get_by_label("Deliver", exact=True).select_option("after")
        page.get_by_label("Delay", exact=True).fill("41")
        page.get_by_label("Unit").select_option("d")
        page.get_by_role("button", name="Send", exact=True).click()
        page.get_by_text("the broker takes delivery times up to 40 days ahead").wait_for()
        page.get_by_label("Unit").select_option("h")
        page.get_by_role("button", name="Send", exact=True).click()
        page.locator("[data-test=due]").wait_for()
        page.locator(".sent").get_by_role("button", name="Recall").click()
        page.locator(".sent .badge", has_text="recalled").wait_for()

    async def lose(self) -> None:
        """Let a group skip a damaged message, and lose messages to retention before it read them."""
        await self.make_topic("Orders", 1)
        await self.send("Orders", *(b"%d" % number for number in range(6)))
        await self.consume("audit", "Orders", 6)
        broker: Any = self.live.node._broker
        broker.opened.offsets.commit("audit", "Orders", 0, 2)
        broker.opened.group_progress.unread_removals.expired(ExpiredUnits("Orders", 0, 0, 5))
        found_ms = 1_700_000_000_000
        self.store.damage.add(
            [Region(128 * at, 64, "body CRC differs", "Orders", 0, at, found_ms, f"{at}.bytes") for at in range(1, 61)]
        )
        self.flushLoggedErrors()

    @in_browser()
    def test_group(self, page: Page) -> None:
        """A group says how many messages were removed before it read them, and which damaged ones it skipped."""
        self.do(self.lose)
        self.go(page, "groups/audit")
        page.locator(".stat", has_text="Removed unread").locator(".stat-value", has_text="3").wait_for()
        page.get_by_text("messages that were removed before this group read them").wait_for()
        page.locator("[data-test=groupdamage]", has_text="The group has passed damaged messages").wait_for()
        page.locator("[data-test=moredamage]", has_text="The first 50 of 60 are shown.").wait_for()
        self.go(page, "overview")
        page.get_by_text("audit: 3 messages were removed before this group read them").wait_for()
