"""Tests of L{tests.parts}: every test module runs in exactly one part."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.parts import PARTS, command, modules, part_of


class PartTests(SynchronousTestCase):
    """The table of parts."""

    def test_every_module(self) -> None:
        """The commands of all parts name every test module, each once."""
        named = [word for part in PARTS for word in command(part, coverage=False) if word.startswith("tests.")]
        self.assertEqual(sorted(named), modules())
        self.assertIn(__name__, modules())

    def test_longest(self) -> None:
        """The longest beginning of a name decides; what no part names is unit."""
        self.assertEqual(part_of("tests.ops.console.test_use"), "console")
        self.assertEqual(part_of("tests.ops.web.test_jobs"), "unit")
        self.assertEqual(part_of("tests.opsx.test_jobs"), "unit")

    def test_used(self) -> None:
        """No part is empty, and no beginning names nothing."""
        for part, begins in PARTS.items():
            for begin in begins:
                self.assertTrue(any(one.startswith(begin) for one in modules()), f"{part}: {begin}")
