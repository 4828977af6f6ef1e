"""Read the path, the query and the body of a request into the structs that its route declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import msgspec

from smartgo.ops.problems import Problem
from smartgo.ops.web.request import OpsRequest

_PARAMETER_LIMIT: Final = 64  # parameters of a query


def read_path(kind: type[msgspec.Struct] | None, values: Mapping[str, str]) -> Any:
    """Return the parts of a path as a struct, C{None} where the route declares none. @raise Problem: 400."""
    return None if kind is None else _converted(values, kind, "the path")


class QuerySchema:
    """The query schema of one route."""

    def __init__(self, kind: type[msgspec.Struct] | None) -> None:
        """@param kind: the struct of its parameters; C{None} where it takes none."""
        self._kind = kind
        self._lists: frozenset[str] = frozenset()
        self._nullable: frozenset[str] = frozenset()
        if kind is not None:
            fields = cast("msgspec.inspect.StructType", msgspec.inspect.type_info(kind)).fields
            self._lists = frozenset(one.encode_name for one in fields if _is_list(one.type))
            # They may be left out, and are not text: nobody means the word C{null} by one of them.
            self._nullable = frozenset(one.encode_name for one in fields if _is_nullable(one.type))

    def read(self, request: OpsRequest) -> Any:
        """Return the parameters as a struct, C{None} where the route takes none. @raise Problem: 400."""
        raw = request.uri.partition(b"?")[2]
        try:
            pairs = parse_qsl(
                raw.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_PARAMETER_LIMIT,
                encoding="utf-8",
            )
        except ValueError:
            raise Problem(400, "the query cannot be read", "invalid-value") from None
        if self._kind is None:
            if pairs:
                raise Problem(400, f"there is no parameter {pairs[0][0]!r}", "invalid-value")
            return None
        values: dict[str, Any] = {}
        for name, value in pairs:
            if name in self._lists:
                values.setdefault(name, []).append(value)
            elif name in self._nullable and value.lower() == "null":
                raise Problem(400, f"the query: null is not a value of {name!r}", "invalid-value")
            elif name in values:
                raise Problem(400, f"the parameter {name!r} is given twice", "invalid-value")
            else:
                values[name] = value
        return _converted(values, self._kind, "the query")


def _is_nullable(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _is_nullable(kind.type)
    return isinstance(kind, msgspec.inspect.UnionType) and kind.includes_none


def _is_list(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _is_list(kind.type)
    return isinstance(kind, msgspec.inspect.CollectionType)


def read_body(kind: Any, request: OpsRequest) -> Any:
    """Return the JSON body as a value of a type, C{None} where the route takes none. @raise Problem: 400 or 415."""
    if kind is None:
        return None
    content_type = (request.header_text("Content-Type") or "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Problem(415, "the body must be of type application/json")
    content: Any = request.content
    content.seek(0)
    try:
        return msgspec.json.decode(content.read(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body: {error}", "invalid-value") from None


def _converted(values: Any, kind: Any, place: str) -> Any:
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, f"{place}: {error}", "invalid-value") from None
