"""C{docs/epytext.py}: the docstrings of the public API as Sphinx reads them."""

from __future__ import annotations

import os
import runpy

from twisted.trial.unittest import SynchronousTestCase

from tests.test_layers import ROOT

to_rst = runpy.run_path(os.path.join(ROOT, "docs", "epytext.py"))["to_rst"]

KNOWN = {"Client": "smartgo.Client", "smartgo.client.client.Client": "smartgo.Client", "send": "smartgo.Producer.send"}


def converted(text: str) -> str:
    """Return a docstring as reStructuredText."""
    return "\n".join(to_rst(text.split("\n"), KNOWN.get))


class MarkupTests(SynchronousTestCase):
    """Marks within sentences."""

    def test_code(self) -> None:
        """Code stays code, braces and marks of the other language in it included."""
        self.assertEqual(converted("Not C{None}, C{{1: {2: 3}}}, C{a*b_}."), "Not ``None``, ``{1: {2: 3}}``, ``a*b_``.")
        self.assertEqual(converted("A C{str}ing, C{TagA ||\nTagB}."), "A ``str``\\ ing, ``TagA || TagB``.")

    def test_emphasis(self) -> None:
        """Emphasis and addresses."""
        self.assertEqual(converted("I{most} B{bold} U{http://x}"), "*most* **bold** http://x")
        self.assertEqual(converted("U{a page <http://x>}"), "`a page <http://x>`__")

    def test_links(self) -> None:
        """What the site documents is linked by its public name; any other name is code."""
        self.assertEqual(converted("L{Client}, L{send}"), ":py:obj:`~smartgo.Client`, :py:obj:`~smartgo.Producer.send`")
        self.assertEqual(converted("L{smartgo.client.client.Client}"), ":py:obj:`~smartgo.Client`")
        self.assertEqual(converted("L{the client<Client>}"), ":py:obj:`the client <smartgo.Client>`")
        self.assertEqual(converted("L{smartgo.store.Log}, L{a log<Log>}"), "``Log``, ``a log``")

    def test_plain(self) -> None:
        """Plain text holds no marks by accident."""
        self.assertEqual(converted("*args, name_ or a_b, `x`, a|b"), "\\*args, name\\_ or a_b, \\`x\\`, a\\|b")

    def test_open_brace(self) -> None:
        """A brace that is not closed is an error, not half a page."""
        self.assertRaises(ValueError, converted, "C{None is not closed")


class BlockTests(SynchronousTestCase):
    """Paragraphs, fields, lists, code."""

    def test_fields(self) -> None:
        """Fields have Sphinx's names, begin behind an empty line, and keep the lines that continue them."""
        self.assertEqual(
            converted("Send.\n@param to: where C{x}\n    to.\n@return: it.\n@raise Client: no.\n@ivar a: b."),
            "Send.\n\n:param to: where ``x``\n    to.\n:returns: it.\n:raises ~smartgo.Client: no.\n:ivar a: b.",
        )
        self.assertRaises(ValueError, converted, "@parma to: where")

    def test_code_stays(self) -> None:
        """Literal blocks and examples are not touched; what follows them is."""
        text = "So::\n\n    a = b['C{x}']\n\n    @x: *c*\n\nThen C{y}."
        self.assertEqual(converted(text), text.replace("Then C{y}", "Then ``y``"))
        text = "So:\n\n    >>> a*b\n    'C{x}'\n\nThen C{y}."
        self.assertEqual(converted(text), text.replace("Then C{y}", "Then ``y``"))
        text = ">>> a*b\n1"
        self.assertEqual(converted(text), text)

    def test_lists(self) -> None:
        """A list begins behind an empty line, and its items stay together."""
        self.assertEqual(converted("These:\n- a C{b}\n- c\n  d\n- e"), "These:\n\n- a ``b``\n- c\n  d\n- e")
