"""Tests of L{smartgo.schema.properties}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.properties import (
    TagCodes,
    decode,
    decode_text,
    encode,
    find,
    java_hash,
    join,
    split_keys,
    tag_code,
)
from tests import golden_store
from tests.doctests import DocTestCase

ALPHABET = [*"abcXYZ019_.- =", "é", "标", "😀", "\n"]
NAMES = ["KEYS", "TAGS", "WAIT", "DELAY", "UNIQ_KEY", "CLUSTER", "TRAN_MSG", "BUYER_ID", "MSG_REGION", "TRACE_ON"]


def word(random: Random, shortest: int, longest: int) -> str:
    """A few random characters."""
    return "".join(random.choices(ALPHABET, k=random.randint(shortest, longest)))


def property_string(random: Random, well_formed: bool = False) -> str:
    """What a client might send; mostly well formed, unless that is asked for altogether."""
    pairs = []
    for _ in range(random.choice([0, 1, 2, 3, 4, 5, 6, 7, 13, 30])):
        odd = not well_formed and random.random() < 0.1
        name = random.choice(NAMES) if random.random() < 0.5 else word(random, 0 if odd else 1, 5)
        value = random.choice(["true", "False", "TRUE"]) if name == "WAIT" else word(random, 0 if odd else 1, 9)
        pairs.append(name + random.choice(["\x01", "", "\x01\x01"] if odd else ["\x01"]) + value)
    return "\x02".join(pairs) + random.choice(["", "\x02"] if well_formed else ["", "\x02", "\x02\x02"])


class ExampleTests(DocTestCase, module="smartgo.schema.properties"):
    """The examples in its docstrings."""


class JavaHashTests(SynchronousTestCase):
    def test_vectors(self) -> None:
        """Java's values, the lowest integer and characters of two units included."""
        vectors = {
            "": 0,
            "TagA": 2598919,
            "polygenelubricants": -2147483648,
            "标签😀": 825518074,
            "中文": 646394,
            "d": 100,
        }
        self.assertEqual({text: java_hash(text) for text in vectors}, vectors)

    def test_definition(self) -> None:
        """Whatever the length, it is h = 31 h + u over the UTF-16 units, wrapped to 32 bits."""
        random = Random(3)
        for size in [*range(40), 255, 256, 257, 511, 512, 513, 3000]:
            text = "".join(random.choices(ALPHABET if size % 2 else "abc", k=size))
            units = text.encode("utf-16-be")
            value = 0
            for at in range(0, len(units), 2):
                value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
            self.assertEqual(java_hash(text) & 0xFFFFFFFF, value, size)
            self.assertTrue(-(2**31) <= java_hash(text) < 2**31)

    def test_lone_surrogate(self) -> None:
        """Half a character counts as the one unit it is."""
        self.assertEqual(java_hash("\ud83d"), 0xD83D)

    def test_tag_code(self) -> None:
        """A tag's code is its hash, no tag's is 0; asking for many tags forgets, but stays right."""
        self.assertEqual((tag_code(None), tag_code("")), (0, 0))
        self.assertEqual(tag_code("x" * 500), java_hash("x" * 500))
        codes = TagCodes()
        for round_ in range(2):
            for number in range(5000):
                tag = f"tag{number}"
                found = codes.of_stored(f"TAGS\x01{tag}\x02".encode())
                if number % 500 == round_:
                    self.assertEqual(found, java_hash(tag))
        self.assertLessEqual(len(codes._codes), 4096)
        self.assertEqual(codes.of_stored(b"TAGS\x01" + b"x" * 500), java_hash("x" * 500))
        self.assertNotIn(b"x" * 500, codes._codes)


class DecodeTests(SynchronousTestCase):
    def test_drops(self) -> None:
        """A pair without name, value or separator is dropped; a value may hold the separator."""
        self.assertEqual(decode_text("A\x01\x02B\x01x\x02CC\x01\x02D\x01y"), {"B": "x", "D": "y"})
        self.assertEqual(decode_text("\x01x\x02abc\x02\x02E\x01\x01z"), {"E": "\x01z"})
        self.assertEqual(decode_text(""), {})

    def test_last_wins(self) -> None:
        """Of a name that occurs twice the last value counts, at the first's place."""
        self.assertEqual(list(decode_text("a\x011\x02b\x012\x02a\x013").items()), [("a", "3"), ("b", "2")])

    def test_trailing(self) -> None:
        """The trailing separator that 5.x writes makes no difference."""
        self.assertEqual(decode(b"a\x011\x02"), decode(memoryview(b"a\x011")))

    def test_not_utf8(self) -> None:
        """Bytes that are no UTF-8 become replacement characters, as in Java."""
        self.assertEqual(decode(b"a\x01\xffx"), {"a": "\ufffdx"})

    def test_find(self) -> None:
        """Looking for one name gives what decoding everything gives."""
        random = Random(4)
        for _ in range(3000):
            raw = property_string(random).encode()
            everything = decode(raw)
            for name in ("TAGS", "KEYS", "a", "WAIT"):
                self.assertEqual(find(raw, name), everything.get(name), raw)
            self.assertEqual(TagCodes().of_stored(raw), tag_code(everything.get("TAGS")), raw)

    def test_find_empty(self) -> None:
        """An empty value does not count, and an earlier one that is not empty does."""
        self.assertIsNone(find(b"TAGS\x01", "TAGS"))
        self.assertIsNone(find(b"TAGS\x01\x02TAGS\x01\x02", "TAGS"))
        self.assertEqual(find(b"TAGS\x01a\x02TAGS\x01\x02k\x01v", "TAGS"), "a")
        self.assertEqual(find(b"xTAGS\x01a\x02TAGS\x01b\x02TAGSx\x01c", "TAGS"), "b")
        for raw, tags in (
            (b"TAGS\x01", None),
            (b"TAGS\x01a\x02TAGS\x01\x02k\x01v", "a"),
            (b"xTAGS\x01a\x02TAGS\x01b\x02TAGSx\x01c", "b"),
            (b"xTAGS\x01a", None),
            (b"k\x01v\x02TAGS\x01\xff", "\ufffd"),
            (b"k\x01TAGS\x01a", None),
        ):
            self.assertEqual(TagCodes().of_stored(raw), tag_code(tags), raw)

    def test_split_keys(self) -> None:
        """Keys are separated by blanks, however many."""
        self.assertEqual(split_keys(" a  b c "), ["a", "b", "c"])
        self.assertEqual(split_keys(""), [])


class EncodeTests(SynchronousTestCase):
    def test_golden(self) -> None:
        """Decoding and encoding gives the bytes of every real record that has no name twice."""
        same = repeated = 0
        for name in golden_store.NAMES:
            store = golden_store.read(name)
            log = dict(store.logs())
            for each in store.manifest["messages"]:
                base = each["physicalOffset"] // golden_store.LOG_SIZE * golden_store.LOG_SIZE
                at = each["physicalOffset"] - base
                record = log[base][at : at + each["storeSize"]]
                body_end = 88 + int.from_bytes(record[84:88], "big")
                raw = record[body_end + 1 + record[body_end] + 2 :]
                names = [pair.partition(b"\x01")[0] for pair in raw.split(b"\x02")]
                if len(set(names)) < len(names):
                    repeated += 1
                    continue
                self.assertEqual(encode(decode(raw)), raw)
                same += 1
        self.assertEqual((same, repeated), (2 * 589, 2 * 30))

    def test_table_grows(self) -> None:
        """The table doubles when more than three quarters full, before names are dropped, and never shrinks."""
        names = [chr(97 + number) * (1 + number % 4) for number in range(13)]
        mapping = dict.fromkeys(names, "v")

        def order(buckets: int) -> list[str]:
            spread = {name: java_hash(name) & 0xFFFFFFFF for name in names}
            return sorted(names, key=lambda name: (spread[name] ^ spread[name] >> 16) & (buckets - 1))

        self.assertNotEqual(order(16), order(32))
        self.assertEqual(list(decode(encode(mapping))), order(32))
        kept = [name for name in order(32) if name != "e"]
        self.assertEqual(list(decode(encode(mapping, ["e"]))), kept)
        names.remove("e")
        del mapping["e"]
        self.assertEqual(list(decode(encode(mapping))), order(16))

    def test_surrogate(self) -> None:
        """Half a character is written as a question mark, as Java does."""
        self.assertEqual(encode({"a": "x\ud83dy"}), b"a\x01x?y")

    def test_join(self) -> None:
        """A batch's properties follow a message's own after one separator, which is not doubled."""
        self.assertEqual(join(b"a\x011", b"b\x012"), b"a\x011\x02b\x012")
        self.assertEqual(join(b"a\x011\x02", b"b\x012"), b"a\x011\x02b\x012")
        self.assertEqual((join(b"", b"b\x012"), join(b"a\x011", b"")), (b"b\x012", b"a\x011"))
