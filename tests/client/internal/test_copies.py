"""Tests of L{smartgo.client.internal.copies}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.copies import copy_for, copy_to, is_own
from smartgo.client.messages import ReceivedMessage, received
from smartgo.errors import NoOrigin
from smartgo.schema import properties
from smartgo.schema.message import NewMessage
from smartgo.schema.record import decode, encode


def message(topic: str = "Orders", **named: str) -> ReceivedMessage:
    """A message with these properties, as a consumer gets it."""
    raw = encode(NewMessage(topic, 1, b"body", properties.encode(named), flag=7, reconsume_times=3), 5, 1000, 6)
    return received(decode(raw), "b")


class CopyTests(SynchronousTestCase):
    def test_kept(self) -> None:
        """A copy has body, flag, tag, keys and the application's properties, and says whose it is; the rest is new."""
        one = message(TAGS="A", KEYS="k l", UNIQ_KEY="U", CLUSTER="c", DELAY="3", colour="red", __SHARDINGKEY="s")
        copy = copy_to(one)
        self.assertEqual((copy.topic, copy.body, copy.flag, copy.tag), ("Orders", b"body", 7, "A"))
        self.assertEqual((list(copy.keys), copy.delay_level), (["k", "l"], 0))
        self.assertEqual(copy.properties, {"colour": "red", "__SHARDINGKEY": "s", "RESENT_FROM": one.offset_id})

    def test_group(self) -> None:
        """A copy for one group goes to its retry topic under the id of the first sending."""
        copy = copy_for(message("%DLQ%g", RETRY_TOPIC="Orders", ORIGIN_MESSAGE_ID="O", UNIQ_KEY="U"), "g")
        self.assertEqual(copy.topic, "%RETRY%g")
        said = [copy.properties[name] for name in ("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "UNIQ_KEY")]
        self.assertEqual(said, ["Orders", "O", "U"])

    def test_origin(self) -> None:
        """A dead letter that does not say where it came from is sent to a topic that is named, and to no other."""
        one = message("%DLQ%g")
        self.assertEqual(copy_to(one, "T").topic, "T")
        self.assertRaises(NoOrigin, copy_to, one)
        self.assertRaises(NoOrigin, copy_for, one, "g")
        self.assertEqual(copy_to(message("%DLQ%g", DLQ_ORIGIN_TOPIC="T")).topic, "T")

    def test_own(self) -> None:
        """Neither the system's properties nor the one that says whose copy it is are the application's to set."""
        self.assertTrue(is_own("colour"))
        for name in ("KEYS", "RESENT_FROM", "__RMQ.TRANSIENT.x"):
            self.assertFalse(is_own(name), name)
