"""The page of transactions, in a real browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendRequestV2
from smartgo.schema.properties import encode
from tests.broker.halves import OLD_MS
from tests.ops.console.browser import ConsoleCase, in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page


class TransactionPageTests(ConsoleCase):
    """What is undecided, and what was given up."""

    settings: ClassVar[Mapping[str, str]] = {"transactionCheckInterval": "500", "transactionTimeOut": "3600000"}

    async def half(self, unique: str, age_ms: int = 0) -> None:
        """Send a half message as a producer that is not connected does."""
        properties = {"UNIQ_KEY": unique, "TRAN_MSG": "true", "PGROUP": "orders-producer"}
        header = SendRequestV2(
            producer_group="orders-producer",
            topic="Orders",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=4,
            born_timestamp=self.live.env.clock.wall_ms() - age_ms,
            flag=0,
            properties=encode(properties).decode(),
        )
        broker: Any = self.live.node._broker
        address = broker.opened.identity.address
        answer = await self.client.ask(address, Command.request(RequestCode.SEND_MESSAGE_V2, header, b"half"))
        self.assertEqual((answer.code, answer.remark), (0, None))

    @in_browser()
    def test_pending(self, page: Page) -> None:
        """Undecided ones are listed with their group and topic, and warn where no producer can be asked."""
        self.go(page, "transactions")
        page.get_by_text("No transaction is undecided").wait_for()
        self.do(self.make_topic, "Orders")
        self.do(lambda: self.half("TX1"))
        self.go(page, "transactions?state=pending")
        row = page.locator("tbody tr", has_text="TX1")
        for text in ("orders-producer", "Orders", "Undecided", "0 / 15"):
            row.get_by_text(text, exact=True).wait_for()
        row.get_by_title("No producer of the group is connected: nobody can be asked.").wait_for()

    @in_browser()
    def test_resume(self, page: Page) -> None:
        """One that was given up is checked again by its button."""
        self.do(self.make_topic, "Orders")
        self.do(lambda: self.half("TX2", OLD_MS))
        self.go(page, "transactions")
        page.get_by_text("No transaction is undecided").wait_for()
        page.get_by_role("combobox", name="State").select_option("givenUp")
        row = page.locator("tbody tr", has_text="TX2")
        row.get_by_role("button", name="Resume").click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        page.get_by_text("The transaction is checked again").wait_for()
        page.get_by_role("button", name="中文").click()
        page.get_by_role("heading", name="事务", level=1).wait_for()
