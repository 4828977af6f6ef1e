"""The pages in docs read well on a code host: examples stand in them as text, equal to the files that tests run."""

from __future__ import annotations

import os
import re
import textwrap

from twisted.trial.unittest import SynchronousTestCase

from tests.test_layers import ROOT
from tests.test_spec import read

_RST = re.compile(
    r"^\.\. The file docs/(examples/\w+\.py):\n\n\.\. code-block:: python\n\n((?:    .*\n|\n)+)", re.MULTILINE
)
_MARKDOWN = re.compile(r"^<!-- The file docs/(examples/\w+\.py): -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INCLUDED = re.compile(r"^\s*\.\. (literalinclude|include)::", re.MULTILINE)


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


class ExampleTests(SynchronousTestCase):
    def test_inline(self) -> None:
        """Each example stands on a page, word for word."""
        found = [one for page in documents() for one in shown(read(page))]
        for path, code in found:
            self.assertEqual(code, read(os.path.join("docs", path)), path)
        names = {name for name in os.listdir(os.path.join(ROOT, "docs", "examples")) if name.endswith(".py")}
        self.assertEqual({os.path.basename(path) for path, _ in found}, names)

    def test_nothing_included(self) -> None:
        """No page takes in another file: code hosts do not show what is taken in."""
        self.assertEqual([page for page in documents() if _INCLUDED.search(read(page))], [])

    def test_finds(self) -> None:
        """Examples are found in pages of both kinds."""
        text = ".. The file docs/examples/a.py:\n\n.. code-block:: python\n\n    a = 1\n\n    b = 2\n\nMore.\n"
        self.assertEqual(shown(text), [("examples/a.py", "a = 1\n\nb = 2\n")])
        text = "x\n\n<!-- The file docs/examples/b.py: -->\n```python\nb = 1\n```\n"
        self.assertEqual(shown(text), [("examples/b.py", "b = 1\n")])


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
