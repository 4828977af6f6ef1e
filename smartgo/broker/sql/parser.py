"""
The parser of SQL92 filters: RocketMQ's grammar by LALR(1), which takes one step a token and never goes back.

Source: C{SelectorParser.jj} of 5.3.3 (docs/spec/broker#filters), with its errors. Like RocketMQ's, it ends where an
expression is complete and the next token does not continue it: C{a = 1 b} is C{a = 1}. Only a whole token counts: text
that is none is an error.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError
from lark.parsers.lalr_interactive_parser import InteractiveParser

from smartgo.broker.sql import expressions as sql
from smartgo.broker.sql.expressions import DEPTH, Expression
from smartgo.broker.sql.javavalues import ValueKind
from smartgo.errors import SubscriptionParseFailed

_SHOWN: Final = 200  # characters of a token in an error


_GRAMMAR: Final = r"""
?start: or
?or: and
    | or _OR and                                -> either
?and: equality
    | and _AND equality                         -> both
?equality: comparison
    | equality _EQUAL comparison                -> equal
    | equality _UNEQUAL comparison              -> not_equal
    | equality _IS NULL                         -> is_null
    | equality _IS _NOT NULL                    -> is_not_null
?comparison: unary
    | comparison order unary                    -> ordered
    | comparison word STRING                    -> search
    | comparison _NOT word STRING               -> not_search
    | comparison _BETWEEN unary _AND unary      -> between
    | comparison _NOT _BETWEEN unary _AND unary -> not_between
    | comparison _IN strings                    -> among
    | comparison _NOT _IN strings               -> not_among
order: MORE | NOT_LESS | LESS | NOT_MORE
word: CONTAINS | STARTSWITH | ENDSWITH
strings: _OPEN STRING (_COMMA STRING)* _CLOSE
?unary: _PLUS unary
    | _MINUS unary                              -> negate
    | _NOT unary                                -> negation
    | primary
?primary: STRING                                -> string
    | DECIMAL                                   -> decimal
    | FLOAT                                     -> floating
    | TRUE                                      -> true
    | FALSE                                     -> false
    | NULL                                      -> null
    | ID                                        -> named
    | _OPEN or _CLOSE

_NOT: "NOT"i
_AND: "AND"i
_OR: "OR"i
_BETWEEN: "BETWEEN"i
_IN: "IN"i
TRUE: "TRUE"i
FALSE: "FALSE"i
NULL: "NULL"i
_IS: "IS"i
CONTAINS: "CONTAINS"i
STARTSWITH: "STARTSWITH"i
ENDSWITH: "ENDSWITH"i
_EQUAL: "="
_UNEQUAL: "<>"
MORE: ">"
NOT_LESS: ">="
LESS: "<"
NOT_MORE: "<="
_OPEN: "("
_COMMA: ","
_CLOSE: ")"
_MINUS: "-"
_PLUS: "+"
FLOAT.2: /[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
DECIMAL.1: /0|[1-9][0-9]*[lL]?/
STRING: /'(''|[^'])*'/
ID: /(?a:[a-z_$][a-z0-9_$]*)/i
BLANK: /[ \t\n\r\f]+/
LINE_COMMENT.3: /--[^\n\r]*(\r\n|\n|\r)/
BLOCK_COMMENT.3: /\/\*[^*]*\*(\*|[^*\/][^*]*\*)*\//
%ignore BLANK
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""

_IMAGES: Final = {
    "_NOT": '"NOT"',
    "_AND": '"AND"',
    "_OR": '"OR"',
    "_BETWEEN": '"BETWEEN"',
    "_IN": '"IN"',
    "TRUE": '"TRUE"',
    "FALSE": '"FALSE"',
    "NULL": '"NULL"',
    "_IS": '"IS"',
    "CONTAINS": '"CONTAINS"',
    "STARTSWITH": '"STARTSWITH"',
    "ENDSWITH": '"ENDSWITH"',
    "DECIMAL": "<DECIMAL_LITERAL>",
    "FLOAT": "<FLOATING_POINT_LITERAL>",
    "STRING": "<STRING_LITERAL>",
    "ID": "<ID>",
    "_EQUAL": '"="',
    "_UNEQUAL": '"<>"',
    "MORE": '">"',
    "NOT_LESS": '">="',
    "LESS": '"<"',
    "NOT_MORE": '"<="',
    "_OPEN": '"("',
    "_COMMA": '","',
    "_CLOSE": '")"',
    "_MINUS": '"-"',
    "_PLUS": '"+"',
}
"""How RocketMQ's errors show each kind of token, in their order."""

_ESCAPES: Final = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}


class SelectorParser:
    """The parser; making one takes some 30 ms."""

    def __init__(self) -> None:
        self._lark = Lark(_GRAMMAR, parser="lalr", lexer="basic", transformer=_Builder())

    def parse(self, text: str) -> Expression:
        """
        Return a filter as a condition.

        @raise SubscriptionParseFailed: it is none, with the words of a RocketMQ broker; or it is too deep or too large.
        """
        run = self._lark.parse_interactive(text)
        level = count = 0
        last: Token | None = None
        try:
            for token in run.lexer_thread.lex(run.parser_state):
                if not _feed(run, token):
                    break
                last = token
                count += 1
                level += (token.type == "_OPEN") - (token.type == "_CLOSE")
                if level > DEPTH:
                    raise SubscriptionParseFailed(f"the expression is nested deeper than {DEPTH}")
            found: Expression = run.feed_eof(last)
        except UnexpectedCharacters as error:
            raise SubscriptionParseFailed(_lexical_error(text, error)) from None
        except UnexpectedToken as error:
            raise SubscriptionParseFailed(_syntax_error(text, error.token, self._accepted(text, count))) from None
        except VisitError as error:
            raise error.orig_exc from None
        return sql.condition(found)

    def _accepted(self, text: str, count: int) -> set[str]:
        """Return the kinds of tokens that may follow the first C{count}; the state after an error does not tell."""
        run = self._lark.parse_interactive(text)
        for token in islice(run.lexer_thread.lex(run.parser_state), count):
            run.feed_token(token)
        accepted: set[str] = run.accepts()
        return accepted


def _feed(run: InteractiveParser, token: Token) -> bool:
    """Take a token; tell whether it continues the expression, raise C{UnexpectedToken} where that is not complete."""
    try:
        run.feed_token(token)
    except UnexpectedToken:
        if "$END" not in run.accepts():
            raise
        return False
    return True


def _syntax_error(text: str, token: Token, accepted: set[str]) -> str:
    """Return the words of JavaCC's C{ParseException}."""
    if token.type != "$END":
        image = _escaped(token if len(token) <= _SHOWN else f"{token[:_SHOWN]}...")
        seen = f'" {_IMAGES[token.type]} "{image} "" at line {token.line}, column {token.column}'
    else:
        line = text.count("\n", 0, -1) + bool(text)
        seen = f'"<EOF>" at line {line}, column {len(text) - 1 - text.rfind(chr(10), 0, -1)}'
    expected = [image for kind, image in _IMAGES.items() if kind in accepted]
    intro = "Was expecting:" if len(expected) == 1 else "Was expecting one of:"
    listed = "".join(f"{image} ...\n    " for image in expected)
    return f"org.apache.rocketmq.filter.parser.ParseException: Encountered {seen}.\n{intro}\n    {listed}"


def _lexical_error(text: str, error: UnexpectedCharacters) -> str:
    """Return the words of JavaCC's C{TokenMgrError}."""
    character = text[error.pos_in_stream or 0]
    return (
        f"org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at line {error.line}, column {error.column}.  "
        f'Encountered: "{_escaped(character)}" ({ord(character)}), after : ""'
    )


def _escaped(text: str) -> str:
    return "".join(
        _ESCAPES.get(ord(one)) or (one if " " <= one <= "~" else f"\\u{min(ord(one), 0xFFFF):04x}") for one in text
    )


def _unquoted(literal: str) -> str:
    return literal[1:-1].replace("''", "'")


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Make an expression of each rule, while the text is read."""

    both = staticmethod(sql.both)
    either = staticmethod(sql.either)
    equal = staticmethod(sql.equal)
    between = staticmethod(sql.between)
    not_between = staticmethod(sql.not_between)
    negate = staticmethod(sql.negate)
    negation = staticmethod(sql.negation)

    def not_equal(self, left: Expression, right: Expression) -> Expression:
        return sql.negation(sql.equal(left, right))

    def is_null(self, operand: Expression, null: Token) -> Expression:
        return sql.is_null(operand)

    def is_not_null(self, operand: Expression, null: Token) -> Expression:
        return sql.negation(sql.is_null(operand))

    def order(self, symbol: Token) -> str:
        return str(symbol)

    def word(self, symbol: Token) -> str:
        return symbol.upper()

    def ordered(self, left: Expression, symbol: str, right: Expression) -> Expression:
        return sql.ordered(symbol, left, right)

    def search(self, operand: Expression, symbol: str, wanted: Token) -> Expression:
        return sql.search(symbol, operand, _unquoted(wanted), True)

    def not_search(self, operand: Expression, symbol: str, wanted: Token) -> Expression:
        return sql.search(symbol, operand, _unquoted(wanted), False)

    def strings(self, *values: Token) -> list[str]:
        return [_unquoted(value) for value in values]

    def among(self, operand: Expression, values: list[str]) -> Expression:
        return sql.among(operand, values, True)

    def not_among(self, operand: Expression, values: list[str]) -> Expression:
        return sql.among(operand, values, False)

    def string(self, literal: Token) -> Expression:
        return sql.constant(ValueKind.STRING, _unquoted(literal))

    def decimal(self, digits: Token) -> Expression:
        return sql.decimal(str(digits))

    def floating(self, digits: Token) -> Expression:
        return sql.floating(str(digits))

    def true(self, word: Token) -> Expression:
        return sql.constant(ValueKind.BOOLEAN, True)

    def false(self, word: Token) -> Expression:
        return sql.constant(ValueKind.BOOLEAN, False)

    def null(self, word: Token) -> Expression:
        return sql.constant(ValueKind.BOOLEAN, None)

    def named(self, name: Token) -> Expression:
        return sql.property_of(str(name))
