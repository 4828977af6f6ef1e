"""Tests of smartgo.schema.commandbinary."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadHeader
from smartgo.schema import commandbinary
from smartgo.schema.commandbinary import decode_binary, encode_binary
from smartgo.schema.commandlayout import BINARY, BINARY_HEADER


class BinaryHeaderTests(SynchronousTestCase):
    """The binary header."""

    RAW = encode_binary(310, 9, 317, 42, 2, "r\u00e9", {"a": "PG", "\u4e2d": "", "": "x"})

    def refused(self, raw: bytes) -> BadHeader:
        """Check that a header is refused as content."""
        error: BadHeader = self.assertRaises(BadHeader, decode_binary, raw)
        self.assertEqual((error.code, error.encoding), (1, BINARY))
        return error

    def test_round_trip(self) -> None:
        """What is written is read back, texts in UTF-8, empty ones included."""
        self.assertEqual(
            tuple(decode_binary(self.RAW)), (310, 9, 317, 42, 2, "r\u00e9", {"a": "PG", "\u4e2d": "", "": "x"})
        )

    def test_oracle_builds_the_same(self) -> None:
        """The construct schema builds the very bytes."""
        fields = [{"name": "a", "value": "PG"}, {"name": "\u4e2d", "value": ""}, {"name": "", "value": "x"}]
        head = {"code": 310, "language": 9, "version": 317, "opaque": 42, "flag": 2}
        self.assertEqual(
            BINARY_HEADER.build(head | {"remark_length": 3, "remark": "r\u00e9".encode(), "fields": fields}), self.RAW
        )

    def test_every_cut(self) -> None:
        """However it is cut short, it is refused, with its opaque and flag once they are there."""
        for cut in range(len(self.RAW)):
            error = self.refused(self.RAW[:cut])
            self.assertEqual((error.opaque, error.flag), (42, 2) if cut >= 17 else (None, None))

    def test_lengths(self) -> None:
        """A length inside the header that is negative or reaches past its end is refused."""
        at_remark, at_fields = 13, 17 + 3
        for at, code in ((at_remark, ">i"), (at_fields, ">i"), (at_fields + 4, ">h"), (at_fields + 7, ">i")):
            for length in (-1, 0x7FFF, -0x8000):
                broken = bytearray(self.RAW)
                struct.pack_into(code, broken, at, length)
                self.assertEqual(self.refused(bytes(broken)).opaque, 42)

    def test_not_utf8(self) -> None:
        """A remark, name or value that is not UTF-8 is refused."""
        for text in ("r\u00e9".encode(), b"PG", "\u4e2d".encode()):
            self.refused(self.RAW.replace(text, b"\xff" * len(text)))

    def test_field_count(self) -> None:
        """128 fields are read, 129 refused, the same name again counted too."""
        raw = encode_binary(1, 0, 0, 0, 0, None, {f"f{number}": "" for number in range(128)})
        self.assertEqual(len(decode_binary(raw).fields), 128)
        self.refused(encode_binary(1, 0, 0, 0, 0, None, {f"f{number}": "" for number in range(129)}))
        block = struct.pack(">h1si", 1, b"a", 0) * 129
        self.refused(struct.pack(">hBhiiii", 1, 0, 0, 0, 0, 0, len(block)) + block)

    def test_unknown_language(self) -> None:
        """A language code without a name is OTHER."""
        self.assertEqual(decode_binary(encode_binary(1, 200, 0, 0, 0, None, {})).language, 7)

    def test_bytes_after_the_fields(self) -> None:
        """Bytes after the last field are ignored, as Java does."""
        self.assertEqual(decode_binary(self.RAW + b"more"), decode_binary(self.RAW))


class LayoutTests(SynchronousTestCase):
    """A block of fields that looks like one seen before is cut where that one was, if it may be."""

    def block(self, *fields: tuple[str, str]) -> bytes:
        """A binary header with these fields."""
        parts = [struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
                 for name, value in fields]  # fmt: skip
        body = b"".join(parts)
        return struct.pack(">hBhiii", 310, 3, 409, 7, 0, 0) + struct.pack(">i", len(body)) + body

    def test_same_size(self) -> None:
        """Blocks of one size but other names, lengths or orders are each read right, whatever came before."""
        blocks = [
            (("a", "xyz"), ("b", "1")),
            (("a", "xy"), ("b", "12")),
            (("b", "1"), ("a", "xyz")),
            (("c", "xyz"), ("b", "1")),
            (("a", "\u00e9z"), ("b", "1")),
            (("a", "uvw"), ("b", "2")),
            (("ab", "xy"), ("b", "1")),
        ]
        for first in blocks:
            for second in blocks:
                for fields in (first, second, first):
                    self.assertEqual(decode_binary(self.block(*fields)).fields, dict(fields))

    def test_name_twice(self) -> None:
        """A name that comes twice keeps its last value the second time as well."""
        for _ in range(2):
            self.assertEqual(decode_binary(self.block(("a", "1"), ("b", "2"), ("a", "3"))).fields, {"a": "3", "b": "2"})

    def test_bent(self) -> None:
        """A known block with any byte changed is read as by a reader that never saw it."""
        good = bytearray(self.block(("topic", "T"), ("queueId", "0"), ("offset", "123")))
        decode_binary(bytes(good))
        for at in range(21, len(good)):
            for flip in (1, 128):
                bent = bytearray(good)
                bent[at] ^= flip
                self.assertEqual(self.outcome(bytes(bent)), self.outcome(bytes(bent), fresh=True), at)
                decode_binary(bytes(good))

    def outcome(self, raw: bytes, fresh: bool = False) -> object:
        """The fields, or the words of the refusal."""
        if fresh:
            commandbinary._layouts.clear()
        try:
            return decode_binary(raw).fields
        except BadHeader as error:
            return str(error)
