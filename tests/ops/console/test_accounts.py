"""The console for accounts of access control."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smartgo.client.client import Client
from smartgo.client.producer import Producer
from smartgo.schema.signature import AccessKey
from tests.ops.console.browser import ConsoleCase, in_browser
from tests.ops.live import Live

if TYPE_CHECKING:
    from playwright.sync_api import Page

RULES = """
accounts:
- {accessKey: an-admin, secretKey: an-admin-secret, admin: true}
- accessKey: billing
  secretKey: billing-secret
  topicPerms: [Orders=SUB, Invoices=PUB|SUB]
  groupPerms: [billers=SUB]
"""


class AccountTests(ConsoleCase):
    """A node with access control and without any token."""

    async def start(self) -> None:
        """Start a node with rules, and make what the tests look at."""
        self.rules = os.path.join(self.folder, "plain_acl.yml")
        self.write(RULES)
        self.live = Live(self.folder, aclEnable="true", aclPath=self.folder, opsTokens="")
        await self.live.start()
        key = AccessKey("an-admin", "an-admin-secret")
        self.client = Client(self.live.env, f"127.0.0.1:{self.live.registry_port}", "test", access_key=key)
        self.producer = Producer(self.client, "producers")
        await self.producer.start()
        for topic in ("Orders", "Invoices", "Salaries"):
            await self.make_topic(topic, 1)
        await self.send("Orders", b"the body of an order", keys="order-1")

    def write(self, text: str) -> None:
        """Write the rules."""
        with open(self.rules, "w", encoding="utf-8") as file:
            file.write(text)

    def log_in_as(self, page: Page, key: str, secret: str, heading: str) -> None:
        """Log in with an account."""
        page.goto(self.live.url + "/")
        page.get_by_label("Access key").fill(key)
        page.get_by_label("Secret key").fill(secret)
        page.get_by_role("button", name="Log in", exact=True).click()
        page.get_by_role("heading", name=heading, exact=True).wait_for()

    @in_browser(login=False, errors=(401,))
    def test_login(self, page: Page) -> None:
        """Nothing is shown before the login; a wrong secret is refused, an administrator sees and may everything."""
        self.go(page, "topics")
        page.get_by_label("Access key").wait_for()
        self.assertEqual(page.get_by_text("Continue without logging in").count(), 0)
        page.get_by_label("Access key").fill("an-admin")
        page.get_by_label("Secret key").fill("a-wrong-secret")
        page.get_by_role("button", name="Log in", exact=True).click()
        page.get_by_text("access key and secret are not valid").wait_for()
        self.log_in_as(page, "an-admin", "an-admin-secret", "Overview")
        cookies = page.context.cookies()
        self.assertEqual([(one["httpOnly"], one["sameSite"]) for one in cookies], [(True, "Strict")])
        page.get_by_text("account an-admin").wait_for()
        self.go(page, "topics/Salaries")
        self.assertTrue(page.get_by_role("button", name="Delete").is_enabled())
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Access key").wait_for()
        page.get_by_role("button", name="Log in with a token or a login link").click()
        page.get_by_label("Token").wait_for()

    @in_browser(login=False, errors=(401, 403))
    def test_limited(self, page: Page) -> None:
        """An account sees its topics and groups; what it may not do is disabled, with the reason."""
        self.log_in_as(page, "billing", "billing-secret", "Topics")
        page.get_by_role("link", name="Invoices", exact=True).wait_for()
        page.get_by_role("link", name="Orders", exact=True).click()
        page.get_by_text("the body of an order").wait_for()
        lacking = "The account billing is no administrator without limits"
        for name, reason in (("Delete", lacking), ("Edit", lacking), ("Send message", "PUB is needed")):
            button = page.get_by_role("button", name=name, exact=True)
            button.wait_for()
            self.assertTrue(button.is_disabled(), name)
            found = "(one) => one.innerText === name && one.title.includes(reason)"
            buttons = "[...document.querySelectorAll('button')]"
            self.until(page, f"([name, reason]) => {buttons}.some({found})", [name, reason])
        page.locator("tbody a").first.click()  # the message, by its place
        page.get_by_text("the body of an order").wait_for()
        for place in ("overview", "cluster", "tokens", "audit", "dlq"):
            self.go(page, place)
            page.get_by_text(lacking).wait_for()
            self.go(page, "topics")
            page.get_by_role("heading", name="Topics", exact=True).wait_for()
        self.assertEqual(page.get_by_role("link", name="Cluster", exact=True).count(), 0)
        self.go(page, "topics/Salaries")
        page.get_by_text("No permission for topic Salaries").wait_for()

    @in_browser(login=False, errors=(401, 403))
    def test_send(self, page: Page) -> None:
        """An account sends where it may publish, and finds the message by its key; elsewhere the form says why not."""
        self.log_in_as(page, "billing", "billing-secret", "Topics")
        self.go(page, "send?topic=Orders")
        page.get_by_text("No permission for topic Orders: PUB is needed").wait_for()
        self.assertTrue(page.locator("form button[type=submit]").first.is_disabled())
        page.get_by_label("Topic", exact=True).fill("Invoices")
        page.get_by_label("Keys").fill("invoice-7")
        send = page.locator("form").first.get_by_role("button", name="Send", exact=True)
        self.until(page, "() => !document.querySelector('form button[type=submit]').disabled")
        send.click()
        page.get_by_text("SEND_OK").wait_for()
        self.go(page, "messages?topic=Invoices")
        page.get_by_role("textbox", name="Key", exact=True).fill("invoice-7")
        page.get_by_role("button", name="Search", exact=True).click()
        page.get_by_text('{"hello": "world"}').wait_for()

    @in_browser(login=False, errors=(401,))
    def test_account_removed(self, page: Page) -> None:
        """The session of an account that is removed from the file ends: the console asks for a login."""
        self.log_in_as(page, "billing", "billing-secret", "Topics")
        page.get_by_role("link", name="Orders", exact=True).wait_for()
        self.write(RULES.replace("accessKey: billing", "accessKey: former-one"))
        page.get_by_label("Access key").wait_for()  # the list of topics asks every 15 s
