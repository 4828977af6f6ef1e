"""The planted bugs: each still fits the tree, and the tools that look for them read what they print."""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil

from twisted.trial.unittest import SynchronousTestCase

from tests.sim.planted import BUGS, ROOT, SEARCHES, Failure, PatchRefused, bugs, read_bug
from tests.sim.profile import Profile
from tests.sim.seeds import Streams

PATCH = """Say it wrong.

--- a/one.py
+++ b/one.py
@@ -1,3 +1,3 @@
 a = 1
-b = 2
+b = 3
 c = 4
@@ -9,2 +9,3 @@ somewhere
 d = 5
+e = 6
 f = 7
"""


class PatchTests(SynchronousTestCase):
    def planted(self, content: str) -> str:
        """A file with the planted bug of L{PATCH}."""
        root = self.mktemp()
        os.makedirs(root)
        path = os.path.join(root, "one.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        read_bug("01-one.patch", PATCH).plant(root)
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_read(self) -> None:
        """A patch is a sentence and a diff."""
        bug = read_bug("01-one.patch", PATCH)
        self.assertEqual((bug.number, bug.name, bug.text), (1, "one", "Say it wrong."))
        self.assertEqual([edit.path for edit in bug.edits], ["one.py", "one.py"])
        self.assertRaises(ValueError, read_bug, "one.patch", PATCH)

    def test_needs(self) -> None:
        """A seed fits a bug if its profile has one alternative of each need; with no needs each seed does."""
        bug = read_bug("01-one.patch", PATCH.replace("---", "Needs: sync_flush, power|storm\n\n---", 1))
        self.assertEqual((bug.text, bug.needs), ("Say it wrong.", (("sync_flush",), ("power", "storm"))))
        for seed in range(30):
            profile = Profile.draw(Streams(seed))
            self.assertEqual(bug.fits(seed), profile.sync_flush and not {"power", "storm"}.isdisjoint(profile.kinds))
        self.assertTrue(all(map(read_bug("01-one.patch", PATCH).fits, range(30))))

    def test_unknown_need(self) -> None:
        """A need that no profile knows is an error, not a bug that no seed fits."""
        bug = read_bug("01-one.patch", PATCH.replace("---", "Needs: thunder\n\n---", 1))
        self.assertRaises(AttributeError, bug.fits, 0)

    def test_planted(self) -> None:
        """All places of a file are changed, wherever they have moved to."""
        self.assertEqual(
            self.planted("new = 0\na = 1\nb = 2\nc = 4\nx = 0\nd = 5\nf = 7\n"),
            "new = 0\na = 1\nb = 3\nc = 4\nx = 0\nd = 5\ne = 6\nf = 7\n",
        )

    def test_refused(self) -> None:
        """A patch whose lines are not there, or there twice, is refused, and so is one of a file that is not there."""
        self.assertRaises(PatchRefused, self.planted, "a = 1\nb = 5\nc = 4\nd = 5\nf = 7\n")
        self.assertRaises(PatchRefused, self.planted, "a = 1\nb = 2\nc = 4\n" * 2 + "d = 5\nf = 7\n")
        self.assertRaises(PatchRefused, read_bug("01-one.patch", PATCH).plant, self.mktemp())


class BugsTests(SynchronousTestCase):
    def test_all_fit(self) -> None:
        """Every planted bug can still be planted, and what comes of it is Python that differs from ours."""
        for bug in bugs():
            root = self.mktemp()
            paths = {edit.path for edit in bug.edits}
            self.assertTrue(paths, bug.name)
            for path in paths:
                self.assertTrue(path.startswith("smartgo/"), f"{bug.name}: {path} is not of the product")
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                shutil.copy(os.path.join(ROOT, path), os.path.join(root, path))
            bug.plant(root)
            for path in paths:
                with open(os.path.join(root, path), encoding="utf-8") as planted:
                    text = planted.read()
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    self.assertNotEqual(ast.dump(ast.parse(text)), ast.dump(ast.parse(file.read())), bug.name)

    def test_count(self) -> None:
        """There are at least 15, each with a number of its own and a sentence that says what is wrong (T7)."""
        found = bugs()
        self.assertGreaterEqual(len(found), 15)
        self.assertEqual([bug.number for bug in found], list(range(1, len(found) + 1)))
        self.assertEqual(len(found), len(os.listdir(BUGS)))
        for bug in found:
            self.assertTrue(bug.text.endswith("."), bug.name)
            fitting = sum(map(bug.fits, range(100)))
            self.assertGreater(fitting, 5, f"{bug.name}: hardly a seed fits")


class SearchTests(SynchronousTestCase):
    def test_simulations(self) -> None:
        """The lines of the simulator: a failure is a verdict that is invalid, with the kinds of what was violated."""
        search = SEARCHES["sim"]
        read = search.read
        asked = argparse.Namespace(minutes=6.0, jobs=1)
        self.assertEqual(
            list(search.arguments(asked, [2, 3, 4, 9])),
            ["tests.sim", "--seeds", "2-4,9", "--minutes", "6.0", "--jobs", "1", "--json"],
        )
        self.assertEqual(read("100 seeds in 5 s"), None)
        line = {"seed": 7, "verdict": "valid", "violations": [], "hits": {}}
        self.assertEqual(read(json.dumps(line)), None)
        self.assertEqual(read(json.dumps({**line, "verdict": "unknown"})), None)
        violations = ["lost: message 3", "hole: in T", "lost: message 4", "unknown: the final read left out a queue"]
        line = {**line, "verdict": "invalid", "violations": violations}
        self.assertEqual(read(json.dumps(line)), Failure(7, ("lost", "hole")))

    def test_histories(self) -> None:
        """The lines of the random histories."""
        read = SEARCHES["histories"].read
        self.assertEqual(read("seed 3, broker: lost: message 8 of ('T0', 3), answered at 0"), Failure(3, ("lost",)))
        self.assertEqual(read("  replay: python -m tests.histories --seed 3"), None)
        self.assertEqual(read("120 histories (40 of broker, 20 of pair, 60 of store) in 11 s"), None)
