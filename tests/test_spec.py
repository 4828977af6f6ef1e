"""The specification in docs/spec: every rule and page that is cited has an anchor there, and no anchor stands twice."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import cache

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.known import NOT_BUILT

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPEC = os.path.join("docs", "spec")

SOURCES = ("smartgo", "plugins", "tests", "benchmarks", "docs", "README.md", "CONTRIBUTING.md", "tox.ini")
"""Where citations are looked for."""
KINDS = (".py", ".rst", ".md", ".js", ".mjs", ".css", ".yml", ".yaml", ".toml", ".ini")
"""In files that end so."""
WITHOUT = (os.path.join("tests", "golden"), os.path.join("tests", "test_spec.py"), os.path.join("console", "vendor"))
"""Not in these."""

_ANCHOR = re.compile(r"^ *\.\. _([^:]+):$", re.MULTILINE)
_ID = "[BDFHLSTX][1-9][0-9]?"
_RULE = re.compile(
    r"(?<![\w./#'\"\\+-])(?<![0-9A-F]{2} )"  # no part of a word, a path or a quoted name; no byte among bytes in hex
    rf"({_ID})(?: to ({_ID}))?"
    r"(?![\w/'\"\\=+-]|\.\w| [0-9A-F]{2}\b)"
)
"""A rule by its id alone, as in a sentence: "(L13)", "F20 to F26"."""
_NAMED = re.compile(r"\breliability ((?:[A-Z]\d+(?:, | to | and )?)+)")
"""Rules behind the name of their page: "reliability D15, L5"."""
_PAGE = re.compile(r"\bdocs/spec/([a-z-]+)(?:\.rst)?(?:#([\w-]+))?")
"""A page, or a place in one: "docs/spec/broker#send"."""
_NO_PAGE = re.compile(
    r"\b(broker|client|grpc|ha|lmq|mqtt|nsq|nsq-behaviours|pop|registry|reliability|remoting|search|smartgo-differences"
    r"|store)\.md\b"
)
"""A page by the name of a file that does not exist."""
_QUOTED = re.compile(r"``[^`]*``|`[^`\n]*`")
_LITERAL = re.compile(r"^.*(?:::|\.\. code-block:: \w+)\n(?:\n|[ \t]+.*\n?)+", re.MULTILINE)


def files() -> Iterator[str]:
    """Yield the files that may cite the specification, as paths from the root."""
    for source in SOURCES:
        if os.path.isfile(os.path.join(ROOT, source)):
            yield source
        for directory, _, names in os.walk(os.path.join(ROOT, source)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(directory, name), ROOT)
                if name.endswith(KINDS) and not any(part in path for part in WITHOUT):
                    yield path


def read(path: str) -> str:
    """Return the text of a file below the root."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def pages() -> dict[str, str]:
    """Return the text of each page of the specification, by its name."""
    names = [name for name in sorted(os.listdir(os.path.join(ROOT, SPEC))) if name.endswith(".rst")]
    return {name.removesuffix(".rst"): read(os.path.join(SPEC, name)) for name in names}


def anchors(texts: Mapping[str, str]) -> Counter[str]:
    """Return how often each anchor of some pages occurs; docutils does not tell upper case from lower case."""
    return Counter(anchor.lower() for text in texts.values() for anchor in _ANCHOR.findall(text))


def prose(path: str, text: str) -> str:
    """Return what of a file is written in sentences: comments and docstrings of Python, all but code of other files."""
    if not path.endswith(".py"):
        return _QUOTED.sub(" ", _LITERAL.sub(" ", text))
    parts = [one.string for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type == tokenize.COMMENT]
    parts += [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return "\n".join(parts)


def expand(first: str, last: str) -> list[str]:
    """Return the ids of a range, such as F20 to F26; both ends where it is none."""
    if not last:
        return [first]
    if first[0] != last[0] or int(first[1:]) >= int(last[1:]):
        return [first, last]
    return [f"{first[0]}{number}" for number in range(int(first[1:]), int(last[1:]) + 1)]


@cache
def rules(path: str, text: str) -> frozenset[str]:
    """Return the ids of the rules that a file cites."""
    if not _RULE.search(text):
        return frozenset()  # most files: reading Python by its tokens takes a while
    found = {one for first, last in _RULE.findall(prose(path, text)) for one in expand(first, last)}
    for several in _NAMED.findall(" ".join(text.split())):
        found.update(re.findall(r"[A-Z]\d+", several))
    return frozenset(found)


def offences(path: str, text: str, texts: Mapping[str, str], known: Set[str]) -> list[str]:
    """
    Return one sentence for each citation of a file that leads nowhere.

    @param texts: the pages, by name.
    @param known: the anchors, in lower case.
    """
    found = [
        f"{path}: no anchor for reliability {one}"
        for one in sorted(rules(path, text))
        if f"reliability-{one.lower()}" not in known
    ]
    for page, anchor in _PAGE.findall(text):
        if page not in texts:
            found.append(f"{path}: no page docs/spec/{page}")
        elif anchor and f"{page}-{anchor.lower()}" not in known:
            found.append(f"{path}: no anchor docs/spec/{page}#{anchor}")
    found += [f"{path}: cite docs/spec/{page}#... in place of {page}.md" for page in _NO_PAGE.findall(text)]
    return found


class SpecificationTests(SynchronousTestCase):
    """What is cited is there."""

    def test_cited(self) -> None:
        """Every rule id and every page that code, tests and documents cite has its place in docs/spec."""
        texts = pages()
        known = set(anchors(texts))
        found: list[str] = []
        for path in files():
            found += offences(path, read(path), texts, known)
        self.assertEqual(found, [])

    def test_cited_at_all(self) -> None:
        """The search does find what is cited: dozens of rules, and places in several pages."""
        found: set[str] = set()
        places: set[str] = set()
        for path in files():
            if not path.startswith(SPEC):
                text = read(path)
                found |= rules(path, text)
                places.update(page for page, anchor in _PAGE.findall(text) if anchor)
        self.assertGreater(len(found), 80)
        self.assertLessEqual({"broker", "ha", "registry", "remoting", "store"}, places)

    def test_unique(self) -> None:
        """No anchor stands twice, and each begins with the name of its page."""
        texts = pages()
        self.assertEqual([anchor for anchor, count in anchors(texts).items() if count > 1], [])
        for name, text in texts.items():
            wrong = [anchor for anchor in _ANCHOR.findall(text) if not anchor.startswith(f"{name}-")]
            self.assertEqual(wrong, [], name)

    def test_rules_in_full(self) -> None:
        """Each anchor of a rule is followed by the rule of that id, and no id of a series is left out."""
        text = pages()["reliability"]
        by_letter: dict[str, list[int]] = {}
        for anchor, start in re.findall(r"^\.\. _reliability-(\w+):\n\n\*\*(\w+)", text, re.MULTILINE):
            self.assertEqual(anchor, start)
            by_letter.setdefault(anchor[0], []).append(int(anchor[1:]))
        self.assertEqual(sum(map(len, by_letter.values())), len(_ANCHOR.findall(text)))
        for letter, numbers in by_letter.items():
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)), letter)

    def test_listed(self) -> None:
        """The index of the specification lists every page, and the index of the documents lists the specification."""
        texts = pages()
        listed = set(re.findall(r":doc:`([a-z-]+)`", texts["index"]))
        self.assertEqual(listed, set(texts) - {"index"})
        self.assertIn(":doc:`spec/index`", read(os.path.join("docs", "index.rst")))

    def test_without_effect(self) -> None:
        """The settings that nothing follows yet are those that the specification names as such."""
        section = pages()["broker"].split(".. _broker-without-effect:")[1].split("\n.. _")[0]
        self.assertEqual(set(re.findall(r"``(\w+)``", section)), NOT_BUILT)


class CheckerTests(SynchronousTestCase):
    """The checker, with citations that are made up."""

    texts = {"reliability": ".. _reliability-L13:\n\n**L13.** x\n", "broker": ".. _broker-send:\n\nSends\n"}

    def check(self, text: str, path: str = "made_up.py") -> list[str]:
        """Return what is wrong with a file of that text."""
        return offences(path, text, self.texts, set(anchors(self.texts)))

    def test_known(self) -> None:
        """Citations of what is there are no offence, in whatever form."""
        for text in (
            '"""Limits (L13)."""',
            '"""The rule is reliability L13, and docs/spec/reliability#L13 is the same."""',
            "x = 1  # paused (L13)",
            '"""Sends (docs/spec/broker#send), docs/spec/broker."""',
        ):
            self.assertEqual(self.check(text), [])

    def test_unknown_rule(self) -> None:
        """A rule without an anchor is found in docstrings, in comments, in errors and in documents."""
        expected = ["made_up.py: no anchor for reliability L14"]
        for text in (
            '"""Limits (L14)."""',
            '"""Limits (L13, L14)."""',
            'def f():\n    """Wait, says reliability L14."""',
            "x = 1  # paused (L14)",
            'raise ValueError("nothing changes (reliability L14)")',
            'x = 1\n"""As L14 says."""',
        ):
            self.assertEqual(self.check(text), expected, text)
        self.assertEqual(self.check("Limits (L14).\n", "a.rst"), ["a.rst: no anchor for reliability L14"])

    def test_range(self) -> None:
        """Of a range every rule has to be there, not the ends alone."""
        self.assertEqual(
            self.check('"""L12 to L15."""'),
            [f"made_up.py: no anchor for reliability {one}" for one in ("L12", "L14", "L15")],
        )

    def test_unknown_place(self) -> None:
        """A page that is not there, a place that its page has not, and the old names of pages are found."""
        self.assertEqual(self.check('"""docs/spec/borker#send"""'), ["made_up.py: no page docs/spec/borker"])
        self.assertEqual(self.check('"""docs/spec/broker#sned"""'), ["made_up.py: no anchor docs/spec/broker#sned"])
        self.assertEqual(
            self.check('"""C{broker.md} section 3"""'), ["made_up.py: cite docs/spec/broker#... in place of broker.md"]
        )

    def test_twice(self) -> None:
        """An anchor that stands on two pages, or twice on one, is counted twice, whatever its case."""
        texts = {"a": ".. _a-x:\n\nx\n\n.. _a-X:\n\ny\n", "b": ".. _b-y:\n\ny\n"}
        self.assertEqual(anchors(texts), {"a-x": 2, "b-y": 1})

    def test_other_words(self) -> None:
        """Names of topics, hexadecimal digits, colours and code are no citations."""
        for text in (
            'topic = "T1"',
            'self.assertIn("T49", text)',
            "magic = 1  # DA A3 20 B7",
            "magic = 1  # D4 31 94",
            '"""The topic C{"T1"}, the file T1.json, a TOPIC_L14, x-L14, 0xL14."""',
        ):
            self.assertEqual(rules("made_up.py", text), set(), text)
        self.assertEqual(rules("a.rst", "Type ``send T1``::\n\n    send T1 hello\n\nand `B9`.\n"), set())
