"""Subscriptions as filters: which tag expressions let which messages in."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.filter import FilterCache, TagFilter, tag_filter
from smartgo.broker.sql.expressions import Expression
from smartgo.broker.sql.parser import SelectorParser
from smartgo.errors import RequestRefused, SubscriptionParseFailed
from smartgo.schema.consumequeue import Unit
from smartgo.schema.properties import tag_code
from smartgo.store.interfaces import IMessageFilter


class TagFilterTests(SynchronousTestCase):
    def test_all(self) -> None:
        """An asterisk, an empty expression and none let everything in."""
        self.assertEqual([tag_filter(text) for text in ("*", "", None)], [None] * 3)
        self.assertEqual([FilterCache().find("TAG", text) for text in ("*", "", None)], [None] * 3)

    def test_tags(self) -> None:
        """Tags are separated by two bars; blanks around them do not count."""
        found = tag_filter(" TagA ||TagB||  ")
        assert found is not None
        verifyObject(IMessageFilter, found)
        self.assertEqual(found.hashes(), {tag_code("TagA"), tag_code("TagB")})
        self.assertTrue(found.by_unit(Unit(0, 100, tag_code("TagA"))))
        self.assertFalse(found.by_unit(Unit(0, 100, tag_code("TagC"))))
        self.assertFalse(found.by_unit(Unit(0, 100, 0)))
        self.assertFalse(found.needs_content())

    def test_remembered(self) -> None:
        """The same expression is the same filter, of one cache."""
        cache = FilterCache()
        found = cache.find("TAG", "x || y")
        self.assertIs(cache.find(None, "x || y"), found)
        self.assertIsNot(FilterCache().find(None, "x || y"), found)

    def test_many(self) -> None:
        """However many expressions there are, each is parsed right."""
        cache = FilterCache()
        for number in range(5000):
            found = cache.find("TAG", f"tag{number}")
            self.assertEqual(found and found.hashes(), {tag_code(f"tag{number}")})
        self.assertLessEqual(len(cache), 4096)

    def test_cache_is_bounded(self) -> None:
        """The filters that are kept have few tags in all, however long the expressions are that clients send."""
        cache = FilterCache()
        for number in range(500):
            cache.find("TAG", "||".join(f"{number}-{tag}" for tag in range(400)))
        self.assertLessEqual(sum(len(one.hashes()) for one in cache._filters.values()), 65_536)
        self.assertIn("499-0||", next(reversed(cache._filters)))

    def test_refused(self) -> None:
        """An expression without a tag, or over 4 KiB, cannot be parsed."""
        self.assertRaises(SubscriptionParseFailed, tag_filter, " || ")
        self.assertRaises(SubscriptionParseFailed, FilterCache().find, "TAG", " || ")
        self.assertRaises(SubscriptionParseFailed, tag_filter, "a||" * 2000)

    def test_types(self) -> None:
        """Tag expressions pass; SQL92 gets the remark of a broker that has property filters off."""
        for kind in (None, "", "TAG"):
            FilterCache().find(kind, "TagA")
        error = self.assertRaises(RequestRefused, FilterCache().find, "SQL92", "a = 1")
        self.assertEqual(
            (error.code, str(error)), (1, "The broker does not support consumer to filter message by SQL92")
        )

    def test_by_content(self) -> None:
        """Nothing but the hash is asked."""
        self.assertTrue(TagFilter(frozenset({1})).by_content({}, memoryview(b"")))


class SqlFilterTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A cache that counts the texts that it parses."""
        self.parsed: list[str] = []
        parser = SelectorParser()

        def parse(text: str) -> Expression:
            self.parsed.append(text)
            return parser.parse(text)

        self.cache = FilterCache(parse)

    def test_matches(self) -> None:
        """Only a true condition lets a message in: none that is false, unknown, or that fails."""
        found = self.cache.sql("SQL92", "n > 5")
        verifyObject(IMessageFilter, found)
        self.assertEqual(
            [found.by_content(one, memoryview(b"")) for one in ({"n": "6"}, {"n": "5"}, {}, {"n": "six"})],
            [True, False, False, False],
        )
        self.assertTrue(found.needs_content())
        self.assertTrue(found.by_unit(Unit(0, 100, 7)))
        self.assertIsNone(found.hashes())

    def test_parsed_once(self) -> None:
        """An expression is parsed once, one that cannot be read too."""
        for _ in range(3):
            self.assertIs(self.cache.find("SQL92", "a = 1"), self.cache.find("SQL92", "a = 1"))
            self.assertRaises(SubscriptionParseFailed, self.cache.find, "SQL92", "a =")
        self.assertEqual(self.parsed, ["a = 1", "a ="])

    def test_bounded(self) -> None:
        """The texts of the filters that are kept have 64 Ki characters at most."""
        for number in range(100):
            self.cache.find("SQL92", f"a = '{number:04000}'")
        self.assertLessEqual(len(self.cache), 16)
        self.assertGreater(len(self.cache), 0)

    def test_refused(self) -> None:
        """Nothing, a text over 4 KiB, and a type that is unknown cannot be read."""
        for kind, text in (("SQL92", ""), ("SQL92", None), ("SQL92", "a = '" + "x" * 4100 + "'"), ("XPATH", "a = 1")):
            self.assertEqual(self.assertRaises(SubscriptionParseFailed, self.cache.find, kind, text).code, 23)

    def test_tags(self) -> None:
        """Tag expressions are what they were."""
        self.assertIsInstance(self.cache.find("TAG", "a || b"), TagFilter)
        self.assertIsNone(self.cache.find(None, "*"))
