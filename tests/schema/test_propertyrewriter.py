"""Tests of L{smartgo.schema.propertyrewriter}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import MessageIllegal
from smartgo.schema.properties import decode, decode_text, encode, java_hash
from smartgo.schema.propertyrewriter import Rewriter, Rewritten
from tests import golden_store
from tests.schema.test_properties import property_string


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
        """A message has at most 2048 keys."""
        rewriter = Rewriter({"CLUSTER": "c"})
        for _ in range(6):
            for keys in (" ".join("k" * 2048), "  ".join(["key"] * 2048), "x" * 5000):
                self.assertIn(keys.encode(), rewriter.rewrite("KEYS\x01" + keys).raw)
            self.assertRaises(MessageIllegal, rewriter.rewrite, "KEYS\x01" + " ".join("k" * 2049))

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
