"""Tests of smartgo.schema.headertemplates: binary headers read as ones like them were."""

from __future__ import annotations

from typing import Any

from msgspec import structs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadHeader
from smartgo.schema import headertemplates
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import decode
from smartgo.schema.commandbinary import decode_binary, encode_binary
from smartgo.schema.commandjson import HOT_HEADERS
from smartgo.schema.commandlayout import BINARY
from smartgo.schema.headerfields import Header, from_fields
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.headers.send import SendRequestV2
from smartgo.schema.headertemplates import CHANGING, HeaderTemplateCache
from tests.schema.golden_wire import recorded

SEND = {
    "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1600000000000", "h": "0",
    "i": "TAGS\x01TagA", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
PULL = {
    "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "17", "maxMsgNums": "32", "sysFlag": "3",
    "commitOffset": "16", "suspendTimeoutMillis": "15000", "subVersion": "1600000000000", "subscription": "*",
}  # fmt: skip


def raw_of(code: int, fields: dict[str, str], opaque: int = 7, remark: str | None = None) -> bytes:
    """A binary request header."""
    return encode_binary(code, 0, 409, opaque, 0, remark, fields)


class MemoryTests(SynchronousTestCase):
    """L{HeaderTemplateCache}: headers decoded in full once."""

    def setUp(self) -> None:
        self.cache = HeaderTemplateCache()

    def learn(self, raw: bytes) -> None:
        """Decode a header in full and make a template of it."""
        said = decode_binary(raw)
        header = from_fields(said.fields, HOT_HEADERS[said.code])
        self.cache.add(raw, (said.code, said.flag, said.language, said.version), said.fields, header)

    def found(self, raw: bytes) -> Header | None:
        """The typed header that is found, or C{None}."""
        found = self.cache.find(raw)
        return None if found is None else found[1]

    def same(self, raw: bytes) -> None:
        """Check that a header is found, and as full decoding reads it."""
        found = self.cache.find(raw)
        assert found is not None
        said = decode_binary(raw)
        self.assertEqual(found[0][:4], (said.code, said.flag, said.language, said.version))
        self.assertEqual(found[1], from_fields(said.fields, HOT_HEADERS[said.code]))

    def test_changing(self) -> None:
        """A header that differs in the opaque and in changing values of the same length is found with its own."""
        self.learn(raw_of(310, SEND))
        self.same(raw_of(310, SEND, opaque=-5))
        self.same(raw_of(310, SEND | {"e": "9", "g": "1700000000001", "i": "KEYS\x01TagB"}))
        self.same(raw_of(310, SEND | {"i": "\u00e9\x01\u4e2d\u6587"}))
        self.learn(raw_of(11, PULL))
        self.same(raw_of(11, PULL | {"queueId": "5", "queueOffset": "49", "maxMsgNums": "10", "commitOffset": "48"}))

    def test_signed(self) -> None:
        """Signed requests, each with a signature of its own, are found; those of another key are not."""
        signed = {"AccessKey": "RocketMQ", "Signature": "7HYobZrs+lmFjqJIGfwTdxtHTmg="}
        for code, fields in ((310, SEND), (11, PULL)):
            self.learn(raw_of(code, fields | signed))
            self.same(raw_of(code, fields | signed | {"Signature": "x" * 27 + "="}))
            self.assertIsNone(self.cache.find(raw_of(code, fields | signed | {"AccessKey": "rocketMQ"})))

    def test_decode(self) -> None:
        """A frame decoded by a template reads as it does in full, and the header is its own."""
        for number in range(3):
            raw = raw_of(310, SEND | {"e": str(number)}, opaque=number)
            frame = (1 << 24 | len(raw)).to_bytes(4, "big") + raw + b"body"
            first, second = decode(frame, self.cache), decode(frame)
            for name in (
                "code",
                "opaque",
                "flag",
                "language",
                "version",
                "remark",
                "encoding",
                "body",
                "header",
                "raw",
            ):
                self.assertEqual(getattr(first, name), getattr(second, name), name)
        self.assertIsNotNone(self.cache.find(raw))

    def test_every_hot_code(self) -> None:
        """Each hot code's attributes that change are attributes of its header."""
        for kind, attributes in CHANGING.items():
            self.assertIn(kind, HOT_HEADERS.values())
            self.assertLessEqual(set(attributes), {each.name for each in structs.fields(kind)})

    def test_constant(self) -> None:
        """A header that differs in anything else is not found; it becomes a template beside the first."""
        self.learn(raw_of(310, SEND))
        others = [
            raw_of(310, SEND | {"b": "U"}),
            raw_of(310, SEND | {"h": "1"}),
            raw_of(320, SEND),
            encode_binary(310, 9, 409, 7, 0, None, SEND),
            encode_binary(310, 0, 410, 7, 0, None, SEND),
            encode_binary(310, 0, 409, 7, 2, None, SEND),
            raw_of(310, dict(reversed(SEND.items()))),
        ]
        for raw in others:
            self.assertIsNone(self.cache.find(raw))
        for raw in others:
            self.learn(raw)
        for raw in [*others, raw_of(310, SEND)]:
            self.same(raw)

    def test_bent(self) -> None:
        """A known header with any byte changed is found as the full decoding reads it, or not at all."""
        for code, fields in ((310, SEND), (11, PULL)):
            good = raw_of(code, fields)
            self.learn(good)
            for at in range(len(good)):
                for flip in (1, 16, 128):
                    bent = bytearray(good)
                    bent[at] ^= flip
                    found = self.cache.find(bytes(bent))
                    if found is not None:
                        said = decode_binary(bytes(bent))
                        self.assertEqual(found[1], from_fields(said.fields, HOT_HEADERS[code]), at)
                        self.assertEqual(found[0][:4], (said.code, said.flag, said.language, said.version))

    def test_no_numbers(self) -> None:
        """What stands where a number was and is none is left to the full decoding, which says what is wrong."""
        self.learn(raw_of(310, SEND | {"e": "12"}))
        for text in ("-1", "+1", " 1", "1_", "1.", "\u00e9"):
            self.assertIsNone(self.cache.find(raw_of(310, SEND | {"e": text})), text)
        self.same(raw_of(310, SEND | {"e": "07"}))

    def test_long_numbers(self) -> None:
        """Numbers so long that they may be out of range are compared, not read."""
        self.learn(raw_of(310, SEND | {"e": "2000000000"}))
        self.assertIsNone(self.cache.find(raw_of(310, SEND | {"e": "3000000000"})))

    def test_no_text(self) -> None:
        """Bytes that are no UTF-8 are left to the full decoding."""
        self.learn(raw_of(310, SEND))
        self.assertIsNone(self.cache.find(raw_of(310, SEND).replace(b"TagA", b"Tag\xff")))

    def test_own(self) -> None:
        """What is done to a header that was learned from or found changes no other."""
        raw = raw_of(310, SEND)
        said = decode_binary(raw)
        header = from_fields(said.fields, SendRequestV2)
        self.cache.add(raw, (310, 0, 0, 409), said.fields, header)
        header.topic = "X"
        first = self.found(raw)
        assert isinstance(first, SendRequestV2)
        self.assertEqual(first.topic, "T")
        first.topic = "Y"
        self.same(raw)

    def test_not_kept(self) -> None:
        """Headers with a remark, with bytes after the fields, or of unusual length become no templates."""
        for raw in (
            raw_of(310, SEND, remark="r"),
            raw_of(310, SEND) + b"more",
            raw_of(310, SEND | {"i": "x" * 2048}),
        ):
            self.learn(raw)
            self.assertIsNone(self.cache.find(raw))

    def test_bounded(self) -> None:
        """However many different headers come, what is kept is bounded, and the latest is known."""
        self.patch(headertemplates, "_KNOWN", 8)
        for number in range(100):
            raw = raw_of(11, PULL | {"topic": f"T{number}", "subscription": "*" * (number % 13)})
            self.learn(raw)
            self.same(raw)
            self.assertLessEqual(sum(len(each.known) for some in self.cache._shapes.values() for each in some), 8)

    def test_shapes_bounded(self) -> None:
        """Of one length, the few shapes seen last are kept."""
        variants = [PULL | {"queueOffset": "1" * size, "topic": "T" * (12 - size)} for size in range(1, 9)]
        for fields in variants:
            self.learn(raw_of(11, fields))
        self.assertIsNone(self.cache.find(raw_of(11, variants[0])))
        for fields in variants[-4:]:
            self.same(raw_of(11, fields))


class CommandTests(SynchronousTestCase):
    """Binary requests read by L{decode}."""

    def frame(self, raw: bytes, body: bytes = b"body") -> bytes:
        """A frame without its length word."""
        return (BINARY << 24 | len(raw)).to_bytes(4, "big") + raw + body

    def test_again(self) -> None:
        """The second request of a kind is read as the first, all of it."""
        for code, fields, kind in ((310, SEND, SendRequestV2), (11, PULL, PullRequest)):
            first, again = (decode(self.frame(raw_of(code, fields, opaque))) for opaque in (1, -2))
            self.assertEqual((first.opaque, again.opaque), (1, -2))
            for command in first, again:
                self.assertEqual((command.code, command.body, command.encoding), (code, b"body", BINARY))
                self.assertEqual((command.language, command.version, command.remark), (0, 409, None))
                self.assertIsInstance(command.header, kind)
                self.assertEqual(command.fields, fields)
            self.assertEqual(first.header, again.header)

    def test_recorded(self) -> None:
        """Recorded binary requests are read the same when they come again."""
        for each in recorded():
            if each.about["serialize"] == "JSON":
                continue
            first, again = decode(each.frame), decode(each.frame)
            self.assertEqual(first.header, again.header)
            self.assertEqual(first.fields, again.fields)

    def test_broken(self) -> None:
        """A hot request whose fields are wrong says so to whoever reads it, every time."""
        fields: dict[str, Any] = SEND | {"e": "zero"}
        for _ in range(2):
            command = decode(self.frame(raw_of(RequestCode.SEND_MESSAGE_V2, fields)))
            error = self.assertRaises(BadHeader, command.read, SendRequestV2)
            self.assertIn("<e>", str(error))
