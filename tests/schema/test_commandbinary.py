"""Tests of smartgo.schema.commandbinary."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadHeader
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

    def test_name_twice(self) -> None:
        """A name that comes twice keeps its last value."""
        block = b"".join(
            struct.pack(">h1si1s", 1, name, 1, value) for name, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
        )
        raw = struct.pack(">hBhiiii", 310, 3, 409, 7, 0, 0, len(block)) + block
        self.assertEqual(decode_binary(raw).fields, {"a": "3", "b": "2"})
