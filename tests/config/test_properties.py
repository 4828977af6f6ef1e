"""Tests of L{smartgo.config.properties}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.properties import Property, parse, render
from smartgo.errors import SettingError
from tests.doctests import DocTestCase


class ExampleTests(DocTestCase, module="smartgo.config.properties"):
    """The examples in its docstrings."""


class ParseTests(SynchronousTestCase):
    """The format of C{java.util.Properties}."""

    def pairs(self, text: str) -> list[tuple[str, str]]:
        """Keys and values of a file."""
        return [(one.key, one.value) for one in parse(text.encode())]

    def test_byte_order_mark(self) -> None:
        """A mark at the file's beginning, as some editors leave it, is no part of the first name."""
        self.assertEqual(parse(b"\xef\xbb\xbfa=1"), [Property("a", "1", 1)])

    def test_no_text(self) -> None:
        """Zero bytes are no text: the file is refused by name."""
        self.assertIn("x.conf", str(self.assertRaises(SettingError, parse, b"a=1\0", "x.conf")))

    def test_separators(self) -> None:
        """Key and value are parted by =, : or blanks, with any blanks around."""
        for text in ("a=b", "a:b", "a b", "a = b", "a\t:\tb", "  a  =  b", "a   b", "a\fb"):
            self.assertEqual(self.pairs(text), [("a", "b")], repr(text))

    def test_only_first_separator(self) -> None:
        """Only the first separator parts; later ones belong to the value."""
        self.assertEqual(self.pairs("a==b\nc: =d\ne f=g"), [("a", "=b"), ("c", "=d"), ("e", "f=g")])

    def test_no_value(self) -> None:
        """A key alone has an empty value."""
        self.assertEqual(self.pairs("a\nb=\nc :"), [("a", ""), ("b", ""), ("c", "")])

    def test_comments(self) -> None:
        """Lines that begin with # or ! after blanks, and empty ones, say nothing; a comment is not continued."""
        self.assertEqual(
            self.pairs("# x\n  ! y\\\na=1\n\n \t\nb=2 # no comment"), [("a", "1"), ("b", "2 # no comment")]
        )

    def test_line_ends(self) -> None:
        """Lines end as on any system, and are counted so."""
        self.assertEqual(
            parse(b"a=1\r\nb=2\rc=3\nd=4"),
            [Property("a", "1", 1), Property("b", "2", 2), Property("c", "3", 3), Property("d", "4", 4)],
        )

    def test_continuation(self) -> None:
        """An odd number of backslashes at the end continues the line, without the next one's leading blanks."""
        self.assertEqual(parse(b"a=1,\\\n   2,\\\n\t3\nb=x\\\\\nc=4"), [
            Property("a", "1,2,3", 1),
            Property("b", "x\\", 4),
            Property("c", "4", 5),
        ])  # fmt: skip
        self.assertEqual(parse(b"a=1\\"), [Property("a", "1", 1)])

    def test_continued_comment_sign(self) -> None:
        """A # at the start of a continued line belongs to the value."""
        self.assertEqual(self.pairs("a=1\\\n#2"), [("a", "1#2")])

    def test_escapes(self) -> None:
        """Escapes are read in keys and values; an unknown one is its letter."""
        self.assertEqual(self.pairs(r"a\ b\=c=\td\u00e9\q"), [("a b=c", "\tdé" + "q")])
        self.assertEqual(self.pairs(r"a=\ud83d\ude00"), [("a", "\N{GRINNING FACE}")])

    def test_bad_escape(self) -> None:
        """A broken \\u names file and line."""
        error = self.assertRaises(SettingError, parse, b"a=1\nb=\\u12", "broker.conf")
        self.assertEqual(str(error), "broker.conf, line 2: \\u is not followed by four hexadecimal digits")

    def test_encodings(self) -> None:
        """UTF-8 is read as such, anything else as Java does, by ISO-8859-1."""
        self.assertEqual(self.pairs("a=é"), [("a", "é")])
        self.assertEqual(parse("a=é".encode("latin-1")), [Property("a", "é", 1)])

    def test_repeated(self) -> None:
        """Repeated keys are all there, in order."""
        self.assertEqual(self.pairs("a=1\na=2"), [("a", "1"), ("a", "2")])

    def test_lone_surrogate(self) -> None:
        """Half a surrogate pair becomes a replacement character, so that the text can be written again."""
        self.assertEqual(self.pairs(r"a=\ud83d"), [("a", "\N{REPLACEMENT CHARACTER}")])

    def test_never_fails_otherwise(self) -> None:
        """Any bytes are read, or refused with a setting error."""
        random = Random(4)
        for _ in range(2000):
            data = bytes(random.choice(b"ab=: \\\n\r\t#!u0\xff\xc3") for _ in range(random.randrange(30)))
            try:
                parse(data)
            except SettingError:
                pass


class RenderTests(SynchronousTestCase):
    """The answer to a question for the configuration."""

    def test_plain(self) -> None:
        """Each setting is one line, its value as it is."""
        self.assertEqual(render([("a", "1"), ("b", "x y:z=/#")]), "a=1\nb=x y:z=/#\n")

    def test_read_back(self) -> None:
        """Any value that does not end in blanks is read back, line feeds and all."""
        random = Random(5)
        for _ in range(500):
            value = "".join(random.choice("ab =:\\\n\r\t\f#é\x01") for _ in range(random.randrange(12)))
            [(_, read, _)] = parse(render([("k", value)]).encode())
            self.assertEqual(read, value.rstrip(), repr(value))
