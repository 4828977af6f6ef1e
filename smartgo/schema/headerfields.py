"""
Ext fields and typed headers: the texts of a command's C{extFields} <-> the value classes of L{smartgo.schema.headers}.

Ext field values travel as text. Numbers are strict (reliability B3): ASCII C{-?[0-9]{1,19}} within the range of the
field's type. Booleans are read as Java does: C{true} in any case, else false. msgspec does the normal case in one pass
over the JSON; its lax mode, which reads numbers out of strings, would also take C{"1.0"} and C{"1e3"} for integers.
The types C{Int32} and C{Int64} close that: such a text matches the union's float member first, and no float satisfies
its bounds. What msgspec refuses although the rules allow it (leading zeros, a boolean of C{yes}) is read field by
field. The text C{null} for an optional number or boolean counts as absent.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from smartgo.errors import BadHeader

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

if TYPE_CHECKING:
    Int32 = int
    """A Java int."""
    Int64 = int
    """A Java long."""
else:
    # Two bounds: infinity, which lax mode reads from "inf", is above the first.
    _NEVER = Annotated[float, Meta(gt=sys.float_info.max, lt=-sys.float_info.max)]
    Int32 = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)] | _NEVER
    Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)] | _NEVER

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII).fullmatch
_RANGES = {"int32": (INT32_MIN, INT32_MAX), "int64": (INT64_MIN, INT64_MAX)}
_KINDS: dict[Any, str] = {
    str: "text",
    str | None: "text",
    bool: "boolean",
    bool | None: "boolean",
    Int32: "int32",
    Int32 | None: "int32",
    Int64: "int64",
    Int64 | None: "int64",
}


class Header(Struct, kw_only=True, gc=False):
    """
    The base of all classes of header values.

    The fields here may come with any request: hints of 5.x clients and the signature of docs/spec/remoting#acl.
    C{None} stands for a field that is absent, on input and on output. Attributes are the wire names in snake case.

    @ivar ns: 5.x: the client's namespace; C{nsd} whether names carry it already, C{oway} one-way, C{lo} logical queue.
    @ivar bname: the broker the client means.
    @ivar req_t: pull consumers send C{0}; it means nothing to a broker.
    """

    ns: str | None = None
    nsd: str | None = None
    bname: str | None = None
    oway: str | None = None
    lo: str | None = None
    req_t: str | None = field(name="ReqT", default=None)
    access_key: str | None = field(name="AccessKey", default=None)
    signature: str | None = field(name="Signature", default=None)
    security_token: str | None = field(name="SecurityToken", default=None)


H = TypeVar("H", bound=Header)


class _Field(NamedTuple):
    attribute: str
    name: str
    kind: str
    required: bool


_plans: dict[type[Header], list[_Field]] = {}
_writers: dict[type[Header], tuple[tuple[str, ...], Callable[[Header], tuple[Any, ...]]]] = {}
_boolean_fields: dict[type[Header], list[tuple[str, str]]] = {}


def parse_int(text: str, name: str, kind: str = "int32") -> int:
    """
    Read one number of an ext field.

    @param name: the field's wire name, for the error.
    @param kind: C{int32} or C{int64}.
    @raise BadHeader: it is no integer, or out of range.
    """
    low, high = _RANGES[kind]
    if _INTEGER(text) is None or not low <= (value := int(text)) <= high:
        raise BadHeader(f"the custom field <{name}> is not a {kind}: {text[:40]!r}")
    return value


def parse_bool(text: str) -> bool:
    """Read one boolean of an ext field, as C{Boolean.parseBoolean} does."""
    return text.lower() == "true"


def to_fields(header: Header) -> dict[str, str]:
    """Write a typed header as ext fields, in the order of its class; C{None} is left out."""
    header_type = type(header)
    writer = _writers.get(header_type)
    if writer is None:
        writer = _writers[header_type] = _writer(header_type)
    names, values_of = writer
    fields = {}
    for name, value in zip(names, values_of(header), strict=True):
        if value is not None:
            kind = value.__class__
            if kind is str:
                fields[name] = value
            elif kind is int:
                fields[name] = f"{value}"
            elif kind is bool:
                fields[name] = "true" if value else "false"
            else:
                fields[name] = str(int(value))
    return fields


def from_fields(fields: Mapping[str, str], header_type: type[H]) -> H:
    """
    Read ext fields as a typed header; fields that the class does not know are ignored.

    @raise BadHeader: a required field is absent, or a number malformed; the message names the field.
    """
    try:
        header = msgspec.convert(fields, header_type, strict=False)
    except msgspec.ValidationError:
        return _one_by_one(fields, header_type)
    for attribute, name in _booleans(header_type):
        if getattr(header, attribute) is True and fields[name] == "1":
            setattr(header, attribute, False)
    return header


def _one_by_one(fields: Mapping[str, str], header_type: type[H]) -> H:
    values: dict[str, Any] = {}
    for attribute, name, kind, required in _plan(header_type):
        text = fields.get(name)
        if text is None:
            if required:
                raise BadHeader(f"the custom field <{name}> is null")
        elif kind == "text":
            values[attribute] = text
        elif not required and text.lower() == "null":
            continue
        elif kind == "boolean":
            values[attribute] = parse_bool(text)
        else:
            values[attribute] = parse_int(text, name, kind)
    return header_type(**values)


def _writer(header_type: type[Header]) -> tuple[tuple[str, ...], Callable[[Header], tuple[Any, ...]]]:
    plan = _plan(header_type)
    return tuple(each.name for each in plan), attrgetter(*(each.attribute for each in plan))


def safe_digits(header_type: type[Header], attributes: Collection[str]) -> list[tuple[str, str, int | None]]:
    """
    Name the wire names of some attributes, and how long a number may be that is within its range at any rate.

    @return: attribute, wire name, and digits; C{None} of a text.
    """
    digits = {"text": None, "int32": 9, "int64": 18}
    named = [each for each in _plan(header_type) if each.attribute in attributes]
    return [(each.attribute, each.name, digits[each.kind]) for each in named]


def _plan(header_type: type[Header]) -> list[_Field]:
    plan = _plans.get(header_type)
    if plan is None:
        plan = _plans[header_type] = [
            _Field(each.name, each.encode_name, _KINDS[each.type], each.required)
            for each in msgspec.structs.fields(header_type)
        ]
    return plan


def _booleans(header_type: type[Header]) -> list[tuple[str, str]]:
    names = _boolean_fields.get(header_type)
    if names is None:
        names = _boolean_fields[header_type] = [
            (each.attribute, each.name) for each in _plan(header_type) if each.kind == "boolean"
        ]
    return names
