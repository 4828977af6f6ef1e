"""Tests of L{smartgo.schema.properties}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import MessageIllegal
from smartgo.schema.properties import (
    Rewriter,
    Rewritten,
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


class RewriterTests(SynchronousTestCase):
    def expected(self, text: str, added: dict[str, str], dropped: tuple[str, ...]) -> Rewritten:
        """Decode, edit, encode."""
        found = decode_text(text)
        found.update(added)
        return Rewritten(
            encode(found, dropped),
            java_hash(found.get("TAGS", "")),
            found.get("WAIT", "true").lower() == "true",
            "DELAY" in found or "TRAN_MSG" in found or "INNER_MULTI_DISPATCH" in found,
        )

    def test_broker(self) -> None:
        """The broker's own classes give the same bytes, tag hash and wait flag."""
        rewriter = Rewriter({"CLUSTER": "DefaultCluster"})
        cases = golden_store.properties()
        self.assertGreater(len(cases), 200)
        for _ in range(8):  # the first times by the long way, then by plans
            for case in cases:
                got = rewriter.rewrite(case["sent"])
                self.assertEqual(got.raw.decode(), case["stored"])
                self.assertEqual((got.tag_code, got.wait), (case["tag_code"], case["wait"]))
        self.assertGreater(len(rewriter._plans), 50)

    def test_long_way(self) -> None:
        """Planned or not, thousands of random strings come out as by decoding, editing and encoding."""
        random = Random(5)
        for added, dropped in (
            ({"CLUSTER": "c"}, ("WAIT",)),
            ({"CLUSTER": "c", "MSG_REGION": "r"}, ("WAIT", "BUYER_ID")),
            ({}, ("WAIT",)),
            ({"CLUSTER": "c"}, ()),
        ):
            rewriter = Rewriter(added, dropped)
            texts = [property_string(random, well_formed=number % 2 == 0) for number in range(600)]
            for _ in range(6):
                random.shuffle(texts)
                for text in texts:
                    self.assertEqual(rewriter.rewrite(text), self.expected(text, added, dropped), repr(text))
            self.assertGreater(len(rewriter._plans), 100)

    def test_same_names_other_values(self) -> None:
        """A plan made for some names serves other values, and not strings that only look alike."""
        rewriter = Rewriter({"CLUSTER": "c"})
        for _ in range(10):
            rewriter.rewrite("TAGS\x01a\x02k\x01v")
        self.assertEqual(len(rewriter._plans), 1)
        for text in (
            "TAGS\x01b\x02k\x01\x01w",
            "TAGS\x01b\x02k\x01w\x02",
            "TAGS\x01b\x02k\x01",
            "TAGS\x01\x02k\x01w",
            "TAGS\x02k\x01w",
            "TAGS\x01b\x02\x02k\x01w",
            "\x02TAGS\x01b\x02k\x01w",
            "TAGS\x01b\x02k\x01w\n",
            "TAGS\x01b\x02kk\x01w",
            "k\x01b\x02TAGS\x01w",
        ):
            self.assertEqual(rewriter.rewrite(text), self.expected(text, {"CLUSTER": "c"}, ("WAIT",)), repr(text))

    def test_odd_names(self) -> None:
        """Names that mean something to a pattern are plain names."""
        rewriter = Rewriter({"CLUSTER": "c"})
        for _ in range(6):
            for text in ("a.b\x011\x02(x\x012", "axb\x011\x02(x\x012", "[^]\x011", "\\\x011"):
                self.assertEqual(rewriter.rewrite(text), self.expected(text, {"CLUSTER": "c"}, ("WAIT",)))

    def test_wait(self) -> None:
        """Only the word true, in any case, waits; so does the absence of the property."""
        rewriter = Rewriter({"CLUSTER": "c"})
        for value, waits in (("true", True), ("True", True), ("false", False), ("no", False), ("true ", False)):
            for _ in range(6):
                self.assertEqual(rewriter.rewrite(f"a\x011\x02WAIT\x01{value}").wait, waits, value)
        self.assertTrue(rewriter.rewrite("a\x011").wait)

    def test_special(self) -> None:
        """Delayed, transactional and multi-dispatch messages are marked, unless the value is empty."""
        rewriter = Rewriter({"CLUSTER": "c"})
        for name in ("DELAY", "TRAN_MSG", "INNER_MULTI_DISPATCH"):
            for _ in range(6):
                self.assertTrue(rewriter.rewrite(f"{name}\x011").special)
                self.assertFalse(rewriter.rewrite(f"{name}\x01").special)
                self.assertFalse(rewriter.rewrite("TAGS\x011").special)

    def test_long_tag(self) -> None:
        """A long tag has its code too, and is not remembered."""
        rewriter = Rewriter({"CLUSTER": "c"})
        tag = "t" * 300
        for _ in range(8):
            self.assertEqual(rewriter.rewrite(f"TAGS\x01{tag}").tag_code, java_hash(tag))
        self.assertNotIn(f"TAGS\x01{tag}", rewriter._pair_codes)

    def test_record_crc(self) -> None:
        """The CRC of a record, which RocketMQ 5 keeps among its properties, is not taken over to another."""
        rewriter = Rewriter({"CLUSTER": "c"})
        for _ in range(8):
            for text in ("__CRC32#\x011234567890", "__CRC32#\x011234567890\x02a\x01b\x02"):
                self.assertNotIn(b"__CRC32#", rewriter.rewrite(text).raw)
        self.assertEqual(encode({"__CRC32#": "1234567890", "a": "b"}), b"a\x01b")

    def test_size_limit(self) -> None:
        """The stored form has at most 32 767 bytes, counted as UTF-8."""
        rewriter = Rewriter({"C": "c"})
        room = 32767 - len("C\x01c\x02n\x01")
        for _ in range(6):
            self.assertEqual(len(rewriter.rewrite("n\x01" + "x" * room).raw), 32767)
            self.assertRaises(MessageIllegal, rewriter.rewrite, "n\x01" + "x" * (room + 1))
            self.assertRaises(MessageIllegal, rewriter.rewrite, "n\x01" + "x" * (room - 1) + "é")

    def test_name_limit(self) -> None:
        """A message has at most 128 user properties; reserved ones do not count."""
        rewriter = Rewriter({"CLUSTER": "c"})
        pairs = [f"n{number}\x01v" for number in range(128)]
        reserved = "\x02TAGS\x01t\x02KEYS\x01k"
        self.assertEqual(len(decode(rewriter.rewrite("\x02".join(pairs) + reserved).raw)), 131)
        error = self.assertRaises(MessageIllegal, rewriter.rewrite, "\x02".join([*pairs, "more\x01v"]))
        self.assertIn("129", str(error))

    def test_key_limit(self) -> None:
        """A message has at most 64 keys."""
        rewriter = Rewriter({"CLUSTER": "c"})
        for _ in range(6):
            for keys in (" ".join("k" * 64), "  ".join(["key"] * 64), "x" * 300):
                self.assertIn(keys.encode(), rewriter.rewrite("KEYS\x01" + keys).raw)
            self.assertRaises(MessageIllegal, rewriter.rewrite, "KEYS\x01" + " ".join("k" * 65))

    def test_bounded(self) -> None:
        """Ever new names do not grow the memory of plans without bound."""
        rewriter = Rewriter({"CLUSTER": "c"})
        for number in range(1500):
            for _ in range(1 + 4 * (number % 3 == 0)):
                rewriter.rewrite(f"name{number}\x01v")
        self.assertLessEqual(len(rewriter._seen), 512)
        self.assertLessEqual(len(rewriter._plans), 512)
        rewriter = Rewriter({"CLUSTER": "c"})
        for number in range(6000):
            rewriter.rewrite(f"TAGS\x01tag{number}")
        self.assertLessEqual(len(rewriter._pair_codes), 4096)

    def test_reserved_for_client(self) -> None:
        """A broker cannot be told to overwrite or drop what the result speaks of."""
        for added, dropped in (({"TAGS": "x"}, ()), ({"WAIT": "x"}, ()), ({}, ("DELAY",)), ({}, ("KEYS",))):
            self.assertRaises(ValueError, Rewriter, added, dropped)
