"""
The options of a read, from Spark's strings to values, each checked before any file is looked at.

Names are not case-sensitive, as everywhere in Spark. What is not understood is refused by one sentence that names the
option, and the nearest that exists.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar

from smartgo.errors import SettingError
from smartgo.spark.columns import TABLES, named_columns
from smartgo.spark.nearest import nearest
from smartgo.spark.optiontable import Option, check_excluding
from smartgo.spark.optionvalues import (
    KIB,
    MIB,
    automatic,
    boolean,
    choice,
    column_name,
    count,
    listed,
    moment,
    pattern,
    queue_ids,
    size,
    topic_names,
    word,
)

EARLIEST: Final = -2
LATEST: Final = -1
"""What stands for the first and the last offset of a queue in the JSON forms, as with Kafka."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Position:
    """
    The position to begin or to end at (exclusive), in every store that is read; as C{startingOffsets} gives it.

    @ivar named: C{earliest}, C{latest}, or empty where the offsets are given.
    @ivar physical: a physical offset for every store.
    @ivar by_store: a physical offset by directory, as an absolute path.
    @ivar by_queue: queue offsets by topic and queue id; L{EARLIEST} and L{LATEST} for the ends. Queues that are not
        named are read whole.
    """

    named: Literal["earliest", "latest", ""] = ""
    physical: int | None = None
    by_store: Mapping[str, int] = field(default_factory=dict)
    by_queue: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadOptions:
    """
    The options of a read, parsed.

    @ivar paths: store directories as given; may hold patterns.
    @ivar table: C{messages}, C{consumequeue} or C{index}.
    @ivar topics: the topics wanted, C{None} for all.
    @ivar topic_pattern: what all of a topic's name must match, C{None} for anything.
    @ivar queues: the queue ids wanted, C{None} for all.
    @ivar starting_ms: store timestamp from which on rows are wanted; C{ending_ms} before which.
    @ivar fail_on_corrupt: raise where something in the middle is damaged; else leave it out and report it.
    @ivar corrupt_column: name of the column that tells of damaged regions, C{None} for none.
    @ivar decompress_body: give out bodies as the producers wrote them.
    @ivar decompress_limit: the most bytes that a body may grow to.
    @ivar verify_crc: treat a record with a wrong checksum as damage, whatever columns are read.
    @ivar partition_bytes: bytes of log a partition has at most.
    @ivar use_queues: find a topic's records through its ConsumeQueues where these are complete.
    @ivar index_slots: slots of an index file; C{None} to derive them from its size.
    @ivar max_bytes_per_trigger: bytes of log in one micro-batch of a stream; C{None} for all there is.
    @ivar fail_on_data_loss: raise where files are missing, empty or shorter than they were; else read what is left.
    @ivar key: a key that messages must have; C{unique_key}: the id that their client gave them; C{None} for any.
    @ivar columns: names of the columns that a frame without a schema of its own has, C{None} for all.
    @ivar store_names: names of stores in the offsets of a stream, by directory; see L{smartgo.spark.storenames}.
    @ivar filter_pushdown: let Spark push filters down. Spark 4.3 keeps them for whatever else is asked of the same
        frame, so this is for a frame that is asked one thing.
    """

    paths: tuple[str, ...]
    table: str = "messages"
    starting: Position = Position("earliest")
    ending: Position = Position("latest")
    topics: frozenset[str] | None = None
    topic_pattern: re.Pattern[str] | None = None
    queues: frozenset[int] | None = None
    starting_ms: int | None = None
    ending_ms: int | None = None
    fail_on_corrupt: bool = True
    corrupt_column: str | None = None
    decompress_body: bool = False
    decompress_limit: int = 16 * MIB
    verify_crc: bool = True
    partition_bytes: int = 128 * MIB
    use_queues: bool = True
    index_slots: int | None = None
    max_bytes_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    filter_pushdown: bool = False
    columns: tuple[str, ...] | None = None
    key: str | None = None
    unique_key: str | None = None
    store_names: Mapping[str, str] = field(default_factory=dict)


def is_subscribed(topic: str, topics: frozenset[str] | None, pattern: re.Pattern[str] | None) -> bool:
    """Tell whether a topic is one of some and all of its name matches a pattern; C{None} for any."""
    return (topics is None or topic in topics) and (pattern is None or pattern.fullmatch(topic) is not None)


def parse(options: Mapping[str, str]) -> ReadOptions:
    """
    Read the options of a read.

    @raise SettingError: one is unknown, or its value is wrong.
    """
    given: dict[str, Any] = {}
    seen: dict[str, str] = {}
    for name, text in options.items():
        key = name.lower()
        if key in _PATHS:
            continue
        option = _OPTIONS.get(key)
        if option is None:
            raise SettingError(f"there is no option {name}{nearest(name, [one.name for one in _OPTIONS.values()])}")
        seen[option.name] = text
        given[option.attribute] = option.value(text)
    found = ReadOptions(_paths(options), **given)
    check_excluding(seen, _EXCLUDING)
    for name in seen:
        tables = _TABLES_OF.get(name, ("messages",))
        if found.table not in tables:
            raise SettingError(f"option {name} is for table {' or '.join(tables)}, not for {found.table}")
    if found.columns is not None:
        found = replace(found, columns=_columns(found))
    for name, position in (("startingOffsets", found.starting), ("endingOffsets", found.ending)):
        for topic, queue_id in position.by_queue:
            if not is_subscribed(topic, found.topics, found.topic_pattern):
                raise SettingError(f"option {name}: topic {topic} is not subscribed to")
            if found.queues is not None and queue_id not in found.queues:
                raise SettingError(f"option {name}: queue {queue_id} of topic {topic} is not among the option queues")
    return found


def _columns(options: ReadOptions) -> tuple[str, ...]:
    """Return the columns that are named, and the one for damage, which has an option of its own."""
    try:
        found = named_columns(options.columns or (), options.table, options.corrupt_column)
    except SettingError as error:
        raise SettingError(f"option columns: {error}") from None
    corrupt = options.corrupt_column
    return tuple(found) if corrupt is None or corrupt in found else (*found, corrupt)


_PATHS: Final = ("path", "paths")


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    by_key = {name.lower(): text for name, text in options.items()}
    several = by_key.get("paths")
    try:
        paths = [] if several is None else json.loads(several)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise SettingError(f"option paths: {several!r} is not a JSON list of directories")
    if "path" in by_key:
        paths.insert(0, by_key["path"])
    if not paths:
        raise SettingError("no path is given: load(DIR) needs the root directory of a store")
    return tuple(map(_local, paths))


def _local(path: str) -> str:
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return path
    if scheme.lower() != "file":
        raise SettingError(
            f"path {path}: {scheme} cannot be read directly; mount it or copy it to a local directory"
            " (hadoop fs -copyToLocal) and give that"
        )
    return "/" + rest.lstrip("/")


# -- positions -----------------------------------------------------------------------------------------------


_FORMS: Final = 'earliest, latest, a physical offset, {"TOPIC": {"QUEUE": OFFSET}} and {"DIRECTORY": PHYSICAL OFFSET}'


def _position(text: str) -> Position:
    if text.lower() == "earliest":
        return Position("earliest")
    if text.lower() == "latest":
        return Position("latest")
    try:
        value = json.loads(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of {_FORMS}") from None
    if _is_offset(value, 0):
        return Position(physical=value)
    if isinstance(value, dict) and value:
        if all(_is_offset(one, 0) for one in value.values()):
            return Position(by_store={posixpath.abspath(_local(path)): one for path, one in value.items()})
        if all(isinstance(one, dict) for one in value.values()):
            return Position(by_queue=_queues(value))
    raise ValueError(f"{text!r} is not one of {_FORMS}")


def _queues(value: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    found = {}
    for topic, queues in value.items():
        for queue, offset in queues.items():
            if not (queue.isascii() and queue.isdigit()):
                raise ValueError(f"queue {queue!r} of topic {topic} is not a number")
            if not _is_offset(offset, EARLIEST):
                raise ValueError(f"offset {offset!r} of topic {topic}, queue {queue}, is not an offset")
            found[topic, int(queue)] = offset
    return found


def _store_names(text: str) -> dict[str, str]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not all(name and isinstance(name, str) for name in value.values()):
        raise ValueError(f'{text!r} is not of the form {{"DIRECTORY": "NAME"}}')
    if len(set(value.values())) < len(value):
        raise ValueError("two directories have one name")
    return {posixpath.abspath(_local(path)): name for path, name in value.items()}


def _is_offset(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


# -- the table -----------------------------------------------------------------------------------------------


_OPTIONS: Final = {
    option.name.lower(): option
    for option in (
        Option("table", "table", choice(*TABLES)),
        Option("subscribe", "topics", topic_names),
        Option("subscribePattern", "topic_pattern", pattern),
        Option("queues", "queues", queue_ids),
        Option("startingOffsets", "starting", _position),
        Option("endingOffsets", "ending", _position),
        Option("startingTimestamp", "starting_ms", moment),
        Option("endingTimestamp", "ending_ms", moment),
        Option("failOnCorrupt", "fail_on_corrupt", boolean),
        Option("columnNameOfCorruptRecord", "corrupt_column", column_name),
        Option("decompressBody", "decompress_body", boolean),
        Option("decompressLimit", "decompress_limit", size(1)),
        Option("verifyCrc", "verify_crc", automatic),
        Option("partitionBytes", "partition_bytes", size(64 * KIB)),
        Option("useConsumeQueue", "use_queues", boolean),
        Option("indexSlots", "index_slots", count),
        Option("maxBytesPerTrigger", "max_bytes_per_trigger", size(1)),
        Option("failOnDataLoss", "fail_on_data_loss", boolean),
        Option("filterPushdown", "filter_pushdown", boolean),
        Option("columns", "columns", listed),
        Option("key", "key", word),
        Option("uniqueKey", "unique_key", word),
        Option("storeNames", "store_names", _store_names),
    )
}
_OF_QUEUES: Final = ("messages", "consumequeue")
_TABLES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("table", "indexSlots", "filterPushdown", "failOnDataLoss", "columns"), tuple(TABLES)),
    **dict.fromkeys(("subscribe", "subscribePattern", "queues", "columnNameOfCorruptRecord"), _OF_QUEUES),
}
"""Which tables an option is for; others are for C{messages} alone."""
_EXCLUDING: Final = (
    ("startingOffsets", "startingTimestamp"),
    ("endingOffsets", "endingTimestamp"),
    ("subscribe", "subscribePattern"),
)

NAMES: Final = tuple(option.name for option in _OPTIONS.values())
"""Every option of a read but C{path}."""
