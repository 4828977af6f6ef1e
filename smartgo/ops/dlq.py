"""Resources about dead letters: which groups have some, to look at them, mend them and give them out again."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from smartgo.ops.content import MessageId, OptionalBroker, TimeMs
from smartgo.ops.lists import Cursor, Offset
from smartgo.ops.names import GroupName
from smartgo.ops.send import Keys, Properties, Tag

RESENT_FROM = "RESENT_FROM"
"""The property of a message that was sent again which says the offset id of the one it is a copy of."""

To = Annotated[
    Literal["group", "topic"],
    Meta(description="To this group alone, by its retry topic; or to the topic it came from, for all its groups."),
]


class DeadRow(msgspec.Struct, rename="camel"):
    """
    The dead letters of one group.

    @ivar topic: where they are.
    @ivar messages: how many are there; those sent again stay among them until the broker removes old messages.
    @ivar oldest_ms: when the first of them was put aside, C{newest_ms} the last; null where there is none.
    """

    group: str
    topic: str
    brokers: list[str]
    messages: int
    oldest_ms: int | None
    newest_ms: int | None


class LetterPath(msgspec.Struct):
    """One dead letter of a group."""

    name: GroupName
    id: MessageId


class LettersQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which of them."""

    limit: Annotated[int, Meta(ge=1, le=64, description="Rows of this page.")] = 32
    cursor: Cursor = ""
    offset: Offset = 0
    sort: Annotated[
        Literal["storedMs", "-storedMs"],
        Meta(description="By time, queue by queue; with `-` before it the newest first."),
    ] = "-storedMs"
    broker: OptionalBroker = ""


class Mending(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    What to change of a message before it is sent; what is null stays. A body is C{text} or C{base64}.

    @ivar properties: to be set; with an empty value, to be removed. The system's cannot be.
    """

    text: str | None = None
    base64: str | None = None
    tag: Tag | None = None
    keys: Keys | None = None
    properties: Properties = {}


class LetterOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """How to send one dead letter again."""

    to: To = "group"
    mend: Mending | None = None
    dry_run: bool = False


class LettersOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    Which dead letters to send again: those with one of C{ids}, or, if that is null, all that the filters let pass.
    """

    ids: Annotated[list[MessageId] | None, Meta(min_length=1, max_length=1000)] = None
    from_ms: Annotated[TimeMs, Meta(description="Put aside then or later.")] = 0
    until_ms: Annotated[TimeMs, Meta(description="Put aside then or before; 0: until now.")] = 0
    body: Annotated[str, Meta(max_length=255, description="Text that the body holds.")] = ""
    key: Annotated[str, Meta(max_length=255, description="A key that it has.")] = ""
    to: To = "group"
    limit: Annotated[int, Meta(ge=1, le=10_000, description="So many at most.")] = 10_000
    dry_run: bool = False


class ResentRow(msgspec.Struct, rename="camel"):
    """
    What became of one dead letter.

    @ivar message_id, offset_id: the dead letter's.
    @ivar topic: where its copy went to, or would go.
    @ivar sent_id: the copy's unique id, C{sent_offset_id} its offset id; null where it was not sent.
    @ivar error: why not.
    """

    message_id: str
    offset_id: str
    broker: str
    queue_id: int
    queue_offset: int
    topic: str
    sent_id: str | None
    sent_offset_id: str | None
    error: str | None


class ResentResult(msgspec.Struct, rename="camel"):
    """What came of sending dead letters again; the rows are L{ResentRow}s."""

    found: int
    sent: int
    failed: int
    missing: list[str]
    dry_run: bool


class ExportQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to write."""

    from_ms: Annotated[TimeMs, Meta(description="Put aside then or later.")] = 0
    until_ms: Annotated[TimeMs, Meta(description="Put aside then or before; 0: until now.")] = 0
    limit: Annotated[int, Meta(ge=1, le=1_000_000, description="So many at most.")] = 100_000


class ExportedLine(msgspec.Struct, rename="camel"):
    """One line of an export; C{body} where it is UTF-8, else C{bodyBase64}."""

    topic: str
    origin_topic: str | None
    broker: str
    queue_id: int
    queue_offset: int
    message_id: str
    offset_id: str
    born_ms: int
    stored_ms: int
    reconsume_times: int
    properties: dict[str, str]
    body: str | None
    body_base64: str | None
