"""Tests of L{smartgo.schema.annotate}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.annotate import fields_of, flags_in_words, hex_lines, in_a_line
from smartgo.schema.message import COMPRESSED, PREPARED, NewMessage, pack_host
from smartgo.schema.record import encode


class AnnotateTests(SynchronousTestCase):
    def test_fields(self) -> None:
        """The fields of a record follow each other without a gap, and their bytes put together are the record."""
        raw = encode(NewMessage("T", 3, b"x" * 100, b"KEYS\x01a"), 7, 1000, 1_600_000_000_000)
        fields = list(fields_of(raw))
        self.assertEqual([one.at for one in fields[1:]], [one.at + one.size for one in fields[:-1]])
        self.assertEqual(b"".join(one.raw for one in fields), raw)

    def test_words(self) -> None:
        """A field says numbers, hosts, properties and flags as people read them, and so much of a body as is asked."""
        message = NewMessage(
            "T", 3, b"line\n" * 9, b"KEYS\x01a\x02TAGS\x01b", sys_flag=COMPRESSED, born_host=pack_host("10.0.0.1", 9)
        )
        said = {one.name: one.in_words(6) for one in fields_of(encode(message, 7, 1000, 5))}
        self.assertEqual(
            {name: said[name] for name in ("queue_id", "born_host", "properties", "sys_flag", "body", "magic")},
            {
                "queue_id": "3",
                "born_host": "10.0.0.1:9",
                "properties": "KEYS=a, TAGS=b",
                "sys_flag": "0x1, compressed",
                "body": "line l",
                "magic": "0xDAA320A7",
            },
        )

    def test_flags(self) -> None:
        """The transaction's two bits are one word beside those of the others."""
        self.assertEqual(flags_in_words(COMPRESSED | PREPARED), ["compressed", "prepared"])
        self.assertEqual(flags_in_words(0xC), ["rolled back"])
        self.assertEqual(flags_in_words(0), [])

    def test_line(self) -> None:
        """What is no text is escaped, what would move a terminal's cursor is a blank, and a long one is cut."""
        self.assertEqual(in_a_line(b"a\xff\x1b\tb", 100), "a\\xff  b")
        self.assertEqual(in_a_line("ä".encode() * 10, 4), "ääää")

    def test_hex(self) -> None:
        """A dump shows position, bytes, and what is readable."""
        self.assertEqual(
            list(hex_lines(b"0123456789abcdef\xff")),
            [
                "00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef",
                "00000010  ff                                                .",
            ],
        )
