"""
The layout of a remoting frame and of the binary header.

A frame, big-endian::

    0      length         int32   bytes that follow this word: 4 + header + body
    4      encoding       uint8   0 JSON, 1 binary (ROCKETMQ)
    5      header_length  uint24  bytes of the header
    8      header
    8+H    body                   opaque, may be empty

The word at 4 is what the sources call serialize type and header length in one int32. The binary header::

    0      code           int16
    2      language       uint8   L{smartgo.schema.codes.LanguageCode}
    3      version        int16
    5      opaque         int32
    9      flag           int32   1 response, 2 one-way
    13     remark_length  int32   0 for none
    17     remark                 UTF-8
    17+R   fields_length  int32   bytes of the fields that follow, 0 for none
    21+R   fields                 repeated: int16 length, name, int32 length, value

Sources: C{RemotingCommand.encode}, C{RocketMQSerializable} of 4.9.8; docs/spec/remoting#frame and
docs/spec/remoting#command.
"""

from __future__ import annotations

from construct import (
    Bytes,
    GreedyRange,
    Int8ub,
    Int16sb,
    Int24ub,
    Int32sb,
    Int32ub,
    PascalString,
    Prefixed,
    Struct,
    this,
)

from smartgo.schema.fixed import fixed

JSON = 0
BINARY = 1

RESPONSE = 1
"""Flag bit: this is a response."""

ONE_WAY = 2
"""Flag bit: this request is never answered."""

PREFIX = Struct("length" / Int32sb, "word" / Int32ub)
WORD = Struct("word" / Int32ub)

FRAME = Struct(
    "length" / Int32sb,
    "encoding" / Int8ub,
    "header_length" / Int24ub,
    "header" / Bytes(this.header_length),
    "body" / Bytes(this.length - 4 - this.header_length),
)

BINARY_HEAD = Struct(
    "code" / Int16sb,
    "language" / Int8ub,
    "version" / Int16sb,
    "opaque" / Int32sb,
    "flag" / Int32sb,
    "remark_length" / Int32sb,
)

BINARY_FIELD = Struct("name" / PascalString(Int16sb, "utf8"), "value" / PascalString(Int32sb, "utf8"))

BINARY_HEADER = Struct(
    *BINARY_HEAD.subcons,
    "remark" / Bytes(this.remark_length),
    "fields" / Prefixed(Int32sb, GreedyRange(BINARY_FIELD)),
)

prefix_struct = fixed(PREFIX)
word_struct = fixed(WORD)
binary_head_struct = fixed(BINARY_HEAD)

OPAQUE = slice(*[sum(each.sizeof() for each in BINARY_HEAD.subcons[:count]) for count in (3, 4)])
"""Where the opaque is in a binary header."""

HEADER_LIMIT = 256 * 1024
"""The longest header accepted, in bytes (reliability L2)."""

FIELD_LIMIT = 128
"""The most ext fields accepted (reliability L2)."""

DEPTH_LIMIT = 16
"""How deep a JSON header may be nested (reliability L2)."""
