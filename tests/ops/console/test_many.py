"""The console before 10,000 topics and 100 groups with positions in 100 topics each."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Final

from tests.ops.console.browser import ConsoleCase, in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOPICS: Final = 10_000
GROUPS: Final = 100
LIMIT: Final = 1.0  # seconds of a page, the best of three: the machine does other things too

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
    "dlq",
    "clients",
)
READY: Final = """() => {
    const page = document.querySelector('main .page');
    return page && page.querySelector('h1') && page.querySelector('.card')
        && !document.querySelector('main .skeleton, main .bone');
}"""


def topic(name: str, perm: int = 6) -> dict[str, Any]:
    """A topic as brokers keep it."""
    return {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": perm}


class ManyTests(ConsoleCase):
    """A store with much in it."""

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
            for step in range(100)
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

    @in_browser()
    def test_pages(self, page: Page) -> None:
        """Each page is there within a second, and lists show fifty rows of all."""
        took: dict[str, float] = {}
        for _ in range(3):
            for place in PLACES:
                self.go(page, "nowhere")
                page.get_by_text("There is no such page").wait_for()
                begun = time.perf_counter()
                self.go(page, place)
                while not page.evaluate(READY):
                    page.wait_for_timeout(5)
                took[place] = min(took.get(place, 99.0), time.perf_counter() - begun)
        self.assertEqual({place: seconds for place, seconds in took.items() if seconds > LIMIT}, {})
        self.go(page, "topics?from=5000")
        page.get_by_text("5,001\N{EN DASH}5,050 of 10,000", exact=True).wait_for()
        self.assertEqual(page.locator("tbody tr").count(), 50)
        self.go(page, "topics?q=topic-09&sort=-name")
        page.get_by_text("1\N{EN DASH}50 of 1,000", exact=True).wait_for()
        page.get_by_role("link", name="service-topic-09999").wait_for()
