"""The parser of SQL92 filters, loaded when it is needed."""

from __future__ import annotations

import sys
from importlib import import_module

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.sql.lazyparser import LazyParser
from smartgo.errors import SubscriptionParseFailed
from tests.fakes import FakeThreads
from tests.test_public import loaded_by


class LazyParserTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.threads = FakeThreads()
        self.threads.held.add("filters")
        self.parser = LazyParser(self.threads)

    def test_prepare(self) -> None:
        """It is loaded once, in a thread, for all who wait; afterwards nobody waits."""
        first, second = self.parser.prepare(), self.parser.prepare()
        assert first is not None and second is not None
        self.assertNoResult(first)
        self.assertEqual(self.threads.release("filters"), 1)
        self.assertIsNone(self.successResultOf(first))
        self.assertIsNone(self.successResultOf(second))
        self.assertIsNone(self.parser.prepare())
        self.assertIs(self.parser.parse("n > 5").evaluate({"n": "6"}), True)

    def test_at_once(self) -> None:
        """Who does not wait has it loaded at once."""
        self.assertRaises(SubscriptionParseFailed, self.parser.parse, "n >")
        self.assertIsNone(self.parser.prepare())

    def test_failed(self) -> None:
        """Where the library is missing, all who wait are told, and the next one tries again."""
        name = "smartgo.broker.sql.parser"
        import_module(name)
        self.addCleanup(sys.modules.__setitem__, name, sys.modules[name])
        sys.modules.update({name: None})  # type: ignore[dict-item]  # as where it cannot be imported
        waits = [self.parser.prepare(), self.parser.prepare()]
        self.threads.release("filters")
        for each in waits:
            assert each is not None
            self.failureResultOf(each, ImportError)
        self.assertNoResult(self.parser.prepare())

    def test_not_loaded(self) -> None:
        """A broker's modules do not load the library."""
        loaded = loaded_by("import smartgo.broker.broker")
        self.assertIn("smartgo.broker.sql.lazyparser", loaded)
        self.assertNotIn("lark", loaded)
