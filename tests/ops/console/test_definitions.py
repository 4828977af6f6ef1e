"""Definitions in the console: export, preview, import."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.ops.console.browser import ConsoleCase, in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page


class DefinitionsTests(ConsoleCase):
    """The definitions page."""

    def choose(self, page: Page, content: Any, name: str = "definitions.json") -> None:
        """Choose a file in the form."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        page.get_by_label("File").set_input_files({"name": name, "mimeType": "application/json", "buffer": data})

    @in_browser()
    def test_definitions(self, page: Page) -> None:
        """Definitions are exported to a file, and imported after a preview of each item."""
        self.do(self.make_topic, "Orders", 3)
        self.press(page, "gi", page.get_by_role("heading", name="Definitions", level=1))
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        with open(download.value.path(), encoding="utf-8") as file:
            definitions = json.load(file)
        self.assertEqual(list(definitions["topics"]), ["Orders"])
        definitions["topics"]["Orders"]["broker-a"]["readQueueNums"] = 5
        definitions["topics"]["New"] = {"broker-a": {}}
        definitions["topics"]["Far"] = {"broker-z": {}}
        self.choose(page, definitions)
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("row").filter(has_text="New").get_by_text("to create").wait_for()
        page.get_by_role("row").filter(has_text="Orders").get_by_text("readQueueNums: 3 → 5").wait_for()
        page.get_by_role("row").filter(has_text="Far").get_by_text("no broker broker-z").wait_for()
        bring = page.get_by_role("button", name="Import 2 settings")
        self.assertTrue(bring.is_disabled())
        self.assertNotIn("New", self.do(self.ops.admin.topics.names))
        page.get_by_label("Skip refused items").check()
        bring.click()
        page.get_by_role("dialog").get_by_text("2 settings will be written to the cluster.").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Import").click()
        page.get_by_role("heading", name="Import results").wait_for()
        page.get_by_role("row").filter(has_text="New").get_by_text("created").wait_for()
        page.get_by_role("row").filter(has_text="Orders").get_by_text("changed").wait_for()
        self.assertIn("New", self.do(self.ops.admin.topics.names))

    @in_browser(errors=(400,))
    def test_bad_file(self, page: Page) -> None:
        """A file that is not JSON is refused at once; an error in a file is shown with the name of the item."""
        self.go(page, "definitions")
        self.choose(page, b"topics: {}", "d.yaml")
        page.get_by_text("d.yaml is not valid JSON").wait_for()
        self.assertTrue(page.get_by_role("button", name="Preview").is_disabled())
        self.choose(page, {"topics": {"T": {"broker-a": {"readQueueNums": "many"}}}})
        page.get_by_role("button", name="Preview").click()
        page.get_by_text("topic T at broker-a: Expected").wait_for()
