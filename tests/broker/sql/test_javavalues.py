"""Java's conversions and comparisons of values."""

from __future__ import annotations

import math

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.sql import javavalues
from smartgo.broker.sql.javavalues import EvaluationFailed, ValueKind, comparison, java_text


class ConversionTests(SynchronousTestCase):
    def test_whole(self) -> None:
        """An int has 32 bits, a long 64; digits of any script count, blanks and underscores do not."""
        self.assertEqual([javavalues.to_integer(text) for text in ("2147483647", "-2147483648", "+7", "٣")],
                         [2147483647, -2147483648, 7, 3])  # fmt: skip
        self.assertEqual(javavalues.to_long("-9223372036854775808"), -(1 << 63))
        for text in ("2147483648", "", " 1", "1_0", "1.0", "0x10", "+", "1" * 5000, "\U0001d7cf"):
            self.assertRaises(EvaluationFailed, javavalues.to_integer, text)
        self.assertRaises(EvaluationFailed, javavalues.to_long, "9223372036854775808")

    def test_double(self) -> None:
        """A double may have blanks around it, an exponent, a suffix, hexadecimal digits."""
        for text, value in ((" 1.5\n", 1.5), (".5f", 0.5), ("5.D", 5.0), ("1e400", math.inf), ("0x1.8p1", 3.0),
                            ("-Infinity", -math.inf), ("0x1p9999", math.inf), ("-0x1p9999", -math.inf)):  # fmt: skip
            self.assertEqual(javavalues.to_double(text), value)
        self.assertTrue(math.isnan(javavalues.to_double("NaN")))
        for text in ("", "  ", "inf", "nan", "1_0", "1ff", "e5", ".", "0x10", "\xa01"):
            self.assertRaises(EvaluationFailed, javavalues.to_double, text)

    def test_boolean(self) -> None:
        """Only C{true}, in any case, is true."""
        self.assertEqual([javavalues.to_boolean(one) for one in ("tRuE", "1", "yes", "")], [True, False, False, False])


class ComparisonTests(SynchronousTestCase):
    def test_doubles(self) -> None:
        """NaN equals itself and is above infinity; -0.0 is below 0.0."""
        compare = comparison(ValueKind.DOUBLE, ValueKind.DOUBLE)
        self.assertEqual(
            [compare(math.nan, math.nan), compare(math.nan, math.inf), compare(-0.0, 0.0), compare(0.0, 0.0)],
            [0, 1, -1, 0],
        )

    def test_kinds(self) -> None:
        """A text takes the kind of what it is compared with; kinds that do not fit are below."""
        self.assertEqual(comparison(ValueKind.STRING, ValueKind.LONG)("3000000000", 3), 1)
        self.assertEqual(comparison(ValueKind.INTEGER, ValueKind.STRING)(3, "3"), 0)
        self.assertEqual(comparison(ValueKind.INTEGER, ValueKind.DOUBLE)(3, 3.5), -1)
        self.assertEqual(comparison(ValueKind.BOOLEAN, ValueKind.INTEGER)(True, 1), -1)
        self.assertEqual(comparison(ValueKind.INTEGER, ValueKind.BOOLEAN)(1, True), -1)
        self.assertRaises(EvaluationFailed, comparison(ValueKind.STRING, ValueKind.INTEGER), "3000000000", 3)
        self.assertRaises(EvaluationFailed, comparison(ValueKind.BOOLEAN, ValueKind.STRING), True, "true")

    def test_texts(self) -> None:
        """Values look as in Java's errors."""
        self.assertEqual(
            [java_text(one) for one in (None, True, 5, 1.0, 0.001, 1e-5, 1e10, -1.25e7, 123456.5, "x", math.inf)],
            ["null", "true", "5", "1.0", "0.001", "1.0E-5", "1.0E10", "-1.25E7", "123456.5", "x", "Infinity"],
        )
