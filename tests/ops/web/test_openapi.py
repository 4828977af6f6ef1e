"""The OpenAPI document."""

from __future__ import annotations

import json
import os
import re
from typing import Final

from smartgo.ops.resources.debug import DebugApi
from smartgo.ops.web.openapi import codes_of, document
from smartgo.ops.web.routes import routes_of
from tests.ops.web.case import FrontCase
from tests.test_layers import ROOT

NAMES: Final = os.path.join(ROOT, "tests", "golden", "openapi", "names.json")
"""See C{tests/golden/openapi/README.md}."""


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

    def test_names_stay(self) -> None:
        """Names that clients have generated code from are all there: schemas, their members, operations, parameters."""
        with open(NAMES, encoding="utf-8") as file:
            names = json.load(file)
        document = self.front.ask("GET", "//openapi.json").json
        schemas = document["components"]["schemas"]
        self.assertGreater(len(names["schemas"]), 120)
        self.assertEqual(set(names["schemas"]) - set(schemas), set())
        for name, members in names["schemas"].items():
            self.assertLessEqual(set(members), set(schemas[name].get("properties", ())), name)
        for operation, named in names["operations"].items():
            method, path = operation.split(" ")
            found = document["paths"][path][method.lower()]
            self.assertEqual(found["operationId"], named["id"])
            self.assertLessEqual(set(named["parameters"]), {one["name"] for one in found.get("parameters", ())})

    def test_published_name(self) -> None:
        """A schema whose class was renamed has the published name alone: as a key, as a title, and where it is used."""
        described = document([one for one, _ in routes_of(DebugApi())])
        self.assertEqual(described["components"]["schemas"]["Memory"]["title"], "Memory")
        answer = described["paths"]["/api/v1/debug/memory"]["get"]["responses"]["200"]["content"]["application/json"]
        self.assertEqual(answer["schema"], {"$ref": "#/components/schemas/Memory"})
        self.assertNotIn("ProcessMemory", str(described))
        text = self.front.ask("GET", "//openapi.json").content.decode()
        for name in ("SettingChanges", "SentMessage"):
            self.assertNotIn(name, text)

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
