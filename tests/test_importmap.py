"""L{tests.importmap}: how packages import each other, as a table, as counts and as a drawing."""

from __future__ import annotations

from xml.etree import ElementTree

from twisted.trial.unittest import SynchronousTestCase

from tests import importmap
from tests.test_layers import ROOT

TEXTS = {
    "smartgo": "",
    "smartgo.low": "x = 1\n" * 401,
    "smartgo.mid": "",
    "smartgo.mid.a": "from smartgo.low import x\nfrom smartgo.mid import b",
    "smartgo.mid.b": "def f():\n    from smartgo import low",
    "smartgo.top": "",
    "smartgo.top.c": "from smartgo.mid.a import y\nclass A: pass",
    "smartgo.top.sub": "",
    "smartgo.top.sub.d": "import smartgo.low\nclass A: pass",
}


class MapTests(SynchronousTestCase):
    """A tree of three packages."""

    def setUp(self) -> None:
        self.found = importmap.ImportMap.of(TEXTS)

    def test_imports(self) -> None:
        """Imports between packages are counted, lazy ones too; those within a package are not."""
        self.assertEqual(self.found.imports, {("mid", "low"): 2, ("top", "mid"): 1, ("top", "low"): 1})

    def test_layers(self) -> None:
        """Each package stands above everything that it imports; a circle of packages has layers as well."""
        self.assertEqual(self.found.layers(), {"smartgo": 0, "low": 0, "mid": 1, "top": 2})
        both = {"smartgo.a.x": "import smartgo.b.y", "smartgo.b.y": "import smartgo.a.x"}
        self.assertEqual(importmap.ImportMap.of(both).layers(), {"a": 1, "b": 1})

    def test_matrix(self) -> None:
        """The table has a row and a column for each package, lower packages first."""
        rows = [line.split() for line in importmap.matrix(self.found)]
        self.assertEqual(rows[0], ["modules", "lines", "low", "smar", "mid", "top"])
        self.assertEqual(rows[1], ["low", "1", "401", "-", ".", ".", "."])
        self.assertEqual(rows[4], ["top", "4", "4", "1", ".", "1", "-"])

    def test_counts(self) -> None:
        """The counts are those of the structure tests."""
        found = list(importmap.counts(TEXTS))
        self.assertIn("modules: 9, lines: 409", found)
        self.assertIn("modules above 400 lines: 1, without a reason: 1", found)
        self.assertIn("class names in two modules of smartgo or more: 1", found)
        self.assertIn("import circles: 0, modules in them: 0", found)

    def test_drawing(self) -> None:
        """Each module is a square with its name, and long ones have another colour."""
        drawn = ElementTree.fromstring(importmap.drawing(self.found))
        squares = [one for one in drawn.iter() if one.find("{http://www.w3.org/2000/svg}title") is not None]
        self.assertEqual({one[0].text for one in squares}, set(TEXTS))
        self.assertEqual([one[0].text for one in squares if one.get("fill") == "#b4321e"], ["smartgo.low"])


class TreeTests(SynchronousTestCase):
    def test_read(self) -> None:
        """A tree is read from its root, wherever that is."""
        found = importmap.read(ROOT, "smartgo")
        self.assertIn("smartgo.store.commitlog", found)
        self.assertIn("smartgo.store", found)
