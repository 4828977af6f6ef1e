"""The pages in docs read well on a code host: examples stand in them as text, equal to the files that tests run."""

from __future__ import annotations

import os
import re
import textwrap
from unittest.mock import Mock

from twisted.trial.unittest import SynchronousTestCase

import smartgo
from smartgo import Admin
from tests.test_layers import ROOT
from tests.test_spec import read

_RST = re.compile(
    r"^\.\. The file docs/(examples/[\w/]+\.(?:py|java)):\n\n\.\. code-block:: (?:python|java)\n\n((?:    .*\n|\n)+)",
    re.MULTILINE,
)
_MARKDOWN = re.compile(
    r"^<!-- The file docs/(examples/[\w/]+\.(?:py|java)): -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_INCLUDED = re.compile(r"^\s*\.\. (literalinclude|include)::", re.MULTILINE)
_LINKED = re.compile(r"\]\((?!https?:)([^)#\s]+)")
"""Links of Markdown."""
_NAMED = re.compile(r"`((?:(?:docs|tests|benchmarks|requirements)/[\w./-]+\.\w+|(?:smartgo|plugins)/[\w/]+\.py))`")
"""Files that are named by their path from the root."""


def documents() -> list[str]:
    """Return the pages, as paths from the root."""
    found = ["README.md", "CONTRIBUTING.md"]
    for directory, _, names in os.walk(os.path.join(ROOT, "docs")):
        found += [
            os.path.relpath(os.path.join(directory, name), ROOT) for name in names if name.endswith((".rst", ".md"))
        ]
    return sorted(found)


def shown(text: str) -> list[tuple[str, str]]:
    """Return the examples that a page shows: the file's path below docs, and the text on the page."""
    inline = [(path, textwrap.dedent(code).strip() + "\n") for path, code in _RST.findall(text)]
    return inline + _MARKDOWN.findall(text)


class PageTests(SynchronousTestCase):
    def test_names(self) -> None:
        """No page has the name of one that Sphinx makes itself, and would write over."""
        taken = {"genindex.rst", "modindex.rst", "py-modindex.rst", "search.rst"}
        self.assertEqual(taken.intersection(os.listdir(os.path.join(ROOT, "docs"))), set())

    def test_listed(self) -> None:
        """The index lists each page of its tables of contents, that of the decisions each decision."""
        page = read(os.path.join("docs", "index.rst"))
        listed = set(re.findall(r":doc:`(?:[^`<]*<)?([\w/-]+)>?`", page))
        contents = set(re.findall(r"^   ([\w/-]+)$", page, re.MULTILINE))
        self.assertEqual(listed, contents - {"changelog"})
        decisions = {name.removesuffix(".rst") for name in os.listdir(os.path.join(ROOT, "docs", "decisions"))}
        listed = set(
            re.findall(r"^- :doc:`([\w-]+)`: \S", read(os.path.join("docs", "decisions", "index.rst")), re.MULTILINE)
        )
        self.assertEqual(listed, decisions - {"index"})


class ExampleTests(SynchronousTestCase):
    def test_inline(self) -> None:
        """Each example stands on a page, word for word."""
        found = [one for page in documents() for one in shown(read(page))]
        for path, code in found:
            self.assertEqual(code, read(os.path.join("docs", path)), path)
        names = {
            os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, "docs"))
            for folder, _, names in os.walk(os.path.join(ROOT, "docs", "examples"))
            for name in names
            if name.endswith((".py", ".java"))
        }
        self.assertEqual({path for path, _ in found}, names)

    def test_nothing_included(self) -> None:
        """No page takes in another file: code hosts do not show what is taken in."""
        self.assertEqual([page for page in documents() if _INCLUDED.search(read(page))], [])

    def test_finds(self) -> None:
        """Examples are found in pages of both kinds."""
        text = ".. The file docs/examples/a.py:\n\n.. code-block:: python\n\n    a = 1\n\n    b = 2\n\nMore.\n"
        self.assertEqual(shown(text), [("examples/a.py", "a = 1\n\nb = 2\n")])
        text = "x\n\n<!-- The file docs/examples/b.py: -->\n```python\nb = 1\n```\n"
        self.assertEqual(shown(text), [("examples/b.py", "b = 1\n")])


class LinkTests(SynchronousTestCase):
    def test_files(self) -> None:
        """Files of this project that the pages link or name are there."""
        found = 0
        for page in documents():
            text = read(page)
            folder = os.path.dirname(page) if page.endswith(".md") else ""
            names = [os.path.join(folder, name) for name in _LINKED.findall(text)] + _NAMED.findall(text)
            found += len(names)
            missing = [name for name in names if not os.path.exists(os.path.join(ROOT, name))]
            self.assertEqual(missing, [], page)
        self.assertGreater(found, 50)


class PublicTests(SynchronousTestCase):
    def test_all(self) -> None:
        """The page of the public API has each public name, in its table and with its docstring, and no other."""
        page = read(os.path.join("docs", "api.rst"))
        listed = re.findall(r"^``(\w+)``  ", page, re.MULTILINE)
        directive = "(?:auto(?:class|exception|data|function)|py:class)"  # an interface has no docstring for autoclass
        shown = re.findall(rf"^\.\. {directive}:: smartgo\.(\w+)$", page, re.MULTILINE)
        self.assertEqual(sorted(listed), list(smartgo.__all__))
        self.assertEqual(sorted(shown), list(smartgo.__all__))

    def test_parts(self) -> None:
        """The parts of C{Admin} are on the page, all of them."""
        page = read(os.path.join("docs", "api.rst"))
        shown = re.findall(r"^\.\. autoclass:: (smartgo\.client\.administration\.[\w.]+)$", page, re.MULTILINE)
        parts = {f"{type(part).__module__}.{type(part).__name__}" for part in vars(Admin(Mock())).values()}
        self.assertEqual(sorted(shown), sorted(parts - {"smartgo.client.administration.asking.Asking"}))


class FragmentTests(SynchronousTestCase):
    def test_named(self) -> None:
        """A news fragment is named by what changed and by its type, and holds sentences to a user."""
        folder = os.path.join("docs", "newsfragments")
        names = [name for name in os.listdir(os.path.join(ROOT, folder)) if not name.startswith(".")]
        self.assertGreater(len(names), 0)
        named = re.compile(r"\+[a-z][a-z0-9]*(-[a-z0-9]+)*\.(feature|bugfix|doc|removal|misc)\.rst")
        self.assertEqual([name for name in names if not named.fullmatch(name)], [])
        for name in names:
            text = read(os.path.join(folder, name)).strip()
            self.assertNotIn("\n\n", text, name)
            self.assertTrue(text.endswith("."), name)
