"""Brokers that are missing, as a person at the console sees them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from twisted.internet.defer import succeed

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.ops.membership.members import TopicContent
from smartgo.schema.bodies import SubscriptionGroupConfig
from smartgo.schema.refusalkind import RefusalKind
from smartgo.store.openstore import OpenStore
from smartgo.store.refusal import Refusal
from tests.ops.console.browser import ConsoleCase, in_browser
from tests.ops.console.test_pages import shown_keys

if TYPE_CHECKING:
    from playwright.sync_api import Page

LOST = "1,000 messages cannot be reached (topics: 1, queues: 4)."


class MissingTests(ConsoleCase):
    """A broker with 1,000 messages, and a slave of the one that is there, are gone."""

    async def vanish(self) -> None:
        """Let the API have seen both."""
        await self.make_topic("Orders")
        memory = self.ops.membership
        here = await self.ops.view.brokers.get()
        gone = [
            BrokerPlace("DefaultCluster", "broker-x", 0, "192.0.2.1:10911"),
            BrokerPlace("DefaultCluster", "broker-a", 1, "192.0.2.2:10911"),
        ]
        memory.observe([*here, *gone])
        memory.counted("broker-x", {"Orders": TopicContent(4, 1000), "Bills": TopicContent(1, 0)}, ["Orders"])
        memory.observe(here)
        self.ops.view.forget()

    @in_browser()
    def test_overview(self, page: Page) -> None:
        """The bar, the totals, the list of brokers and what needs attention say so, in red."""
        page.get_by_text("all brokers up").wait_for()
        self.do(self.vanish)
        page.reload()
        bar = page.locator(".bar-cluster")
        bar.get_by_text("2 of 3 processes missing").wait_for()
        self.assertEqual(bar.locator(".dot-bad").count(), 1)
        page.locator(".stats").get_by_text(f"2 missing, {LOST}").wait_for()
        stored = page.locator(".stat").filter(has_text="Stored today")
        stored.get_by_text("without broker-a#1, broker-x").wait_for()
        attention = page.locator(".attention")
        found = attention.get_by_role("link").filter(has_text="Broker broker-x is missing: it was last seen")
        found.filter(has_text=LOST).filter(has_text="It was not stopped in order").wait_for()
        attention.get_by_text("Broker broker-a#1 is missing").wait_for()
        row = page.get_by_role("row").filter(has_text="broker-x")
        row.get_by_text("missing", exact=True).wait_for()
        self.assertEqual(row.locator(".dot-bad").count(), 1)

    @in_browser()
    def test_refusing(self, page: Page) -> None:
        """A broker that takes no messages is red in the bar, in lists of brokers and in that of stores."""
        page.get_by_text("all brokers up").wait_for()
        refusal = Refusal(RefusalKind.DISK_FULL, "the disk is full")
        self.patch(OpenStore, "refusal", property(lambda store: refusal))
        page.reload()
        bar = page.locator(".bar-cluster")
        bar.get_by_text("taking no messages: 1 of 1").wait_for()
        self.assertEqual(bar.locator(".dot-bad").count(), 1)
        for place, row in (("overview", ".overview tr, tbody tr"), ("cluster", ".node-broker"), ("stores", "tbody tr")):
            self.go(page, place)
            found = page.locator(row).filter(has_text="broker-a").filter(has_text="takes no messages").first
            found.get_by_text("takes no messages", exact=True).wait_for()
            self.assertEqual(found.get_by_title("the disk is full").count(), 1, place)

    @in_browser()
    def test_slave_left(self, page: Page) -> None:
        """The slave of a master that is missing is well, as it serves reads, which the broker's page says."""
        here = self.do(self.ops.view.brokers.get)
        slave = [msgspec.structs.replace(one, id=1) for one in here]
        self.patch(self.ops.view.brokers, "get", lambda missing=None: succeed(slave))
        self.ops.membership.observe(here)
        self.ops.membership.observe(slave)
        self.ops.membership.table.answered({one.address: True for one in slave}, 0)
        self.go(page, "cluster/broker-a")
        page.get_by_text("nothing can be stored").first.wait_for()
        row = page.get_by_role("row").filter(has_text="slave 1")
        self.assertEqual((row.locator(".dot-good").count(), row.locator(".dot-bad").count()), (1, 0))

    @in_browser(viewport={"width": 390, "height": 844})
    def test_narrow_alerts(self, page: Page) -> None:
        """On a phone the list of alerts shows which ones fire without being moved aside."""
        self.do(self.vanish)
        self.go(page, "alerts")
        state = page.get_by_role("row").filter(has_text="broker-x").get_by_text("firing", exact=True)
        state.wait_for()
        box = state.bounding_box()
        self.assertIsNotNone(box)
        assert box is not None
        self.assertLessEqual(box["x"] + box["width"], 390)

    @in_browser()
    def test_cluster(self, page: Page) -> None:
        """The cluster's page and the broker's own page say missing, and never Up."""
        self.do(self.vanish)
        self.go(page, "cluster")
        node = page.locator(".node-down").filter(has_text="broker-x")
        node.get_by_text("missing", exact=True).wait_for()
        node.get_by_text(LOST).wait_for()
        node.click()
        page.locator(".stats").get_by_text("Missing", exact=True).wait_for()
        page.get_by_role("alert").filter(has_text=LOST).wait_for()
        page.locator("[data-test=role]").wait_for()
        self.assertEqual(page.locator("[data-test=broker-version]").count(), 0, "its version is not known")
        page.get_by_text("Process that is gone").wait_for()
        self.assertEqual(page.get_by_text("Consumers connected").count(), 0, "those of its name are a slave's")
        self.go(page, "cluster/broker-a")
        state = page.locator(".stats").get_by_text("Slave missing", exact=True)
        state.wait_for()
        self.assertEqual(page.locator(".stats").get_by_text("Up", exact=True).count(), 0)

    @in_browser(errors=(502,))
    def test_topics(self, page: Page) -> None:
        """Topics say how much of them cannot be reached; one that is nowhere else is listed, too."""
        self.do(self.vanish)
        self.go(page, "topics")
        page.get_by_role("row").filter(has_text="Orders").get_by_text(
            "1,000 messages out of reach, queues: 4"
        ).wait_for()
        page.get_by_role("row").filter(has_text="Bills").get_by_text("0 messages out of reach, queues: 1").wait_for()
        page.locator("[data-test=missing]").get_by_text("broker-x").wait_for()
        self.go(page, "topics/Orders")
        alert = page.get_by_role("alert").filter(has_text="Broker broker-x is missing:")
        alert.filter(has_text="1,000 messages out of reach").wait_for()
        self.go(page, "topics/Bills")
        alert.wait_for()
        self.go(page, "groups")
        page.locator("[data-test=missing]").get_by_text("broker-x").wait_for()

    @in_browser(errors=(502,))
    def test_groups(self, page: Page) -> None:
        """A group's page and the list say how many messages wait for it at the missing broker, or that nobody knows."""
        self.do(self.vanish)
        self.do(self.lag)
        self.go(page, "groups")
        row = page.get_by_role("row").filter(has_text="audit")
        row.get_by_text("+ 700 at broker-x, missing").wait_for()
        self.go(page, "groups/audit")
        page.get_by_role("alert").filter(has_text="700 messages waited for this group at broker broker-x").wait_for()
        self.assertNotIn("{", page.inner_text("main"))

    async def lag(self) -> None:
        """Let a group have messages at the missing broker."""
        await self.ops.admin.groups.update(SubscriptionGroupConfig(group_name="audit"), None)
        self.ops.membership.groups_counted({"audit": {"broker-x": 700}})
        self.ops.view.forget()

    @in_browser()
    def test_forget(self, page: Page) -> None:
        """It is taken out of service after its name was typed; the question goes when somebody goes elsewhere."""
        self.do(self.vanish)
        self.go(page, "cluster/broker-x")
        button = page.get_by_role("button", name="Take out of service")
        button.click()
        dialog = page.get_by_role("dialog", name="Take out of service")
        dialog.get_by_text(LOST).wait_for()
        page.evaluate("location.hash = '#/alerts'")
        page.get_by_role("heading", name="Alerts", level=1).wait_for()
        dialog.wait_for(state="detached")
        self.assertEqual([one.name for one in self.ops.membership.table.missing()], ["broker-a", "broker-x"])
        self.go(page, "cluster/broker-x")
        button.click()
        dialog.get_by_label("Type broker-x").fill("broker-x")
        dialog.get_by_role("button", name="Take out of service").click()
        page.get_by_text("broker-x is out of service").wait_for()
        page.locator(".node").filter(has_text="broker-x").wait_for(state="detached")
        self.assertEqual([one.name for one in self.ops.membership.table.missing()], ["broker-a"])

    @in_browser()
    def test_chinese(self, page: Page) -> None:
        """In Chinese, too, nothing is left of keys and placeholders."""
        self.do(self.vanish)
        page.reload()
        page.locator("[data-test=language]").click()
        page.locator(".bar-cluster").get_by_text("3 个进程中有 2 个缺失").wait_for()
        for place in ("overview", "cluster", "cluster/broker-x", "topics", "topics/Orders"):
            self.go(page, place)
            page.locator("main").filter(has_text=re.compile("缺失|无法访问")).wait_for()
            self.assertNotIn("{", page.inner_text("main"), place)
            self.assertEqual(shown_keys(page), [], place)
