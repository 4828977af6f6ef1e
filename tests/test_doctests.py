"""Tests of L{tests.doctests}: examples become test methods, and a wrong one fails."""

from __future__ import annotations

import sys
from types import ModuleType
from unittest import TestResult

from twisted.trial.unittest import SynchronousTestCase

from tests.doctests import DocTestCase

TEXT = '''
def double(x):
    """
    Double.

    >>> double(2)
    4
    """
    return 2 * x


class Thing:
    def wrong(self):
        """
        >>> 1 + 1
        3
        """

    def plain(self):
        """No example."""
'''


class DocTestCaseTests(SynchronousTestCase):
    """A class of tests made of a module."""

    def module(self, text: str) -> str:
        """Make a module of a text for the time of a test; return its name."""
        name = "smartgo_examples"
        module = ModuleType(name)
        exec(compile(text, name, "exec"), module.__dict__)
        self.patch(sys, "modules", {**sys.modules, name: module})
        return name

    def test_methods(self) -> None:
        """Every docstring with an example is a test method; the others are none."""

        class Examples(DocTestCase, module=self.module(TEXT)):
            pass

        names = sorted(name for name in vars(Examples) if name.startswith("test_"))
        self.assertEqual(names, ["test_Thing_wrong", "test_double"])
        outcomes = {}
        for name in names:
            result = TestResult()
            Examples(name).run(result)
            outcomes[name] = [words for _, words in result.failures]
        self.assertEqual(outcomes["test_double"], [])
        self.assertIn("Got:\n    2", outcomes["test_Thing_wrong"][0])

    def test_none(self) -> None:
        """A module without examples is refused: such a class would test nothing."""
        with self.assertRaises(ValueError):

            class Examples(DocTestCase, module=self.module("x = 1")):
                pass
