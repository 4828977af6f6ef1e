"""The console's files: their paths, that none comes from another host, and that the language tables match."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.console.files import collected, console_pages
from smartgo.ops.reading.explaintexts import TEXTS
from tests.ops.front import Front

_LITERAL: Final = re.compile(r"""\b(tn?)\(\s*"([\w.-]+)\"""")
_IMPORT: Final = re.compile(r"""\b(?:from\s*|import\s*\(?)"([^"\n]+)"\s*[;)]""")
_FILLED: Final = re.compile(r"\{(\w+)\}")


def own() -> dict[str, str]:
    """Return the files of C{static} by path, as they are in the source tree."""
    root = files("smartgo.ops") / "console" / "static"
    return {path: content.decode() for path, (content, _) in collected(root, "static")}


def table(language: str) -> dict[str, str]:
    """Return the texts of a language."""
    found: dict[str, str] = json.loads(own()[f"static/i18n/{language}.json"])
    return found


class FilesTests(SynchronousTestCase):
    """The served files."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)

    def test_index(self) -> None:
        """The page is never cached, and refers to files that are cached for good."""
        answer = self.front.ask("GET", "//")
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertEqual(answer.headers["cache-control"], "no-cache")
        named = re.findall(r'(?:src|href)="([^"]+)"', answer.content.decode())
        self.assertLess(len(named), 8)  # each takes its time, and all of it before anything is seen
        pages = console_pages()
        self.assertEqual([path for path in named if path not in pages and path != "/docs"], [])
        for path in named[:4]:
            found = self.front.ask("GET", f"/{path}")
            self.assertEqual(found.status, 200, path)
            self.assertEqual(found.headers["cache-control"], "public, max-age=31536000, immutable", path)

    def test_types(self) -> None:
        """Modules have a type that browsers run, and every file has the security policy of the site."""
        by_type = {path.rpartition(".")[2]: (path, page) for path, page in console_pages().items()}
        self.assertGreaterEqual(len(by_type), 7)
        for path, page in by_type.values():
            answer = self.front.ask("GET", f"/{path}")
            self.assertEqual((answer.status, answer.headers["content-type"]), (200, page.content_type), path)
            self.assertIn("default-src 'self'", answer.headers["content-security-policy"])
            if path.endswith(("js", "mjs")):
                self.assertEqual(page.content_type, "text/javascript; charset=utf-8")

    def test_etag(self) -> None:
        """A request for an unchanged page is answered with 304."""
        tag = self.front.ask("GET", "//").headers["etag"]
        self.assertEqual(self.front.ask("GET", "//", headers={"If-None-Match": tag}).status, 304)

    def test_nothing_inline(self) -> None:
        """The page has no inline script and no inline style: the policy allows none."""
        page = console_pages()["/"].content.decode()
        self.assertNotRegex(page, r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:")

    def test_modules_are_there(self) -> None:
        """Every imported module is served, or was joined, by a relative path: none is from another host."""
        pages = {path.split("/", 3)[3]: page for path, page in console_pages().items() if path.startswith("/assets/")}
        for path, page in pages.items():
            if not path.endswith((".js", ".mjs")):
                continue
            for name in _IMPORT.findall(page.content.decode()):
                parts = path.split("/")[:-1]
                for step in name.split("/"):
                    if step == "..":
                        parts.pop()
                    elif step != ".":
                        parts.append(step)
                self.assertTrue(name.startswith("."), f"{path} imports {name}")
                self.assertIn("/".join(parts), pages, f"{path} imports {name}")

    def test_no_markup_from_data(self) -> None:
        """No module of the console creates markup from text, or runs text."""
        for path, text in own().items():
            if path.endswith(".js"):
                unwanted = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerously|\beval\(|new Function"
                self.assertNotRegex(text, unwanted, path)


class LanguageTests(SynchronousTestCase):
    """The language tables."""

    def test_equal_keys(self) -> None:
        """All languages have the same keys, none of them empty."""
        english, chinese = table("en"), table("zh")
        self.assertEqual(sorted(english), sorted(chinese))
        self.assertEqual([key for key in english if not english[key].strip() or not chinese[key].strip()], [])

    def test_equal_blanks(self) -> None:
        """A text has the same placeholders in every language."""
        english, chinese = table("en"), table("zh")
        for key in english:
            self.assertEqual(sorted(_FILLED.findall(english[key])), sorted(_FILLED.findall(chinese[key])), key)

    def test_used_keys(self) -> None:
        """Every key that a module names is in the tables."""
        english = table("en")
        for path, text in own().items():
            if not path.endswith(".js"):
                continue
            for function, key in _LITERAL.findall(text):
                for one in (f"{key}.one", f"{key}.other") if function == "tn" else (key,):
                    self.assertIn(one, english, path)

    def test_said(self) -> None:
        """The texts of the server's delivery checks are in the tables, in English word by word."""
        said = {key.removeprefix("said."): text for key, text in table("en").items() if key.startswith("said.")}
        self.assertEqual(said, TEXTS)

    def test_translated(self) -> None:
        """Chinese texts are Chinese, except names that are the same in every language."""
        same = [key for key, text in table("zh").items() if not re.search("[一-鿿]", text)]
        self.assertLess(len(same), 20, same)
