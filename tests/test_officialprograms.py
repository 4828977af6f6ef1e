"""Every request code that official programs send is answered, tested, and driven by one of them."""

from __future__ import annotations

import importlib

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.needs import NEEDS
from smartgo.broker.processors.requestcodes import REQUESTS
from smartgo.schema.codes import RequestCode
from tests.officialprograms import COVERAGE, PAGE, codes, page


def is_test(name: str) -> bool:
    """Tell whether a test with this id is there."""
    path, kind, function = name.rsplit(".", 2)
    found = getattr(importlib.import_module(path), kind, None)
    return function.startswith("test") and callable(getattr(found, function, None))


class CoverageTests(SynchronousTestCase):
    """The table in docs/official-programs.rst."""

    def test_complete(self) -> None:
        """Each code that clients, tools or slaves of RocketMQ send has one row, in the order of the numbers."""
        wanted = codes()
        self.assertEqual([one.name for one in COVERAGE], sorted(wanted, key=lambda name: int(wanted[name]["code"])))
        self.assertEqual({name: int(RequestCode[name]) for name in wanted}, {k: v["code"] for k, v in wanted.items()})
        self.assertEqual({one["priority"] for one in wanted.values()}, {"P0", "P1"})

    def test_answered(self) -> None:
        """Each is answered by all who receive it, and access control knows what it needs."""
        rows = {row.code.name: row for row in REQUESTS}
        for name, one in codes().items():
            row = rows[name]
            answered = {"broker": bool(row.broker), "registry": row.registry, "client": row.client}
            for receiver in str(one["to"]).split("+"):
                self.assertTrue(answered[receiver], name)
            if row.broker or row.registry:
                self.assertIn(int(row.code), NEEDS, name)

    def test_tests(self) -> None:
        """Each test that the table names is there; those that run official programs are interop tests."""
        for one in COVERAGE:
            self.assertTrue(is_test(one.test), one)
            self.assertFalse(one.test.startswith("tests.interop."), one)
            self.assertTrue(one.driven, one)
            for test in one.driven:
                self.assertTrue(is_test(test), test)
                self.assertTrue(test.startswith("tests.interop."), test)
        self.assertFalse(is_test("tests.test_officialprograms.CoverageTests.test_nothing"))

    def test_page(self) -> None:
        """The page shows the table: C{python -m tests.officialprograms} writes it."""
        with open(PAGE, encoding="utf-8") as file:
            self.assertEqual(file.read(), page())
