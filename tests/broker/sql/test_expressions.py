"""Expressions as trees: their texts in errors, and what of them is evaluated."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.sql import expressions as sql
from smartgo.broker.sql.expressions import Expression
from smartgo.broker.sql.javavalues import EvaluationFailed, ValueKind
from smartgo.errors import SubscriptionParseFailed

A = sql.property_of("a")
ONE = sql.decimal("1")


class ExpressionTests(SynchronousTestCase):
    def test_texts(self) -> None:
        """An expression looks as in RocketMQ's errors."""
        equal = sql.equal(A, ONE)
        for expression, text in (
            (sql.constant(ValueKind.STRING, "it's"), "'it''s'"),
            (sql.constant(ValueKind.BOOLEAN, None), "NULL"),
            (sql.constant(ValueKind.BOOLEAN, True), "TRUE"),
            (sql.both(sql.both(equal, A), sql.negation(equal)), "(((a == 1) && a) && (NOT (a == 1)))"),
            (sql.negate(A), "(- a)"),
            (sql.among(A, ["x", "y"], False), "a NOT IN ( x, y )"),
            (sql.search("CONTAINS", A, "x", False), "(NOT CONTAINS a)"),
        ):
            self.assertEqual(expression.text(), text)

    def test_short_circuit(self) -> None:
        """A condition that decides ends a chain, so that a later one that fails is not asked; an unknown one is not."""
        fails = sql.ordered(">", sql.property_of("x"), ONE)
        properties = {"a": "1", "x": "none"}
        is_one = sql.equal(A, ONE)
        self.assertIs(sql.either(is_one, fails).evaluate(properties), True)
        self.assertRaises(EvaluationFailed, sql.either(fails, is_one).evaluate, properties)
        self.assertRaises(EvaluationFailed, sql.both(sql.equal(sql.property_of("z"), ONE), fails).evaluate, properties)

    def test_flat(self) -> None:
        """A chain of one operator is one expression with many parts."""
        chain: Expression = sql.condition(A)
        for _ in range(300):
            chain = sql.either(chain, A)
        self.assertEqual((len(chain.parts), chain.depth), (301, 3))

    def test_depth(self) -> None:
        """An expression is at most 32 deep."""
        deep = A
        with self.assertRaises(SubscriptionParseFailed) as caught:
            for _ in range(40):
                deep = sql.negate(deep)
        self.assertEqual((deep.depth, caught.exception.code), (32, 23))
