"""Tests of smartgo.schema.fastjson."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadBody
from smartgo.schema import fastjson
from smartgo.schema.fastjson import decode, decode_with, loads, quote_keys, too_deep
from tests.doctests import DocTestCase
from tests.schema.golden_wire import recorded


class ExampleTests(DocTestCase, module="smartgo.schema.fastjson"):
    """The examples in its docstrings."""


class QuoteKeysTests(SynchronousTestCase):
    """Bare keys become strings; nothing else changes."""

    def test_integer_keys(self) -> None:
        """Integer keys are quoted wherever an object has them, with blanks or without."""
        for raw, expected in (
            (b'{0:"a:1"}', b'{"0":"a:1"}'),
            (b"{-1:1,2:{3:[{4:5}]}}", b'{"-1":1,"2":{"3":[{"4":5}]}}'),
            (b"{ 0 : 1 ,\n\t1\r:2}", b'{ "0" : 1 ,\n\t"1"\r:2}'),
        ):
            self.assertEqual(quote_keys(raw), expected)

    def test_object_keys(self) -> None:
        """An object for a key becomes the string of its JSON, its own marks escaped."""
        raw = b'{"t":{{"a":"x\\"y","b":0}:{"c":1},{"a":"","b":1}:{}},"l":[{"a":1},{"b":2}]}'
        value = json.loads(quote_keys(raw))
        self.assertEqual(
            value, {"t": {'{"a":"x\\"y","b":0}': {"c": 1}, '{"a":"","b":1}': {}}, "l": [{"a": 1}, {"b": 2}]}
        )
        self.assertEqual([json.loads(key) for key in value["t"]], [{"a": 'x"y', "b": 0}, {"a": "", "b": 1}])

    def test_strings_are_left_alone(self) -> None:
        """What looks like a key inside a string is no key."""
        for text in ("{0:1}", ",1:", '{{"a":1}:2}', '\\"{0:', "\\\\", "\u4e2d{1:", "{'", '":{0:'):
            raw = json.dumps({"k": text, text: [text, {"n": text}]}, ensure_ascii=False).encode()
            self.assertEqual(quote_keys(raw), raw)
            self.assertEqual(loads(b"{0:%s}" % raw), {"0": json.loads(raw)})

    def test_standard_json_is_left_alone(self) -> None:
        """Valid JSON comes out as it went in: every recorded body that is."""
        for each in recorded():
            body = each.frame[4 + each.about["headerLength"] :]
            if body.startswith(b"{") and not each.cut:
                try:
                    value = json.loads(body)
                except ValueError:
                    continue
                self.assertEqual(quote_keys(body), body)
                self.assertEqual(loads(body), value)

    def test_recorded_bare_keys(self) -> None:
        """Recorded bodies with bare keys become standard JSON."""
        count = 0
        for each in recorded():
            body = each.frame[4 + each.about["headerLength"] :]
            if body.startswith(b"{") and not each.cut:
                try:
                    json.loads(body)
                except ValueError:
                    self.assertEqual(json.loads(quote_keys(body)), loads(body))
                    count += 1
        self.assertGreater(count, 20)

    def test_control_characters(self) -> None:
        """Raw control characters, which stand for marks here, are refused rather than turned into quotes."""
        for number in set(range(0x20)) - set(b"\t\n\r"):
            for raw in (b'{0:"%c"}', b"{0:1%c}", b"%c{0:1}"):
                self.assertRaises(BadBody, loads, raw % number)

    def test_limits(self) -> None:
        """The work that bare keys cost is bounded."""
        self.patch(fastjson, "MARK_LIMIT", 8)
        self.patch(fastjson, "INTEGER_KEY_LIMIT", 3)
        self.patch(fastjson, "OBJECT_KEY_LIMIT", 2)
        self.assertEqual(loads(b'{0:["a","b","c","d"]}'), {"0": list("abcd")})
        self.assertRaises(BadBody, loads, b'{0:["a","b","c","d","e"]}')
        self.assertEqual(loads(b'{"0":["a","b","c","d","e"]}'), {"0": list("abcde")})
        self.assertEqual(loads(b"{{}:1,{1:2}:2}"), {"{}": 1, '{"1":2}': 2})
        self.assertRaises(BadBody, loads, b"{{}:1,{}:2,{}:3}")
        self.assertEqual(loads(b"{1:1,2:2,3:3}"), {"1": 1, "2": 2, "3": 3})
        self.assertRaises(BadBody, loads, b"{1:1,2:2,3:3,4:4}")


class LoadsTests(SynchronousTestCase):
    """Plain values."""

    def test_values(self) -> None:
        """Standard JSON is read as it is."""
        value: Any = {"a": [1, -2.5, True, False, None, "\u4e2d\U0001f600", {}], "": 9223372036854775807}
        self.assertEqual(loads(json.dumps(value).encode()), value)
        self.assertEqual(loads(json.dumps(value, ensure_ascii=False, indent=1).encode()), value)

    def test_duplicates(self) -> None:
        """Of duplicate keys the last wins, spelled either way."""
        self.assertEqual(loads(b'{"a":1,"a":2,1:3,"1":4}'), {"a": 2, "1": 4})

    def test_refused(self) -> None:
        """What is no JSON, no UTF-8, or breaks a rule on numbers is refused."""
        for raw in (
            b"",
            b"{",
            b"}",
            b"{}}",
            b'{"a":1,}',
            b"{a:1}",
            b"{'a':1}",
            b"{1.5:1}",
            b"{{:1}",
            b'"',
            b'"\\',
            b'{"a":"\xff"}',
            b'{"a":"\xed\xa0\x80"}',
            b'{"\xc3":1}',
            b'{"a":"\\ud800"}',
            b'{"a":"\\udc00\\ud800"}',
            b"NaN",
            b"[Infinity]",
            b"[-Infinity]",
            b"[1e999]",
            b"12345678901234567890",
            b"[-12345678901234567890]",
            b'{"a":"x","b":12345678901234567890}',
            b"[0.12345678901234567890]",
            b"[01]",
            b"[1.]",
            b"[+1]",
            b"\xef\xbb\xbf{}",
            b"{12345678901234567890:1}",
        ):
            self.assertRaises(BadBody, loads, raw)

    def test_long_digits_in_text(self) -> None:
        """Digits within a string are no number, however many."""
        text = "1" * 100 + '\\"2' + "3" * 40
        self.assertEqual(loads(b'{"a":"%s"}' % text.encode()), {"a": text.replace("\\", "")})

    def test_type_has_no_meaning(self) -> None:
        """Fastjson's C{@type} is a member like any other."""
        self.assertEqual(loads(b'{"@type":"java.lang.Runtime"}'), {"@type": "java.lang.Runtime"})


class DecodeTests(SynchronousTestCase):
    """Typed values."""

    def test_bare_keys(self) -> None:
        """A map with bare integer keys is read as such."""
        self.assertEqual(decode(b'{0:"a",-7:"b"}', dict[int, str]), {0: "a", -7: "b"})

    def test_unread_members(self) -> None:
        """UTF-8 is checked in members that the type lacks, too."""

        class Small(msgspec.Struct):
            a: int = 0

        decoder = msgspec.json.Decoder(Small)
        self.assertEqual(decode_with(decoder, b'{"b":"\xe4\xb8\xad"}'), Small())
        for raw in (b'{"b":"\xff"}', b'{"b":"\\ud800"}', b'{"b":NaN}', b'{"b":' + b"[" * 50000):
            self.assertRaises(BadBody, decode_with, decoder, raw)

    def test_message_is_short(self) -> None:
        """The error does not repeat what the peer sent at length."""
        kind = msgspec.defstruct("Kind", [("a", msgspec.Struct)])
        error = self.assertRaises(BadBody, decode, json.dumps({"a": "x" * 10000}).encode(), kind)
        self.assertLess(len(str(error)), 300)


class DepthTests(SynchronousTestCase):
    """The limit on the depth."""

    def test_exact(self) -> None:
        """The depth is that of the brackets, in any mixture, next to any number of shallow ones."""
        for depth in range(1, 40):
            for begin, end in ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")):
                levels = begin.count(b"[") + begin.count(b"{")
                deep = begin * depth + b"1" + end * depth
                for raw in (deep, b"[%b,%b]" % (b"[]," * 30 + b"{}", deep)):
                    actual = depth * levels + (raw is not deep)
                    self.assertEqual(too_deep(raw, 16), actual > 16, raw)

    def test_strings_do_not_count(self) -> None:
        """Brackets within strings do not count, whatever marks are escaped around them."""
        for text in ("[" * 50, "{" * 50, '"[' * 50, "\\[" * 50, '\\"]' * 50):
            self.assertFalse(too_deep(json.dumps([text, {"a": text}]).encode(), 16))
            deep: Any = text
            for _ in range(17):
                deep = [deep, text]
            self.assertTrue(too_deep(json.dumps(deep).encode(), 16))
