"""
Expressions of SQL92 filters as trees of closures, with RocketMQ's checks of operands and its three-valued logic.

Source: the package C{org.apache.rocketmq.filter.expression} of 5.3.3 (docs/spec/broker#filters). Properties are
strings, so that the kind of each operand is known when the filter is compiled, and each closure does only what its
kinds need. An unknown result (C{None}) is not a match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from smartgo.broker.sql.javavalues import (
    INT_LIMIT,
    LONG_LIMIT,
    NUMBERS,
    EvaluationFailed,
    ValueKind,
    compare_numerals,
    comparison,
    java_text,
)
from smartgo.errors import SubscriptionParseFailed

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Any]

DEPTH: Final = 32
"""How deep an expression may be nested (reliability L23)."""
SIZE: Final = 1000
"""How many operators and operands an expression may have (reliability L23): each costs about 1 us a message."""

_RUNTIME: Final = "java.lang.RuntimeException: "
_PARSE: Final = "org.apache.rocketmq.filter.parser.ParseException: "


class Expression:
    """
    An expression.

    @ivar kind: of its value, where that is not null.
    @ivar evaluate: returns the value for the properties of a message, or raises L{EvaluationFailed}.
    @ivar symbol: of the operator; empty for a constant and a property.
    @ivar parts: the operands.
    @ivar constant: it is a literal; C{value} is its value.
    @ivar depth: of the tree.
    @ivar size: of the tree: operators and operands; those that are evaluated twice count twice.
    """

    __slots__ = ("constant", "depth", "evaluate", "kind", "parts", "size", "symbol", "value")

    def __init__(
        self,
        kind: ValueKind,
        evaluate: Evaluate,
        symbol: str = "",
        parts: tuple[Expression, ...] = (),
        value: Any = None,
        constant: bool = False,
    ) -> None:
        """
        @raise SubscriptionParseFailed: it is nested too deep or too large.
        """
        self.kind = kind
        self.evaluate = evaluate
        self.symbol = symbol
        self.parts = parts
        self.value = value
        self.constant = constant
        self.depth: int = 1 + max((part.depth for part in parts), default=0)
        if self.depth > DEPTH:
            raise SubscriptionParseFailed(f"the expression is nested deeper than {DEPTH}")
        self.size: int = 1 + sum(part.size for part in parts)
        if self.size > SIZE:
            raise SubscriptionParseFailed(f"the expression has more than {SIZE} operators and operands")

    @property
    def boolean(self) -> bool:
        """True where the expression can stand as a condition, as NULL can."""
        return self.kind is ValueKind.BOOLEAN or (self.constant and self.value is None)

    def text(self) -> str:
        """Return the expression as RocketMQ's errors show it."""
        if self.constant:
            if isinstance(self.value, str):
                return "'" + self.value.replace("'", "''") + "'"
            return java_text(self.value).upper() if self.boolean else java_text(self.value)
        if not self.parts or self.symbol in ("IN", "NOT IN"):
            return str(self.value)
        first, *others = [part.text() for part in self.parts]
        if self.symbol == "":
            return first
        if not others:
            return f"({self.symbol} {first})"
        return "(" * len(others) + first + "".join(f" {self.symbol} {other})" for other in others)


# -- literals and properties ---------------------------------------------------------------------------------------


def constant(kind: ValueKind, value: Any) -> Expression:
    """Return a literal."""
    return Expression(kind, lambda properties: value, value=value, constant=True)


def decimal(text: str) -> Expression:
    """
    Return a whole number: an Integer where it fits into 32 bits, else a Long.

    @raise SubscriptionParseFailed: it exceeds 64 bits.
    """
    digits = text.rstrip("lL")
    value = int(digits) if len(digits) < 20 else LONG_LIMIT
    if value >= LONG_LIMIT:
        raise SubscriptionParseFailed(f'java.lang.NumberFormatException: For input string: "{digits}"')
    return constant(ValueKind.INTEGER if value < INT_LIMIT else ValueKind.LONG, value)


def floating(text: str) -> Expression:
    """
    Return a Double.

    @raise SubscriptionParseFailed: it is 0.0 or too small or too large for one.
    """
    value = float(text)
    if value == float("inf"):
        raise SubscriptionParseFailed(f"{_RUNTIME}{text} is greater than 1.7976931348623157E308")
    if value == 0:
        raise SubscriptionParseFailed(f"{_RUNTIME}{text} is less than 4.9E-324")
    return constant(ValueKind.DOUBLE, value)


def property_of(name: str) -> Expression:
    """Return the value of a property, null where the message has none."""
    return Expression(ValueKind.STRING, lambda properties: properties.get(name), value=name)


# -- operators -----------------------------------------------------------------------------------------------------


def negate(operand: Expression) -> Expression:
    """Return a negative number; null for everything that is not a number."""
    evaluate = operand.evaluate
    if operand.kind in NUMBERS:
        return Expression(operand.kind, lambda properties: -evaluate(properties), "-", (operand,))

    def nothing(properties: Properties) -> None:
        evaluate(properties)  # may fail

    return Expression(ValueKind.NOTHING, nothing, "-", (operand,))


def condition(expression: Expression) -> Expression:
    """
    Return an expression as a condition. A property alone is false, or unknown where the message has none.

    @raise SubscriptionParseFailed: it is neither a condition nor a property.
    """
    if expression.boolean:
        return expression
    if expression.constant or expression.parts:
        raise SubscriptionParseFailed(f"{_PARSE}Expression will not result in a boolean value: {expression.text()}")
    name = expression.value
    return Expression(ValueKind.BOOLEAN, lambda properties: False if name in properties else None, "", (expression,))


def negation(operand: Expression) -> Expression:
    """Return NOT of a condition."""
    evaluate = condition(operand).evaluate

    def opposite(properties: Properties) -> bool | None:
        value: bool | None = evaluate(properties)
        return None if value is None else not value

    return Expression(ValueKind.BOOLEAN, opposite, "NOT", (operand,))


def both(left: Expression, right: Expression) -> Expression:
    """Return AND of two conditions."""
    return _chain("&&", left, right, False)


def either(left: Expression, right: Expression) -> Expression:
    """Return OR of two conditions."""
    return _chain("||", left, right, True)


def _chain(symbol: str, left: Expression, right: Expression, decisive: bool) -> Expression:
    """Return a chain of conditions: the first value that decides ends it; else an unknown one makes it unknown."""
    left, right = condition(left), condition(right)
    parts = (*(left.parts if left.symbol == symbol else (left,)), right)
    evaluations = tuple(part.evaluate for part in parts)

    def chain(properties: Properties) -> bool | None:
        result: bool | None = not decisive
        for evaluate in evaluations:
            value: bool | None = evaluate(properties)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return Expression(ValueKind.BOOLEAN, chain, symbol, parts)


_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


def ordered(symbol: str, left: Expression, right: Expression) -> Expression:
    """
    Return a comparison by order.

    @raise SubscriptionParseFailed: an operand is a condition, a string, TRUE, FALSE or NULL.
    """
    for operand in (left, right):
        if operand.boolean or (operand.constant and operand.kind not in NUMBERS):
            raise SubscriptionParseFailed(f"{_RUNTIME}Value '{operand.text()}' cannot be compared.")
    strings = left.kind is right.kind is ValueKind.STRING
    compare = compare_numerals if strings else comparison(left.kind, right.kind)
    holds = _ORDERS[symbol]
    first, second = left.evaluate, right.evaluate

    def order(properties: Properties) -> bool | None:
        one = first(properties)
        if one is None:
            return None
        other = second(properties)
        return None if other is None else holds(compare(one, other))

    return Expression(ValueKind.BOOLEAN, order, symbol, (left, right))


def equal(left: Expression, right: Expression) -> Expression:
    """
    Return a comparison for equality.

    @raise SubscriptionParseFailed: an operand is NULL; or TRUE or FALSE is compared with a literal of another kind.
    """
    for operand in (left, right):
        if operand.constant and operand.value is None:
            raise SubscriptionParseFailed(f"{_RUNTIME}'{operand.text()}' cannot be compared.")
    if left.constant and right.constant and left.boolean and not right.boolean:
        raise SubscriptionParseFailed(f"{_RUNTIME}'{left.text()}' cannot be compared with '{right.text()}'")
    return _equal(left, right)


def is_null(operand: Expression) -> Expression:
    """Return IS NULL."""
    return _equal(operand, constant(ValueKind.BOOLEAN, None))


def _equal(left: Expression, right: Expression) -> Expression:
    compare = comparison(left.kind, right.kind)
    first, second = left.evaluate, right.evaluate

    def same(properties: Properties) -> bool | None:
        one = first(properties)
        other = second(properties)
        if one is None:
            return True if other is None else None
        return False if other is None else compare(one, other) == 0

    return Expression(ValueKind.BOOLEAN, same, "==", (left, right))


def between(value: Expression, low: Expression, high: Expression) -> Expression:
    """
    Return BETWEEN.

    @raise SubscriptionParseFailed: the limits are literals in the wrong order, NULL, or of kinds without an order.
    """
    if low.constant and high.constant:
        if low.value is None or high.value is None:
            raise SubscriptionParseFailed(f"{_RUNTIME}Illegal values of between, values can not be null!")
        try:
            order = comparison(high.kind, low.kind)(high.value, low.value)
        except EvaluationFailed as failure:
            raise SubscriptionParseFailed(str(failure)) from None
        if order < 0:
            raise SubscriptionParseFailed(
                f"{_RUNTIME}Illegal values of between, left value({java_text(low.value)}) must less than or equal to "
                f"right value({java_text(high.value)})"
            )
    return both(ordered(">=", value, low), ordered("<=", value, high))


def not_between(value: Expression, low: Expression, high: Expression) -> Expression:
    """Return NOT BETWEEN."""
    return either(ordered("<", value, low), ordered(">", value, high))


def among(operand: Expression, values: Sequence[str], wanted: bool) -> Expression:
    """
    Return IN, or NOT IN where C{wanted} is false.

    @raise SubscriptionParseFailed: the operand is not a property.
    """
    if operand.constant or operand.parts:
        raise SubscriptionParseFailed(f"{_RUNTIME}Expected a property for In expression, got: {operand.text()}")
    name = operand.value
    chosen = frozenset(values)

    def one_of(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else (value in chosen) is wanted

    symbol = "IN" if wanted else "NOT IN"
    return Expression(ValueKind.BOOLEAN, one_of, symbol, (operand,), f"{name} {symbol} ( {', '.join(values)} )")


_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda value, wanted: wanted in value,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def search(symbol: str, operand: Expression, wanted: str, positive: bool) -> Expression:
    """Return CONTAINS, STARTSWITH or ENDSWITH, or its opposite; both are false for an empty text and no string."""
    evaluate = operand.evaluate
    test = _SEARCHES[symbol]
    possible = bool(wanted) and operand.kind is ValueKind.STRING

    def found(properties: Properties) -> bool:
        if not wanted:
            return False
        value = evaluate(properties)
        return possible and value is not None and test(value, wanted) is positive

    return Expression(ValueKind.BOOLEAN, found, symbol if positive else f"NOT {symbol}", (operand,))
