"""
The screenshots of the documentation: C{SMARTGO_SCREENSHOTS=1 trial tests.ops.console.test_screenshots} takes them anew.

They are to be taken again when labels of the console change. Figures come from real messages, from a history that is
invented for the minutes before, and, on the page of alerts, from invented problems.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.settings.changes import Who
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumerSettings
from smartgo.health.snapshot import BrokerSnapshot, ClusterSnapshot, GroupSnapshot
from smartgo.ops.figures.sampler import FIGURES
from smartgo.ops.figures.subjectsampler import BROKER_LAG_FIGURES, GROUP_FIGURES, TOPIC_FIGURES
from smartgo.ops.membership.members import TopicContent
from smartgo.schema.bodies import ConsumeFromWhere
from tests.ops.console.browser import ConsoleCase, in_browser
from tests.test_layers import ROOT
from tests.test_spec import read

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = os.path.join(ROOT, "docs", "images", "console")
WANTED = "SMARTGO_SCREENSHOTS"
MINUTE = 60_000  # ms


class NameTests(SynchronousTestCase):
    def test_shown(self) -> None:
        """Each screenshot stands on a page of the documentation, and each one that a page shows is there."""
        pages = [name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".rst")]
        shown = {
            name
            for page in pages
            for name in re.findall(
                r"^\.\. image:: images/console/(\S+)$", read(os.path.join("docs", page)), re.MULTILINE
            )
        }
        self.assertEqual(sorted(os.listdir(FOLDER)), sorted(shown))

    def test_taken(self) -> None:
        """Each screenshot is one that this module takes."""
        named = re.findall(r'self\.take\(page, "([\w-]+)"', read("tests/ops/console/test_screenshots.py"))
        self.assertEqual(sorted(os.listdir(FOLDER)), sorted(f"{name}.png" for name in named))


class ScreenshotTests(ConsoleCase):
    """The pages of a small shop's cluster."""

    settings: ClassVar = {
        "alertReceivers": "team slack url=http://127.0.0.1:1/hook;on-call pagerduty token=key severity=critical"
        " url=http://127.0.0.1:1/v2/enqueue"
    }
    skip = ConsoleCase.skip or (None if WANTED in os.environ else f"screenshots are taken with {WANTED}=1 only")

    async def start(self) -> None:
        """Start a node, with a history from before its first sample."""
        await super().start()
        for series in ("cluster", f"broker:{self.live.node.broker}"):
            self.invent_history(series, FIGURES, lambda wave: (wave, wave * 1.3, wave * 230, wave * 300, 0.34, 4e6))
        self.invent_history("topic:orders", TOPIC_FIGURES, lambda wave: (wave / 3, wave * 8, wave))
        self.invent_history("broker-lag:broker-a", BROKER_LAG_FIGURES, lambda wave: (wave * 8, wave))

    async def fill(self) -> None:
        """Start the shop: its topics, messages and groups."""
        for topic, queues in (("orders", 8), ("shipments", 8), ("payments", 4), ("mails", 4), ("invoices", 4)):
            await self.make_topic(topic, queues)
        self.number = 0
        await self.sell(6)
        self.clients = [
            await self.join_at(0.0, "billing", {"payments": "card || paypal", "orders": "*"}),
            await self.join_at(0.1, "warehouse", {"orders": "*", "shipments": "*"}),
        ]
        await self.send("mails", *(b'{"to": "customer-%d@shop.example"}' % one for one in range(6)), tag="receipt")
        await self.consume("mailer", "mails", 6, dead=True)
        (self.transfer,) = await self.send(
            "payments", b'{"order": 7, "amount": 12.5}', tag="transfer", keys=["order-7"]
        )
        self.selling = LoopingCall(lambda: Deferred.fromCoroutine(self.sell(3)))
        self.selling.start(0.5)
        await deferLater(self.reactor, 25.0)

    def invent_history(self, series: str, figures: Sequence[str], values: Callable[[float], tuple[float, ...]]) -> None:
        """
        Add figures of the quarter of an hour until now to a series.

        @param values: those of one moment, by the messages that are sent in a second.
        """
        now = self.live.env.clock.wall_ms()
        for number in range(15 * 6, 0, -1):
            wave = 18 + 5 * math.sin(number / 9) + 2 * math.sin(number * 1.7)
            self.ops.sampler.history.add(series, now - number * MINUTE // 6, figures, values(wave))

    async def sell(self, count: int) -> None:
        """Send the messages of some orders."""
        for _ in range(count):
            self.number += 1
            order = {"order": self.number, "customer": f"customer-{self.number % 17}", "total": self.number * 3.5}
            keys, body = [f"order-{self.number}"], json.dumps(order).encode()
            await self.send("orders", body, keys=keys, tag=("web", "shop", "phone")[self.number % 3])
            await self.send("payments", body, keys=keys, tag=("card", "paypal")[self.number % 2])
            await self.send("shipments", body, keys=keys)

    async def join_at(self, seconds: float, group: str, topics: dict[str, str]) -> Client:
        """Add a member that needs some time for each message."""

        async def listener(messages: Any) -> None:
            await deferLater(self.reactor, seconds * len(messages))

        client = Client(self.live.env, f"127.0.0.1:{self.live.registry_port}", f"{group}-1")
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, concurrency=1)
        consumer = PushConsumer(client, group, listener, settings)
        for topic, tags in topics.items():
            consumer.subscribe(topic, tags)
        await consumer.start()
        return client

    async def close_shop(self) -> None:
        """Stop the traffic."""
        self.selling.stop()
        for client in self.clients:
            await client.stop()

    def invent_alerts(self) -> None:
        """Replace what the server measures by problems of several kinds and ages."""
        alerts = self.ops.alerts
        self.patch(alerts, "look", lambda rows: None)
        self.patch(self.ops.sampler, "_looked", lambda rows: None)
        now, table = self.live.env.clock.wall_ms(), alerts.table
        good = BrokerSnapshot(True, 0.34)
        full = BrokerSnapshot(True, 0.88, 0.93)
        groups = {
            "billing": GroupSnapshot(48_211, 1_830.0, 0.0, 0, True),
            "warehouse": GroupSnapshot(1_204, 731.0, 9.0, 1, True),
        }
        table.add_silence(
            "disk-full", "broker-a", now + 7200_000, "maria", now - 50 * MINUTE, "moving to a larger disk"
        )
        for minutes, brokers, dead in (
            (49, {"broker-a": full, "broker-b": good}, {"mailer": 0}),
            (7, {"broker-a": full, "broker-b": BrokerSnapshot(False, 0.0)}, {"mailer": 37}),
            (5, {"broker-a": full, "broker-b": BrokerSnapshot(False, 0.0)}, {"mailer": 37}),
            (0, {"broker-a": full, "broker-b": BrokerSnapshot(False, 0.0), "broker-c": full}, {"mailer": 37}),
        ):
            look = ClusterSnapshot(brokers=brokers, groups=groups, dead=dead)
            table.observe(look, now - minutes * MINUTE, 3000.0 - minutes * 60)

    def take(self, page: Page, name: str) -> None:
        """Take one screenshot once the page is quiet."""
        page.wait_for_timeout(1500)
        page.screenshot(path=os.path.join(FOLDER, f"{name}.png"))

    @in_browser()
    def test_take(self, page: Page) -> None:
        """Every page that the documentation shows can be drawn, and is written where the documentation has it."""
        self.do(self.fill)
        self.take_figures(page)
        self.take_subjects(page)
        self.take_messages(page)
        self.take_offsets(page)
        self.do(self.close_shop)
        self.take_settings(page)
        self.take_definitions(page)
        self.invent_alerts()
        self.take_alerts(page)
        self.do(self.lose_broker)
        self.take_missing(page)

    async def lose_broker(self) -> None:
        """Let the API have seen a broker that is no longer registered."""
        memory, here = self.ops.membership, await self.ops.view.brokers.get()
        memory.observe([*here, BrokerPlace("DefaultCluster", "broker-b", 0, "10.0.0.12:10911")])
        memory.counted("broker-b", {"orders": TopicContent(8, 41_208), "payments": TopicContent(4, 9_311)}, ["orders"])
        memory.groups_counted({"billing": {"broker-b": 1_204}, "warehouse": {}})
        memory.observe(here)
        self.ops.view.forget()

    def take_missing(self, page: Page) -> None:
        """Take the cluster, and a group, with a broker that is missing."""
        self.go(page, "cluster")
        page.reload()
        page.locator(".bar-health", has_text="1 of 2 processes missing").wait_for()
        page.locator(".node-down").filter(has_text="broker-b").wait_for()
        self.take(page, "cluster-missing")
        self.go(page, "groups/billing")
        page.get_by_role("alert").filter(has_text="broker-b").wait_for()
        self.take(page, "group-missing")

    def take_figures(self, page: Page) -> None:
        """Take the overview, a group, and the list of topics on a phone."""
        self.invent_history("group:warehouse", GROUP_FIGURES, lambda wave: (wave * 8, wave, wave * 0.7, wave * 0.68))
        self.go(page, "groups/warehouse")
        page.get_by_text("Lag in messages").first.wait_for()
        page.wait_for_timeout(12_000)  # until the group was sampled twice
        self.take(page, "group")
        self.go(page, "overview")
        page.get_by_role("link", name="warehouse").first.wait_for()
        page.wait_for_timeout(5000)
        self.take(page, "overview")
        self.switch(page, "dark")
        page.get_by_role("link", name="warehouse").first.wait_for()
        self.take(page, "overview-dark-zh")
        self.switch(page, "light")
        page.set_viewport_size({"width": 390, "height": 844})
        self.go(page, "topics")
        page.get_by_role("link", name="shipments").wait_for()
        self.take(page, "topics-narrow")
        page.set_viewport_size({"width": 1440, "height": 900})

    def take_subjects(self, page: Page) -> None:
        """Take the newest messages and the charts of a topic, and the page of a broker."""
        self.go(page, "topics/orders")
        page.locator("tbody tr").nth(20).wait_for()
        self.take(page, "topic")
        self.go(page, "topics/orders/charts")
        self.until(page, "Number(document.querySelector('.chart')?.dataset.points) >= 10")
        self.take(page, "topic-charts")
        self.go(page, "cluster/broker-a")
        self.until(page, "Number(document.querySelector('.chart')?.dataset.points) >= 10")
        self.take(page, "broker")

    def switch(self, page: Page, scheme: str) -> None:
        """Switch to another language, and to a color scheme."""
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.locator("[data-test=language]").click()
        self.until(page, f"document.documentElement.lang === '{'zh-CN' if scheme == 'dark' else 'en'}'")

    def take_messages(self, page: Page) -> None:
        """Take a message, its record, its delivery check, and dead letters."""
        self.go(page, "messages?by=key")
        page.get_by_label("Topic", exact=True).fill("orders")
        page.get_by_label("Key", exact=True).last.fill("order-60")
        page.get_by_role("button", name="Search").click()
        page.locator("tbody tr").first.locator("a").first.click()
        page.locator("[data-test=body]").wait_for()
        self.take(page, "message")
        page.get_by_role("tab", name="Record").click()
        page.get_by_text("physical_offset", exact=True).wait_for()
        self.take(page, "record")
        self.go(page, f"explain?id={self.transfer.message_id}&topic=payments&group=billing")
        page.locator(".checked").nth(5).wait_for()
        self.take(page, "explain")
        self.go(page, "dlq/mailer")
        page.locator("tbody tr").nth(5).wait_for()
        self.take(page, "dlq")

    def take_offsets(self, page: Page) -> None:
        """Take the preview of a reset."""
        self.go(page, "groups/warehouse/positions")
        page.get_by_label("Topic", exact=True).select_option("orders")
        page.get_by_label("Target").select_option("shift")
        page.get_by_label(re.compile("Messages")).fill("-5")
        page.get_by_role("button", name="Preview").click()
        page.get_by_text("Planned").first.wait_for()
        self.take(page, "positions")

    def take_settings(self, page: Page) -> None:
        """Take the change of a setting, and the history of changes."""

        async def change(name: str, value: str, keep: bool) -> None:
            await self.live.node._broker.settings.change([(name, value)], Who("maria", "192.0.2.7"), keep)

        self.do(change, "autoCreateTopicEnable", "false", True)
        self.do(change, "notifyConsumerIdsChangedEnable", "false", False)
        self.do(change, "notifyConsumerIdsChangedEnable", "true", False)
        self.go(page, "config?changeable=yes")
        page.get_by_role("button", name="Change brokerPermission").click()
        dialog = page.get_by_role("dialog", name="brokerPermission")
        dialog.get_by_label("Value").fill("4")
        dialog.get_by_role("button", name="Preview").click()
        dialog.get_by_text("Changes to be made").wait_for()
        self.take(page, "setting")
        page.keyboard.press("Escape")
        self.go(page, "config/history")
        self.switch(page, "dark")
        page.locator("tbody tr").nth(2).wait_for()
        self.take(page, "settings-history-dark-zh")
        self.switch(page, "light")

    def take_definitions(self, page: Page) -> None:
        """Take the preview of an import."""
        topics = {
            "orders": {"broker-a": {"readQueueNums": 12}}, "payments": {"broker-a": {}}, "returns": {"broker-a": {}},
            "coupons": {"broker-a": {}}, "archive": {"broker-z": {}},
        }  # fmt: skip
        content = json.dumps({"topics": topics}).encode()
        self.go(page, "definitions")
        page.get_by_label("File").set_input_files(
            {"name": "definitions.json", "mimeType": "application/json", "buffer": content}
        )
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("row").filter(has_text="archive").wait_for()
        self.take(page, "definitions")

    def take_alerts(self, page: Page) -> None:
        """Take the alerts that fire, and the rules."""
        self.go(page, "alerts")
        page.reload()
        page.locator("tbody tr").nth(6).wait_for()
        self.take(page, "alerts")
        self.switch(page, "dark")
        page.locator("tbody tr").nth(6).wait_for()
        self.take(page, "alerts-dark-zh")
        self.switch(page, "light")
        self.go(page, "alerts/rules")
        page.locator("tbody tr").nth(6).wait_for()
        self.take(page, "alerts-rules")
        self.go(page, "alerts/receivers")
        page.get_by_text("on-call").wait_for()
        self.take(page, "alerts-receivers")
