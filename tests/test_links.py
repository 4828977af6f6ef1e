"""C{docs/links.py}: the check of the links in the built documentation."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.test_layers import ROOT

LINKS = runpy.run_path(os.path.join(ROOT, "docs", "links.py"))
broken, check, main, malformed, read_page = (
    LINKS[name] for name in ("broken", "check", "main", "malformed", "read_page")
)


def sentences(files: dict[str, str]) -> list[str]:
    """Return what is broken in a site of these files."""
    pages = {name: read_page(text) for name, text in files.items() if name.endswith(".html")}
    return list(broken(pages, set(files)))


class InternalTests(SynchronousTestCase):
    """Links within the site."""

    def test_files(self) -> None:
        """Each link leads to a file, from wherever its page stands; a query does not count."""
        files = {
            "index.html": '<a href="spec/store.html">s</a> <img src="images/a.png?v=1"> <a href="gone.html">g</a>',
            "spec/store.html": '<a href="../index.html">i</a><script src="../_static/gone.js"></script><a href="">',
            "images/a.png": "",
        }
        self.assertEqual(
            sentences(files),
            [
                "index.html: gone.html leads to no file",
                "spec/store.html: ../_static/gone.js leads to no file",
            ],
        )

    def test_anchors(self) -> None:
        """An anchor is the id, or the name, of an element of the page that the link leads to."""
        files = {
            "a.html": '<p id="l13">x</p><a href="#l13">y</a><a href="b.html#d15">z</a><a href="#l14">w</a>',
            "b.html": '<a name="d15"></a><a href="a.html#l13">x</a><a href="a.html#d15">x</a><a href="a.html#l%313">',
        }
        self.assertEqual(
            sentences(files),
            [
                "a.html: #l14 leads to no element of a.html",
                "b.html: a.html#d15 leads to no element of a.html",
            ],
        )

    def test_outside(self) -> None:
        """A link above the root of the site leads to no file."""
        self.assertEqual(sentences({"a.html": '<a href="../b.html">b</a>'}), ["a.html: ../b.html leads to no file"])


class ExternalTests(SynchronousTestCase):
    """Links to other hosts, which are not fetched."""

    def test_wellformed(self) -> None:
        """What a browser could follow passes."""
        for url in (
            "https://twisted.org", "http://127.0.0.1:10913/api/v1", "http://localhost/", "https://a.example/b?c=d#e",
            "http://[::1]:80/",
        ):  # fmt: skip
            self.assertEqual(malformed(url), "", url)

    def test_malformed(self) -> None:
        """Slips of the pen are named."""
        for url, why in (
            ("https:/twisted.org", "has no valid host: ''"),
            ("https://twisted..org/", "has no valid host: 'twisted..org'"),
            ("https://twisted.org:8o/", "Port could not be cast"),
            ("htps://twisted.org", "has the scheme htps"),
            ("//twisted.org", "has the scheme of the page"),
            ("https://twisted.org/a b", "has characters"),
            ("https://twisted.org/<name>", "has characters"),
            ("http://[::1/", "Invalid IPv6 URL"),
            ("https://twisted.org/.", "ends with a mark of the sentence"),
        ):
            self.assertIn(why, malformed(url), url)

    def test_reported(self) -> None:
        """A malformed link is reported with its page; addresses of mail and data pass."""
        files = {
            "a.html": '<a href="htps://x.org/">x</a><a href="mailto:a@b.c">m</a><img src="data:image/png;base64,x">'
        }
        self.assertEqual(sentences(files), ["a.html: htps://x.org/ has the scheme htps, neither http nor https"])


class CommandTests(SynchronousTestCase):
    def site(self, text: str) -> Path:
        """Write a site of one page."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "index.html").write_text(text, "utf-8")
        return folder

    def test_check(self) -> None:
        """A folder is read as a site, with the number of its links."""
        self.assertEqual(check(self.site('<a href="#a">a</a><p id="a"><a href="index.html">b</a>')), (2, []))

    def test_status(self) -> None:
        """The status is 1 if a link is broken, or if there is none at all: then the folder is the wrong one."""
        for text, status in (('<a href="#a" id="a">a</a>', 0), ('<a href="#b">a</a>', 1), ("<p>", 1)):
            self.assertEqual(main([str(self.site(text))]), status, text)
