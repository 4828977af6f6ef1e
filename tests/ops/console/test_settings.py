"""The settings page: changes with a preview, kept changes, history and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ops.console.browser import ConsoleCase, in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page


class SettingsPageTests(ConsoleCase):
    """Settings."""

    @in_browser(errors=(400,))
    def test_change(self, page: Page) -> None:
        """A setting is changed after a preview; the server refuses a wrong value with a reason."""
        self.go(page, "config?changeable=yes")
        page.get_by_role("button", name="Change brokerPermission").click()
        dialog = page.get_by_role("dialog", name="brokerPermission")
        dialog.get_by_label("Value").fill("9")
        dialog.get_by_role("button", name="Preview").click()
        dialog.get_by_text("it must be a whole number from 0 to 7").wait_for()
        dialog.get_by_label("Value").fill("4")
        dialog.get_by_role("button", name="Preview").click()
        dialog.get_by_text("Changes to be made").wait_for()
        self.assertEqual(self.permission(), 6)
        dialog.get_by_role("button", name="Apply now").click()
        page.get_by_text("brokerPermission is now 4").wait_for()
        self.assertEqual(self.permission(), 4)
        row = page.get_by_role("row").filter(has_text="brokerPermission")
        row.get_by_text("runtime change, kept").wait_for()

    @in_browser()
    def test_history(self, page: Page) -> None:
        """Changes are listed, also for one setting, and undone after a preview that names the effect on restarts."""
        self.do(self.change, "brokerPermission", "4", True)
        self.do(self.change, "autoCreateTopicEnable", "false", False)
        self.go(page, "config/history")
        page.get_by_text("until restart").wait_for()
        page.get_by_role("button", name="Undo change 1 of brokerPermission").click()
        dialog = page.get_by_role("dialog", name="Undo")
        dialog.get_by_text("and keeps it after a restart").wait_for()
        dialog.get_by_role("button", name="Undo").click()
        page.get_by_text("brokerPermission is now 6").wait_for()
        page.get_by_text("undone by change 3").wait_for()
        self.assertEqual(self.permission(), 6)
        self.go(page, "config?changeable=yes")
        page.get_by_role("button", name="Change history of brokerPermission").click()
        self.listed(page, 1, 2, 2)

    @in_browser(login=False, errors=(401, 403))
    def test_reader(self, page: Page) -> None:
        """A user without the scope admin sees the required scope, and nothing of the page."""
        secret = self.do(self.make_reader)
        page.goto(self.live.url + "/")
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Log in", exact=True).click()
        page.get_by_role("heading", name="Overview").wait_for()
        self.assertEqual(page.get_by_role("link", name="Settings").count(), 0)
        self.go(page, "config/history")
        page.get_by_text("This page requires the scope admin").wait_for()

    def permission(self) -> int:
        """Return the value in effect."""
        found: int = self.live.node._broker.settings.configuration.broker.broker_permission
        return found

    async def change(self, name: str, value: str, keep: bool) -> None:
        """Change a setting without the page."""
        from smartgo.broker.settings.changes import Who

        await self.live.node._broker.settings.change([(name, value)], Who("somebody", "127.0.0.1"), keep)

    async def make_reader(self) -> str:
        """Create a token with the scope read; return it."""
        secret: str = self.ops.tokens.create("eyes", ["read"])[1]
        return secret
