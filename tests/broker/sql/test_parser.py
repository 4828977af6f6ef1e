"""
The parser of SQL92 filters, against what a RocketMQ broker makes of the same texts.

C{tests/golden/sql92/filters.jsonl} has one case a line: text, properties, and what C{SelectorParser} and expressions of
RocketMQ 5.3.3 did: C{value} true, false or null; C{error} where the evaluation failed; C{refused} with the words of
the exception. The first part holds the cases of C{ExpressionTest} and C{ParserTest}, the rest was generated.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.sql.javavalues import EvaluationFailed
from smartgo.broker.sql.parser import SelectorParser
from smartgo.errors import SubscriptionParseFailed

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "sql92" / "filters.jsonl"


def evaluate(parser: SelectorParser, text: str, properties: dict[str, str]) -> tuple[str, Any]:
    """Return what becomes of a case, in the words of the golden file."""
    try:
        expression = parser.parse(text)
    except SubscriptionParseFailed as error:
        return "refused", str(error)
    try:
        return "value", expression.evaluate(properties)
    except EvaluationFailed:
        return "error", None


class GoldenTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.parser = SelectorParser()
        self.cases = [json.loads(line) for line in GOLDEN.read_text("ascii").splitlines()]

    def test_outcomes(self) -> None:
        """Each text is accepted or refused as by RocketMQ, and has the same value for each message."""
        self.assertGreater(len(self.cases), 2000)
        wrong = []
        for text, properties, outcome, value in self.cases:
            found = evaluate(self.parser, text, properties)
            if found[0] != outcome or (outcome == "value" and found[1] is not value):
                wrong.append((text, properties, outcome, value, found))
        self.assertEqual(wrong, [])

    def test_words(self) -> None:
        """
        A refusal has RocketMQ's words.

        Three kinds differ: text that is no token (ours names the character, RocketMQ often the end of the text), what
        follows a NOT or a plus (ours names the token there, RocketMQ the sign), and casts that Java's runtime refuses.
        """
        compared = 0
        for text, properties, outcome, words in self.cases:
            if outcome != "refused" or "TokenMgrError" in words or "ClassCast" in words:
                continue
            if 'Encountered " "NOT" "' in words or 'Encountered " "+" "' in words:
                continue
            compared += 1
            self.assertEqual(evaluate(self.parser, text, properties), ("refused", words))
        self.assertGreater(compared, 150)


class ParserTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.parser = SelectorParser()

    def refused(self, text: str) -> str:
        """Return the words of a refusal."""
        error = self.assertRaises(SubscriptionParseFailed, self.parser.parse, text)
        self.assertEqual(error.code, 23)
        return str(error)

    def test_no_token(self) -> None:
        """A character that begins no token is named with its place."""
        self.assertEqual(
            self.refused("a = 1 AND\n  b ? 2"),
            "org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at line 2, column 5.  "
            'Encountered: "?" (63), after : ""',
        )

    def test_deep(self) -> None:
        """Brackets and operators may be nested 32 deep, not deeper."""
        deep = "nested deeper than 32"
        self.assertTrue(self.parser.parse("(" * 32 + "a=1" + ")" * 32).evaluate({"a": "1"}))
        self.assertIn(deep, self.refused("(" * 33 + "a=1" + ")" * 33))
        self.assertIs(self.parser.parse("NOT " * 29 + "a=1").evaluate({"a": "1"}), False)
        self.assertIn(deep, self.refused("NOT " * 40 + "a=1"))
        self.assertIn(deep, self.refused("a=b" * 40))
        self.assertIn(deep, self.refused("a" + "=b" * 40))
        self.assertIn(deep, self.refused("a > " + "-" * 2 + " -" * 2000 + "1"))

    def test_long(self) -> None:
        """A chain of conditions is not nested, however long."""
        text = " OR ".join(f"a={number}" for number in range(300))
        self.assertTrue(self.parser.parse(text).evaluate({"a": "299"}))
        self.assertIs(self.parser.parse(text).evaluate({"a": "500"}), False)
        self.assertIsNone(self.parser.parse(text).evaluate({}))

    def test_large(self) -> None:
        """An expression has at most 1,000 operators and operands; those that are evaluated twice count twice."""
        self.assertIn("more than 1000", self.refused(" OR ".join(f"a={number}" for number in range(400))))
        nested = "a"
        for _ in range(9):
            nested = f"-({nested} BETWEEN 1 AND 2)"
        self.assertIn("more than 1000", self.refused(nested + " = 1"))

    def test_time(self) -> None:
        """Texts of 4 KiB that invite going back are refused or read in one pass."""
        begin = time.process_time()
        for text in (
            "a='" + "''" * 2040,
            "/*" + "*" * 4090,
            "/*" + "/*" * 2040,
            "-" * 4096,
            "a" + " NOT" * 1000,
            "a IN (" + "'x'," * 1000,
            "a BETWEEN " * 400,
            "(" * 4096,
            "1" * 4096,
        ):
            self.refused(text)
        self.parser.parse("+" * 4095 + "a")
        self.assertLess(time.process_time() - begin, 5.0)

    def test_long_token(self) -> None:
        """An error shows the beginning of a long token."""
        words = self.refused("a IN (" + "x" * 4000 + ")")
        self.assertIn("x" * 200 + '... "" at line 1, column 7', words)
        self.assertLess(len(words), 500)
