"""The console with 10,000 topics and 100 groups with offsets in 100 topics each, one of them in all topics."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.task import LoopingCall

from tests.ops.console.browser import ConsoleCase, in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOPICS: Final = 10_000
GROUPS: Final = 100
LIMIT: Final = 1.0  # seconds of a page, the best of three, on a machine that has nothing else to do
STALL: Final = 0.25  # seconds of its thread's time for which the reactor may be kept from everything else
REQUESTS: Final = 14  # of a page that is opened by its address, with nothing kept from before
SIZE: Final = 170_000  # bytes of all of them, as they are sent
TIMED: Final = os.environ.get("SMARTGO_TIMES") == "1"
"""Whether LIMIT and STALL are checked too: on an idle machine, and without coverage, which slows the broker down."""

PLACES: Final = (
    "overview",
    "cluster",
    "topics",
    "topics?from=5000",
    "topics?q=topic-09",
    "topics?sort=-name",
    "topics/service-topic-00042",
    "groups",
    "groups/group-042",
    "groups/group-000",
    "dlq",
    "transactions",
    "clients",
)
READY: Final = """() => {
    const page = document.querySelector('main .page');
    return page && page.querySelector('h1') && page.querySelector('.card')
        && !document.querySelector('main .skeleton, main .bone');
}"""
ASKED: Final = """() => {
    const first = new Map();
    for (const one of performance.getEntriesByType('resource')) {
        if (!first.has(one.name)) first.set(one.name, one.transferSize);
    }
    return [...first.values()];
}"""
"""Return the sizes of the requests; one that is repeated after ten seconds, as the machine is busy, counts once."""


def topic(name: str, perm: int = 6) -> dict[str, Any]:
    """Return a topic as brokers store it."""
    return {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": perm}


class ManyTests(ConsoleCase):
    """A large store."""

    async def prepare(self) -> None:
        """Write the broker's tables before it starts."""
        self.names = [f"service-topic-{number:05d}" for number in range(TOPICS)]
        self.groups = [f"group-{number:03d}" for number in range(GROUPS)]
        await super().prepare()

    async def start(self) -> None:
        """Write the tables, then start."""
        folder = os.path.join(self.folder, "store", "config")
        os.makedirs(folder, exist_ok=True)
        positions = {
            f"{self.names[(at * 100 + step) % TOPICS]}@{group}": {str(queue): 0 for queue in range(4)}
            for at, group in enumerate(self.groups)
            for step in range(TOPICS if at == 0 else 100)
        }
        version = {"timestamp": 1, "counter": 1}
        tables = {
            "topics.json": {"topicConfigTable": {name: topic(name) for name in self.names}, "dataVersion": version},
            "subscriptionGroup.json": {
                "subscriptionGroupTable": {group: {"groupName": group} for group in self.groups},
                "dataVersion": version,
            },
            "consumerOffset.json": {"offsetTable": positions},
        }
        for name, table in tables.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                json.dump(table, file)
        await super().start()
        self.longest = 0.0
        self.seen = time.thread_time()
        self.beats = LoopingCall(self.beat)
        self.beats.start(0.01, now=False)

    async def stop(self) -> None:
        """Stop measuring the reactor, too."""
        self.beats.stop()
        await super().stop()

    def beat(self) -> None:
        """Record the longest time for which the reactor was busy, in CPU time of its thread."""
        now = time.thread_time()
        self.longest = max(self.longest, now - self.seen)
        self.seen = now

    @in_browser()
    def test_pages(self, page: Page) -> None:
        """Each page is complete, within a second if that is checked, and lists show fifty rows."""
        took: dict[str, float] = {}
        for _ in range(3):
            for place in PLACES:
                self.go(page, "nowhere")
                page.get_by_text("Page not found").wait_for()
                begun = time.perf_counter()
                self.go(page, place)
                while not page.evaluate(READY):
                    page.wait_for_timeout(5)
                took[place] = min(took.get(place, 99.0), time.perf_counter() - begun)
        if TIMED:
            self.assertEqual({place: seconds for place, seconds in took.items() if seconds > LIMIT}, {})
            self.assertLess(self.longest, STALL)
        self.go(page, "topics?from=5000")
        page.get_by_text("5,001\N{EN DASH}5,050 of 10,000", exact=True).wait_for()
        self.assertEqual(page.locator("tbody tr").count(), 50)
        self.go(page, "topics?q=topic-09&sort=-name")
        page.get_by_text("1\N{EN DASH}50 of 1,000", exact=True).wait_for()
        page.get_by_role("link", name="service-topic-09999").wait_for()

    @in_browser()
    def test_cold(self, page: Page) -> None:
        """Opening the console by an address takes few requests and few bytes."""
        state = page.context.storage_state()
        for place in ("topics", "groups/group-000", "overview"):
            context = page.context.browser.new_context(storage_state=state)  # type: ignore[union-attr]  # it has one
            opened = context.new_page()
            opened.goto(f"{self.live.url}/#/{place}")
            self.until(opened, READY)
            asked = opened.evaluate(ASKED)
            context.close()
            self.assertLessEqual(len(asked), REQUESTS, place)
            self.assertLess(sum(asked), SIZE, place)
