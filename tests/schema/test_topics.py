"""Tests of L{smartgo.schema.topics}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadName
from smartgo.schema import topics

GOOD = ["a", "A_b-c|9", "%RETRY%group", "x" * 127]
BAD = ["..", "a/b", "a\0", "a.b", "a b", "\uff21", "é", "a\n", "a#tmp", "x" * 126 + "!"]


class NameTests(SynchronousTestCase):
    def test_good(self) -> None:
        """Letters, digits and the four signs make a name for topics and groups."""
        for name in GOOD:
            topics.check_topic(name)
            topics.check_group(name)
            self.assertTrue(topics.is_topic(name) and topics.is_group(name))

    def test_bad(self) -> None:
        """Anything else is refused with RocketMQ's remark."""
        for name in BAD:
            self.assertFalse(topics.is_topic(name) or topics.is_group(name), name)
            error = self.assertRaises(BadName, topics.check_topic, name)
            self.assertEqual(
                str(error), "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
            )
            error = self.assertRaises(BadName, topics.check_group, name)
            self.assertEqual(
                str(error),
                f"the specified group[{name}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
            )

    def test_blank(self) -> None:
        """A blank name is called blank."""
        for name in ("", " ", "\t\n"):
            self.assertEqual(str(self.assertRaises(BadName, topics.check_topic, name)), "The specified topic is blank.")
            self.assertEqual(str(self.assertRaises(BadName, topics.check_group, name)), "the specified group is blank")

    def test_long(self) -> None:
        """A topic has at most 127 characters, a group 255."""
        error = self.assertRaises(BadName, topics.check_topic, "x" * 128)
        self.assertEqual(str(error), "The specified topic is longer than topic max length.")
        topics.check_group("x" * 255)
        error = self.assertRaises(BadName, topics.check_group, "x" * 256)
        self.assertEqual(str(error), "the specified group is longer than group max length 255.")

    def test_prefixes(self) -> None:
        """Retry and dead letter topics carry the group's name behind their prefix."""
        self.assertEqual((topics.retry_topic("g"), topics.dlq_topic("g")), ("%RETRY%g", "%DLQ%g"))

    def test_reserved(self) -> None:
        """What cannot be sent to is a system topic, and every reserved name is a valid one."""
        self.assertTrue(topics.FORBIDDEN_TO_SEND < topics.SYSTEM_TOPICS)
        for name in topics.SYSTEM_TOPICS:
            topics.check_topic(name)
            self.assertTrue(topics.is_system(name))
        self.assertTrue(topics.is_system("rmq_sys_wheel_timer"))
        self.assertFalse(topics.is_system("Orders"))
        self.assertNotIn(topics.TRACE_TOPIC, topics.FORBIDDEN_TO_SEND)


class QueueTests(SynchronousTestCase):
    def test_ids(self) -> None:
        """A topic has the ids from 0 on, and never more than the limit, however many it is said to have."""
        self.assertEqual(list(topics.queue_ids(3)), [0, 1, 2])
        for count, expected in ((0, 0), (-1, 0), (65_536, 65_536), (65_537, 65_536), (0x7FFFFFFF, 65_536)):
            self.assertEqual(len(topics.queue_ids(count)), expected)
