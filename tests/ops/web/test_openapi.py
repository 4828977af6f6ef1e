"""The OpenAPI document."""

from __future__ import annotations

import re

from smartgo.ops.web.openapi import codes_of
from smartgo.ops.web.routes import routes_of
from tests.ops.web.case import FrontCase


class DocumentTests(FrontCase):
    """The OpenAPI document."""

    def test_document(self) -> None:
        """It is OpenAPI 3.1, with every route, and every reference in it points at something."""
        document = self.front.ask("GET", "//openapi.json").json
        self.assertEqual(document["openapi"], "3.1.0")
        operations = {(path, method) for path, methods in document["paths"].items() for method in methods}
        self.assertIn(("/api/v1/topics/{name}", "delete"), operations)
        self.assertEqual(len(operations), len(self.front.ops.api.routes))
        text = self.front.ask("GET", "//openapi.json").content.decode()
        for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
            self.assertIn(reference, document["components"]["schemas"])

    def test_named(self) -> None:
        """What descriptions of operations name, such as a job's rows or the lines of an export, is described too."""
        document = self.front.ask("GET", "//openapi.json").json
        operations = [one for methods in document["paths"].values() for one in methods.values()]
        said = " ".join(one["summary"] + one.get("description", "") for one in operations)
        named = set(re.findall("`([A-Z][a-z]+[A-Za-z]*)`", said))
        self.assertLessEqual({"FoundLine", "Item", "DefinitionsResult", "SearchResult"}, named)
        self.assertEqual(named - set(document["components"]["schemas"]), set())

    def test_members(self) -> None:
        """Members of answers are explained beside them, in plain words."""
        document = self.front.ask("GET", "//openapi.json").json
        members = document["components"]["schemas"]["BrokerRow"]["properties"]
        self.assertEqual(members["id"]["description"], "0 the master, others its slaves.")
        self.assertEqual(members["bootMs"]["description"].split(";")[0], "when it started")
        text = self.front.ask("GET", "//openapi.json").content.decode()
        self.assertNotIn("C{", text)
        self.assertNotIn("@ivar", text)

    def test_unique(self) -> None:
        """No two operations share an id, and none lacks a summary."""
        document = self.front.ask("GET", "//openapi.json").json
        operations = [one for methods in document["paths"].values() for one in methods.values()]
        ids = [one["operationId"] for one in operations]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual([one["operationId"] for one in operations if not one["summary"]], [])

    def test_codes(self) -> None:
        """Codes that a route can answer stand there, each with a problem body; a GET that asks no broker has no 502."""
        (declared, _), *_ = routes_of(self.slow)
        self.assertNotIn(502, codes_of(declared))
        document = self.front.ask("GET", "//openapi.json").json
        answers = document["paths"]["/api/v1/topics/{name}"]["put"]["responses"]
        self.assertLessEqual({"200", "400", "401", "403", "404", "409", "413", "415", "429", "503"}, set(answers))
        self.assertIn("application/problem+json", answers["404"]["content"])

    def test_page(self) -> None:
        """Its page names every route, has all it loads, and loads nothing from elsewhere."""
        page = self.front.ask("GET", "//docs").content.decode()
        loaded = re.findall(r'<link [^>]*href="([^"]+)"', page)
        self.assertEqual({self.front.ask("GET", f"/{one}").status for one in loaded}, {200})
        self.assertEqual(len(loaded), 2)
        for one in self.front.ops.api.routes:
            self.assertIn(f"<code>/api/v1{one.path}</code>", page)
        self.assertNotIn("http://", page)
        self.assertNotIn("https://", page)
        self.assertNotIn("<script", page)
