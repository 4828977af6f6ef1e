"""The report as a page: what it says, and that nothing in it comes alive."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.spark.report import Report, page
from smartgo.spark.reportcharts import plain, size_text, span_text, tags, timeline
from tests.spark.reportdata import BEGIN, HOSTILE, report

PLOTLY = "/* plotly */"


class Reader(HTMLParser):
    """
    The elements and texts that a browser finds in a page.

    @ivar tags: every element, as (name, attributes).
    @ivar scripts: the content of script elements; C{text} all other text.
    """

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._within = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """An element begins."""
        self.tags.append((tag, dict(attrs)))
        self._within = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        self._within = ""

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._within == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def read(given: Report) -> tuple[str, Reader]:
    """A report's page, and what is in it."""
    source = page(given, PLOTLY)
    return source, Reader(source)


class PageTests(SynchronousTestCase):
    def test_says(self) -> None:
        """Totals, every topic, group, key and damaged place are told, and every chart has its place."""
        given = report(hostile=False)
        _, found = read(given)
        total = given.tables["totals"][0]["messages"]
        for words in (
            f"{total:,}",
            "payments",
            "%RETRY%mailer",
            "mailer",
            "order-7",
            "body CRC is wrong",
            "1,073,745,920",
        ):
            self.assertIn(words, found.text)  # fmt: skip
        charts = json.loads(found.scripts[0])
        places = {attributes.get("id") for tag, attributes in found.tags if tag == "div"} - {None}
        self.assertEqual(set(charts), places)
        self.assertEqual(set(charts), {"time", "topics", "tags", "sizes", "lag", "steps"})

    def test_hostile(self) -> None:
        """Names from messages stay text, in the page, in attributes and in what the script reads."""
        source, found = read(report(hostile=True))
        harmless = Reader(page(report(hostile=False), PLOTLY))
        self.assertEqual({tag for tag, _ in found.tags}, {tag for tag, _ in harmless.tags})
        self.assertEqual(len(found.scripts), 3)
        self.assertIn(HOSTILE, found.text)
        self.assertEqual([name for _, attributes in found.tags for name in attributes if name.startswith("on")], [])
        self.assertNotIn("\u2028", found.scripts[0])
        drawn = json.dumps(json.loads(found.scripts[0]))
        self.assertFalse("<b on" in drawn or "</script" in drawn, "plotly would read a name as HTML")
        self.assertTrue("&lt;b onmouseover" in drawn, "the name is not there")
        self.assertEqual(source.count("</script>"), 3)

    def test_alone(self) -> None:
        """The page needs no other file, and forbids itself to load or send anything."""
        _, found = read(report())
        for tag, attributes in found.tags:
            self.assertNotIn(tag, ("link", "img", "iframe", "form", "base"))
            self.assertEqual([name for name in attributes if name in ("src", "href", "action")], [])
        (policy,) = [
            attributes["content"]
            for tag, attributes in found.tags
            if attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        self.assertIn("default-src 'none'", str(policy))

    def test_healthy(self) -> None:
        """Where nothing is damaged the page says so, and nothing is marked as bad."""
        given = report(damaged=False)
        given.tables["totals"][0]["dead"] = 0  # type: ignore[index]
        _, found = read(given)
        self.assertIn("Every record was read", found.text)
        self.assertEqual([one for _, one in found.tags if (one.get("class") or "") == "tile bad"], [])

    def test_empty(self) -> None:
        """A store without messages has a report, too."""
        totals = dict.fromkeys(("first_stored", "last_stored", "lag_p50", "lag_p99"))
        numbers = dict.fromkeys(("messages", "bytes", "body_bytes", "topics", "retries", "dead"), 0)
        tables: dict[str, list[Any]] = {name: [] for name in report().tables}
        tables["totals"] = [{**totals, **numbers}]
        _, found = read(Report(["/data/new"], BEGIN, 1, tables))
        self.assertIn("no messages", found.text)
        self.assertEqual(json.loads(found.scripts[0]), {})

    def test_many(self) -> None:
        """Of long tables the page lists the first two hundred rows, and says how many there are more."""
        given = report()
        rows = [{**given.tables["by_topic"][0], "topic": f"topic-{number}"} for number in range(1234)]
        _, found = read(given._replace(tables={**given.tables, "by_topic": rows}))
        self.assertIn("topic-199", found.text)
        self.assertNotIn("topic-200", found.text)
        self.assertIn("1,034 more", found.text)


class ChartTests(SynchronousTestCase):
    def test_others(self) -> None:
        """Beyond seven topics those with the fewest messages are drawn as one, and none is lost."""
        rows = [{"at": BEGIN, "topic": f"t{number}", "messages": 100 - number} for number in range(20)]
        data = timeline(rows, 60)["data"]
        self.assertEqual([trace["name"] for trace in data], [f"t{number}" for number in range(7)] + ["others"])
        self.assertEqual(sum(sum(trace["y"]) for trace in data), sum(row["messages"] for row in rows))
        self.assertEqual(len(timeline(rows[:8], 60)["data"]), 8)

    def test_tags(self) -> None:
        """Each topic's area is the sum of those of its tags."""
        rows: list[Any] = [{"topic": "a", "tag": None, "messages": 3}, {"topic": "b", "tag": "x", "messages": 2}]
        (trace,) = tags([*rows, {"topic": "a", "tag": "y", "messages": 1}])["data"]
        found = dict(zip(trace["ids"], trace["values"], strict=True))
        parents = dict(zip(trace["ids"], trace["parents"], strict=True))
        for top in [one for one, parent in parents.items() if not parent]:
            self.assertEqual(found[top], sum(found[one] for one, parent in parents.items() if parent == top))
        self.assertIn("no tag", trace["labels"])

    def test_texts(self) -> None:
        """Sizes, spans and names are written for people."""
        self.assertEqual([size_text(size) for size in (0, 1023, 1024, 1536, 5 << 30)],
                         ["0 B", "1,023 B", "1 KiB", "1.5 KiB", "5 GiB"])  # fmt: skip
        self.assertEqual([span_text(ms) for ms in (0, 999, 1500, 60_000, 5_400_000, 864_000_000)],
                         ["0 ms", "999 ms", "1.5 s", "1 min", "1.5 h", "10 d"])  # fmt: skip
        self.assertTrue(span_text(-5).endswith("5 ms"))
        self.assertNotEqual(span_text(-5), span_text(5))
        self.assertEqual(plain("<a>", 10), "&lt;a&gt;")
        self.assertEqual(len(plain("x" * 50, 10)), 10)
        self.assertIsNone(re.search("[<>]", plain(HOSTILE)))
