"""The alerts page: firing alerts, the badge, silences, rules, history."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase

from smartgo.health.snapshot import ClusterSnapshot, GroupSnapshot
from smartgo.ops.alerts.rules import RULES
from smartgo.ops.alerts.table import RuleAdjustment
from smartgo.ops.figures.sampler import BrokerFigures
from tests.ops.console.browser import ConsoleCase, in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page


class AlertWordsTests(SynchronousTestCase):
    """The rules as the console knows them."""

    def test_rules(self) -> None:
        """Every rule of the server, and no other, has texts in every language."""
        folder = files("smartgo.ops") / "console" / "static"
        for language in ("en", "zh"):
            table = json.loads((folder / "i18n" / f"{language}.json").read_text())
            named = [key for key in table if key.startswith("alert.")]
            wanted = [f"alert.{name}{end}" for name in RULES for end in ("", ".about")]
            self.assertEqual(sorted(named), sorted(wanted), language)
        text = (folder / "pages" / "alertrules.js").read_text().partition("];")[0]
        self.assertEqual(re.findall(r'^  "([a-z-]+)",$', text, re.MULTILINE), list(RULES))


class AlertsPageTests(ConsoleCase):
    """Alerts."""

    async def fire(self, *names: str) -> None:
        """Report invented brokers as down."""
        watch = self.ops.alerts
        watch.table.adjust("broker-down", RuleAdjustment(seconds=0))
        watch.table.adjust("broker-gone", RuleAdjustment(enabled=False))
        self.patch(watch, "look", lambda rows: None)
        self.patch(self.ops.sampler, "_looked", lambda rows: None)
        type(watch).look(watch, [BrokerFigures("c", name, 0, f"{name}:1", False) for name in names])

    @in_browser()
    def test_badge(self, page: Page) -> None:
        """The badge appears while the page is open, and disappears when no alert fires."""
        self.assertEqual(page.locator("[data-test=alarm]").count(), 0)
        self.do(self.fire, "broker-x", "broker-y")
        page.locator("[data-test=alarm]").get_by_text("2", exact=True).wait_for()
        self.do(self.fire)
        page.locator("[data-test=alarm]").wait_for(state="detached")

    async def fire_groups(self) -> None:
        """Report a group without members that is late, too."""
        await self.fire("broker-x")
        table = self.ops.alerts.table
        look = ClusterSnapshot(groups={"billing-of-the-eastern-region": GroupSnapshot(48_211, 7_384.0, 0.0, 0, True)})
        now = self.live.env.clock.wall_ms()
        for seconds in (-3600.0, 0.0):
            table.observe(look, now + round(seconds * 1000), 10_000.0 + seconds)

    @in_browser(viewport={"width": 1340, "height": 900})
    def test_caused(self, page: Page) -> None:
        """An alert that follows from another says so, and leaves room for the buttons."""
        self.do(self.fire_groups)
        self.go(page, "alerts")
        page.get_by_text("follows from: Group has lag but no members").wait_for()
        wide = page.locator(".table-scroll").first.evaluate("(one) => [one.scrollWidth, one.clientWidth]")
        self.assertLessEqual(wide[0], wide[1])

    @in_browser()
    def test_names(self, page: Page) -> None:
        """A rule has its key beside its title, and the search of alerts finds both."""
        self.do(self.fire, "broker-x")
        for tab in ("alerts", "alerts/history"):
            for text, found in (("does NOT answer", 1), ("broker-down", 1), ("disk is nearly", 0)):
                self.go(page, f"{tab}?q={quote(text)}")
                row = page.get_by_role("row").filter(has_text="broker-x")
                if found:
                    row.get_by_text("Broker does not answer").wait_for()
                    row.get_by_text("broker-down", exact=True).wait_for()
                else:
                    page.get_by_role("button", name="Show all").wait_for()
                    self.assertEqual(row.count(), 0)
        self.go(page, "alerts/rules")
        page.get_by_role("row").filter(has_text="Disk is nearly full").get_by_text("disk-full", exact=True).wait_for()

    @in_browser()
    def test_silence(self, page: Page) -> None:
        """A silenced alert stays listed but is not counted; ending the silence restores it."""
        self.press(page, "ge", page.get_by_text("No alerts"))
        self.do(self.fire, "broker-x")
        row = page.get_by_role("row").filter(has_text="broker-x")
        row.get_by_text("critical").wait_for()
        row.get_by_role("button", name="Silence").click()
        dialog = page.get_by_role("dialog", name="Silence alerts")
        self.assertEqual(dialog.get_by_label("Subject").input_value(), "broker-x")
        dialog.get_by_label("Comment").fill("being moved")
        dialog.get_by_role("button", name="Silence").click()
        row.get_by_text("silenced by").wait_for()
        page.locator("[data-test=alarm]").wait_for(state="detached")
        self.go(page, "alerts/silences")
        page.get_by_text("being moved").wait_for()
        page.get_by_role("button", name="End silence").click()
        page.get_by_text("No silences").wait_for()
        page.locator("[data-test=alarm]").get_by_text("1", exact=True).wait_for()

    @in_browser()
    def test_silence_everything(self, page: Page) -> None:
        """Silencing all alerts on all subjects needs a separate check box."""
        self.do(self.fire, "broker-x", "broker-y")
        self.go(page, "alerts/silences")
        page.get_by_role("button", name="New silence").click()
        dialog = page.get_by_role("dialog", name="Silence alerts")
        button = dialog.get_by_role("button", name="Silence", exact=True)
        self.assertTrue(button.is_disabled())
        dialog.get_by_label("Subject", exact=True).fill("broker-x")
        self.assertTrue(button.is_enabled())
        dialog.get_by_label("Subject", exact=True).fill("")
        dialog.get_by_label("Silence all alerts").check()
        button.click()
        page.get_by_role("row").filter(has_text="any alert").get_by_text("all", exact=True).wait_for()
        page.locator("[data-test=alarm]").wait_for(state="detached")

    @in_browser()
    def test_rules(self, page: Page) -> None:
        """A rule's threshold is edited in the unit that people use, and can be restored to the default."""
        self.go(page, "alerts/rules")
        page.get_by_role("button", name="Change Disk is nearly full").click()
        dialog = page.get_by_role("dialog", name="Disk is nearly full")
        self.assertEqual(dialog.get_by_label("Threshold").input_value(), "85")
        dialog.get_by_label("Threshold").fill("70")
        dialog.get_by_role("button", name="Save").click()
        row = page.get_by_role("row").filter(has_text="Disk is nearly full")
        row.get_by_text("> 70%").wait_for()
        self.assertEqual(self.ops.alerts.table.rule("disk-full").threshold, 0.7)
        row.get_by_role("button").click()
        page.get_by_role("button", name="Restore defaults").click()
        row.get_by_text("> 85%").wait_for()

    @in_browser()
    def test_history(self, page: Page) -> None:
        """Resolved alerts are listed with their duration."""
        self.do(self.fire, "broker-x")
        self.do(self.fire)
        self.go(page, "alerts/history")
        self.listed(page, 1, 1, 1)
        page.get_by_role("row").filter(has_text="broker-x").get_by_text("Broker does not answer").wait_for()


class ReceiverPageTests(ConsoleCase):
    """The receivers of alert notices."""

    settings: ClassVar = {"alertReceivers": "team slack url=http://127.0.0.1:1/hook"}

    @in_browser()
    def test_receivers(self, page: Page) -> None:
        """A receiver is listed with the state of delivery; a test message shows why it was not taken."""
        self.go(page, "alerts/receivers")
        row = page.get_by_role("row").filter(has_text="team")
        row.get_by_text("not used yet").wait_for()
        row.get_by_role("button", name="Send a test").click()
        dialog = page.get_by_role("dialog", name="Send a test")
        dialog.get_by_text("team did not take the test message.").wait_for()
        dialog.get_by_text("refused").wait_for()
        dialog.get_by_text("Close", exact=True).click()
        self.assertNotIn("hook", page.inner_text("body"))
