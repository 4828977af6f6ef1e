"""Messages as applications see them, their ids, and filters by tag."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.identity import UniqueIds, client_id
from smartgo.client.internal.subscription import subscription, wanted
from smartgo.client.messages import BODY_LIMIT, Message, decode_messages, properties_text
from smartgo.errors import BadName, MessageIllegal, MessageTypeWrong, SubscriptionParseFailed
from smartgo.schema import message as schema
from smartgo.schema import properties, record
from tests.doctests import DocTestCase
from tests.fakes import FakeEnvironment


def stored(offset: int, body: bytes, sys_flag: int = 0, topic: str = "T", **pairs: str) -> bytes:
    """A record as a pull brings it."""
    one = schema.NewMessage(
        topic, 3, body, properties.encode(pairs), sys_flag=sys_flag, born_ms=5,
        born_host=schema.pack_host("10.0.0.9", 99), store_host=schema.pack_host("10.0.0.2", 10911),
    )  # fmt: skip
    return record.encode(one, offset, 1000 + offset, 7)


class ExampleTests(DocTestCase, module="smartgo.client.messages"):
    """The examples in its docstrings."""


class SendingTests(SynchronousTestCase):
    def test_properties(self) -> None:
        """Tag, keys, delay and the wish not to wait travel as properties, beside the application's own."""
        message = Message(
            topic="T", body=b"x", tag="A", keys=["k", "l"], delay_level=3, wait=False, properties={"a": "b"}
        )
        self.assertEqual(
            message.all_properties(), {"a": "b", "TAGS": "A", "KEYS": "k l", "DELAY": "3", "WAIT": "false"}
        )

    def test_refused(self) -> None:
        """What no broker would take is refused before it is sent."""
        for error, message in (
            (BadName, Message(topic="bad topic", body=b"x")),
            (MessageIllegal, Message(topic="T", body=b"")),
            (MessageIllegal, Message(topic="T", body=bytes(BODY_LIMIT + 1))),
            (MessageIllegal, Message(topic="T", body=b"x", properties={"TAGS": "x"})),
            (MessageIllegal, Message(topic="T", body=b"x", keys=["a b"])),
        ):
            self.assertRaises(error, message.check)

    def test_times(self) -> None:
        """A delay and a time of delivery travel as RocketMQ 5 has them, to the millisecond."""
        moment = datetime(2030, 1, 1, 0, 0, 0, 1000, UTC)
        for message, expected in (
            (Message(topic="T", body=b"x", delay=1.2345), {"TIMER_DELAY_MS": "1234"}),
            (Message(topic="T", body=b"x", delay=3), {"TIMER_DELAY_MS": "3000"}),
            (Message(topic="T", body=b"x", deliver_at=moment), {"TIMER_DELIVER_MS": "1893456000001"}),
        ):
            message.check()
            self.assertTrue(message.is_delayed)
            self.assertEqual(message.all_properties(), expected)
        self.assertFalse(Message(topic="T", body=b"x").is_delayed)

    def test_bad_times(self) -> None:
        """Two of delay, time and level, a delay below 0, and what is no number or has no time zone, are refused."""
        moment = datetime(2030, 1, 1, tzinfo=UTC)
        both: tuple[dict[str, Any], ...] = (
            {"delay": 1.0, "delay_level": 1},
            {"delay": 1.0, "deliver_at": moment},
            {"deliver_at": moment, "delay_level": 1},
            {"delay": -1.0},
        )
        for more in both:
            self.assertRaises(MessageIllegal, Message(topic="T", body=b"x", **more).check)
        bad: tuple[dict[str, Any], ...] = (
            {"delay": "5"}, {"delay": True}, {"deliver_at": 5}, {"deliver_at": moment.replace(tzinfo=None)},
        )  # fmt: skip
        for one in bad:
            self.assertRaises(MessageTypeWrong, Message, topic="T", body=b"x", **one)

    def test_text(self) -> None:
        """Properties are joined as the protocol has them; separators within them and excess are refused."""
        self.assertEqual(properties_text({"a": "1", "empty": "", "b": "2"}), "a\x011\x02b\x012")
        self.assertEqual(properties_text({}), "")
        self.assertEqual(properties_text({"empty": ""}), "")
        wrong = (
            {"a": "x\x02y"},
            {"a\x01": "x"},
            {"a": "x\x01y", "b": "2"},
            {"a\x02": "", "b": "2"},
            {"a": "x" * 32768},
        )
        for pairs in wrong:
            self.assertRaises(MessageIllegal, properties_text, pairs)


class TypeTests(SynchronousTestCase):
    """A message checks its types when it is made."""

    def refused(self, expected: str, **parts: Any) -> None:
        """Check that a message of such parts is refused by that sentence."""
        error = self.assertRaises(MessageTypeWrong, Message, **{"topic": "T", "body": b"x", **parts})
        self.assertEqual(str(error), expected)
        self.assertIsInstance(error, TypeError)
        self.assertIsInstance(error, MessageIllegal)

    def test_one_key(self) -> None:
        """A C{str} as keys is one key, and an empty one is none; sequences stay as they are."""
        for given, keys in (("order-7", ("order-7",)), ("", ()), ((), ()), (["a", "b"], ["a", "b"]), (("a",), ("a",))):
            self.assertEqual(Message(topic="T", body=b"x", keys=given).keys, keys)
        self.assertEqual(Message(topic="T", body=b"x", keys="order-7").all_properties(), {"KEYS": "order-7"})
        self.assertRaises(MessageIllegal, Message(topic="T", body=b"x", keys="two words").check)

    def test_body(self) -> None:
        """A body is bytes; the sentence says how to make it so."""
        self.refused('the body of a message must be bytes, not str: encode it, as in "...".encode()', body="x")
        self.refused("the body of a message must be bytes, not bytearray: give bytes(body)", body=bytearray(b"x"))
        self.refused("the body of a message must be bytes, not memoryview: give bytes(body)", body=memoryview(b"x"))
        self.refused("the body of a message must be bytes, not NoneType", body=None)
        self.refused("the body of a message must be bytes, not dict", body={"a": 1})

    def test_others(self) -> None:
        """Topic and tag are C{str}, flag and delay level whole numbers, C{wait} is true or false."""
        self.refused("the topic of a message must be str, not bytes", topic=b"T")
        self.refused("the tag of a message must be str, not bytes", tag=b"new")
        self.refused("the tag of a message must be str, not NoneType", tag=None)
        self.refused("the delay_level of a message must be int, not str", delay_level="3")
        self.refused("the delay_level of a message must be int, not bool", delay_level=True)
        self.refused("the flag of a message must be int, not float", flag=1.0)
        self.refused("the wait of a message must be bool, not int", wait=1)

    def test_keys(self) -> None:
        """Keys are a sequence, and each is a C{str}."""
        self.refused("the keys of a message must be str, not bytes: b'k'", keys=[b"k"])
        self.refused("the keys of a message must be str, not int: 7", keys=["k", 7])
        for keys, name in ((b"k", "bytes"), (None, "NoneType"), ({"k"}, "set"), (7, "int")):
            self.refused(f"the keys of a message must be a str or a sequence of str, not {name}", keys=keys)

    def test_properties(self) -> None:
        """Properties are a mapping of C{str} to C{str}."""
        self.refused("the names and values of properties of a message must be str, not int: 7", properties={"a": 7})
        self.refused(
            "the names and values of properties of a message must be str, not bytes: b'a'", properties={b"a": "b"}
        )
        for given, name in ((None, "NoneType"), ([("a", "b")], "list"), ("a=b", "str")):
            self.refused(f"the properties of a message must be a mapping, not {name}", properties=given)

    def test_subclasses(self) -> None:
        """Subclasses of the types pass: members of enumerations, and strings and mappings of other libraries."""

        class Level(IntEnum):
            LATER = 3

        class Name(str):
            pass

        message = Message(
            topic=Name("T"), body=b"x", tag=Name("A"), delay_level=Level.LATER, properties=MappingProxyType({"a": "b"})
        )
        message.check()
        self.assertEqual((message.topic, message.tag, message.delay_level), ("T", "A", 3))
        self.assertEqual(Message(topic="T", body=b"x", keys=Name("k")).keys, ("k",))


class ReceivingTests(SynchronousTestCase):
    def test_decode(self) -> None:
        """A pull's records become messages, with places and ids."""
        body = stored(4, b"hello", TAGS="A", KEYS="k l", UNIQ_KEY="U") + stored(5, b"there")
        first, second = decode_messages(body, "b")
        self.assertEqual((first.body, first.tag, first.keys, first.message_id), (b"hello", "A", ["k", "l"], "U"))
        self.assertEqual((first.queue.broker_name, first.queue.queue_id, first.queue_offset), ("b", 3, 4))
        self.assertEqual((first.born_ms, first.stored_ms, first.born_host), (5, 7, "10.0.0.9:99"))
        self.assertEqual(
            (second.message_id, second.offset_id),
            (second.offset_id, schema.message_id(schema.pack_host("10.0.0.2", 10911), 1005)),
        )

    def test_compressed(self) -> None:
        """Compressed bodies are unpacked; one that cannot be is left out, the others are not."""
        body = stored(0, zlib.compress(b"a" * 100), 1) + stored(1, b"no zlib", 1) + stored(2, b"plain")
        self.assertEqual([one.body for one in decode_messages(body, "b")], [b"a" * 100, b"plain"])

    def test_cut(self) -> None:
        """Reading ends at the first record that is not whole, wherever the bytes are cut."""
        whole = stored(0, b"one")
        body = whole + stored(1, b"two")
        for cut in range(len(body)):
            self.assertEqual(len(decode_messages(body[:cut], "b")), cut // len(whole) if cut < len(body) else 2)

    def test_retried(self) -> None:
        """A message from a retry topic bears the topic it was first sent to."""
        (found,) = decode_messages(stored(0, b"x", topic="%RETRY%g", RETRY_TOPIC="T"), "b")
        self.assertEqual((found.topic, found.queue.topic), ("T", "%RETRY%g"))


class SubscriptionTests(SynchronousTestCase):
    def test_expressions(self) -> None:
        """An expression gives tags and their hashes; a star or nothing gives everything."""
        data = subscription("T", " TagA ||TagB|| ", 9)
        self.assertEqual((data.tags_set, data.code_set), ({"TagA", "TagB"}, {2598919, 2598920}))
        self.assertEqual(data.sub_version, 9)
        for everything in ("*", "", " * "):
            self.assertEqual(
                (subscription("T", everything, 9).sub_string, subscription("T", "*", 9).tags_set), ("*", set())
            )
        self.assertRaises(SubscriptionParseFailed, subscription, "T", "||", 9)

    def test_same_hash(self) -> None:
        """Messages whose tag only has the same hash as a wanted one are left out."""
        messages = decode_messages(stored(0, b"x", TAGS="Aa") + stored(1, b"x", TAGS="BB") + stored(2, b"x"), "b")
        self.assertEqual([one.tag for one in wanted(messages, subscription("T", "Aa", 1))], ["Aa"])
        self.assertEqual(len(wanted(messages, subscription("T", "*", 1))), 3)


class IdentityTests(SynchronousTestCase):
    def test_unique(self) -> None:
        """Ids differ, hold our address, process and time, and are read back by the schema."""
        env = FakeEnvironment()
        ids = UniqueIds(env, "10.0.0.1")
        made = [ids.next() for _ in range(70_000)]
        env.clock.advance(0.001)
        made = [*made[:60_000], ids.next()]
        self.assertEqual(len(set(made)), len(made))
        parts = schema.UniqueId.parse(made[0])
        self.assertEqual((parts.address, parts.process), (bytes([10, 0, 0, 1]), 4242))
        self.assertEqual(parts.born_ms(env.clock.wall_ms() + 5), env.clock.wall_offset_ms)

    def test_month(self) -> None:
        """At the turn of a month the time within it begins anew."""
        env = FakeEnvironment()
        env.clock.wall_offset_ms = 1_704_067_200_000 - 1  # the last moment of 2023
        ids = UniqueIds(env, "::1")
        december = schema.UniqueId.parse(ids.next())
        env.clock.advance(0.001)
        january = schema.UniqueId.parse(ids.next())
        self.assertEqual((december.span_ms, january.span_ms), (31 * 86_400_000 - 1, 0))

    def test_client(self) -> None:
        """A client that is not named differs from every other of its process."""
        env = FakeEnvironment()
        self.assertEqual(client_id(env, "10.0.0.1", "x"), "10.0.0.1@x")
        self.assertNotEqual(client_id(env, "10.0.0.1", None), client_id(env, "10.0.0.1", None))
