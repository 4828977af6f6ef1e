"""Subscriptions as filters: which tag expressions let which messages in."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.filter import FilterCache, TagFilter, tag_filter
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
