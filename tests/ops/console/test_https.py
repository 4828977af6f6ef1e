"""The console over HTTPS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smartgo.client.client import Client
from smartgo.client.producer import Producer
from tests.ops.console.browser import ConsoleCase, in_browser
from tests.ops.live import Live
from tests.ops.test_service import certificates
from tests.remoting.certificates import Authority

if TYPE_CHECKING:
    from playwright.sync_api import Page


class HttpsTests(ConsoleCase):
    """A node with a certificate."""

    async def start(self) -> None:
        """Start a node with a certificate authority that the browser does not know."""
        self.live = Live(self.folder, **certificates(self.folder, Authority()))
        await self.live.start()
        self.client = Client(self.live.env, f"127.0.0.1:{self.live.registry_port}", "test")
        self.producer = Producer(self.client, "producers")
        await self.producer.start()

    @in_browser(ignore_https_errors=True)
    def test_console(self, page: Page) -> None:
        """A browser shows the console, logs in, and follows it from page to page."""
        self.assertTrue(page.url.startswith("https://"), page.url)
        self.do(self.make_topic, "Orders")
        self.go(page, "topics")
        page.get_by_role("link", name="Orders", exact=True).wait_for()
