"""Subscriptions as filters: which tag expressions let which messages in."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.filter import TagFilter, _cache, check_type, tag_filter
from smartgo.errors import RequestRefused, SubscriptionParseFailed
from smartgo.schema.consumequeue import Unit
from smartgo.schema.properties import tag_code
from smartgo.store.interfaces import IMessageFilter


class TagFilterTests(SynchronousTestCase):
    def test_all(self) -> None:
        """An asterisk, an empty expression and none let everything in."""
        self.assertEqual([tag_filter(text) for text in ("*", "", None)], [None] * 3)

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
        """The same expression is the same filter."""
        self.assertIs(tag_filter("x || y"), tag_filter("x || y"))

    def test_many(self) -> None:
        """However many expressions there are, each is parsed right."""
        for number in range(5000):
            found = tag_filter(f"tag{number}")
            self.assertEqual(found and found.hashes(), {tag_code(f"tag{number}")})

    def test_cache_is_bounded(self) -> None:
        """The filters that are kept have few tags in all, however long the expressions are that clients send."""
        for number in range(500):
            tag_filter("||".join(f"{number}-{tag}" for tag in range(400)))
        self.assertLessEqual(sum(len(one.hashes()) for one in _cache.filters.values()), 65_536)
        self.assertIn("499-0||", next(reversed(_cache.filters)))

    def test_refused(self) -> None:
        """An expression without a tag, or over 4 KiB, cannot be parsed."""
        self.assertRaises(SubscriptionParseFailed, tag_filter, " || ")
        self.assertRaises(SubscriptionParseFailed, tag_filter, "a||" * 2000)

    def test_types(self) -> None:
        """Tag expressions pass; SQL92 gets the remark of a broker that has property filters off."""
        for kind in (None, "", "TAG"):
            check_type(kind)
        error = self.assertRaises(RequestRefused, check_type, "SQL92")
        self.assertEqual(
            (error.code, str(error)), (1, "The broker does not support consumer to filter message by SQL92")
        )

    def test_by_content(self) -> None:
        """Nothing but the hash is asked."""
        self.assertTrue(TagFilter(frozenset({1})).by_content({}, memoryview(b"")))
