"""
The options of a read over the network, from Spark's strings to values, each checked before anything is asked.

Names are those of Spark's Kafka source wherever the meaning is the same, and not case-sensitive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from smartgo.errors import SettingError
from smartgo.schema.registryaddresses import registry_addresses
from smartgo.schema.topics import is_group
from smartgo.spark.nearest import nearest
from smartgo.spark.network.access import TOOLS_GROUP, ClusterAccess, TLSFileNames
from smartgo.spark.network.offsetforms import NamedQueue, PositionByQueue, assigned, named_offsets, named_times
from smartgo.spark.options import EARLIEST, LATEST
from smartgo.spark.optiontable import Option, check_excluding
from smartgo.spark.optionvalues import (
    MIB,
    automatic,
    boolean,
    choice,
    column_name,
    count,
    moment,
    pattern,
    size,
    topic_names,
)


@dataclass(frozen=True)
class NetworkOptions:
    """
    The options of a read over the network, parsed.

    @ivar access: registries, TLS, keys, and how long to wait for an answer.
    @ivar topics: topics to read, or C{topic_pattern}, or C{assign}: one of the three.
    @ivar starting: where to begin, C{ending} where to end.
    @ivar is_latest_without_match: begin at the end where no message is as new as C{startingTimestamp}; else it is an
        error.
    @ivar tags: the tags wanted, C{None} for all; C{sql} an SQL92 expression; both are evaluated by brokers.
    @ivar group: the group whose offsets are committed, C{None} for none.
    @ivar min_partitions: partitions wanted; C{max_records}: messages of a partition.
    @ivar max_offsets, min_offsets: messages of a micro-batch; C{max_delay}: seconds after which there may be fewer.
    @ivar fail_on_data_loss: fail when messages that were to be read are gone.
    @ivar fail_on_corrupt, corrupt_column, verify_crc, decompress_body, decompress_limit: as in
        L{smartgo.spark.options.ReadOptions}.
    """

    access: ClusterAccess
    topics: frozenset[str] | None = None
    topic_pattern: re.Pattern[str] | None = None
    assign: frozenset[NamedQueue] | None = None
    starting: PositionByQueue = PositionByQueue(EARLIEST)
    ending: PositionByQueue = PositionByQueue(LATEST)
    is_latest_without_match: bool = False
    tags: frozenset[str] | None = None
    sql: str | None = None
    group: str | None = None
    min_partitions: int | None = None
    max_records: int | None = None
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay: float = 900.0
    fail_on_data_loss: bool = True
    fail_on_corrupt: bool = True
    corrupt_column: str | None = None
    verify_crc: bool = True
    decompress_body: bool = False
    decompress_limit: int = 16 * MIB

    @property
    def is_filtered(self) -> bool:
        """Tell whether brokers leave messages out."""
        return self.tags is not None or self.sql is not None

    def places(self) -> Mapping[str, PositionByQueue]:
        """Return the positions, by what to call them in an error."""
        return {"startingOffsets": self.starting, "endingOffsets": self.ending}


def is_network(options: Mapping[str, str]) -> bool:
    """Tell whether the options are of a read over the network."""
    return any(name.lower() == "registry" for name in options)


def parse_network(options: Mapping[str, str]) -> NetworkOptions:
    """
    Read the options of a read over the network.

    @raise SettingError: one is unknown or missing, its value is wrong, or two exclude each other.
    """
    given: dict[str, Any] = {}
    for name, text in options.items():
        key = name.lower()
        if key in ("path", "paths"):
            raise SettingError(f"options registry and {key} exclude each other: brokers are read, or files")
        option = _OPTIONS.get(_ALIASES.get(key, key))
        if option is None:
            raise SettingError(f"there is no option {name} for reading from brokers{nearest(name, NAMES)}")
        given[option.name] = option.value(text)
    check_excluding(given, _EXCLUDING)
    if not any(name in given for name in _SUBSCRIPTIONS):
        raise SettingError("one of the options subscribe, subscribePattern and assign is needed")
    values = {
        option.attribute: given[option.name]
        for option in _OPTIONS.values()
        if option.attribute and option.name in given
    }
    found = NetworkOptions(access=_access(given), starting=_starting(given), ending=_ending(given), **values)
    _check_named(found)
    return found


def _access(given: Mapping[str, Any]) -> ClusterAccess:
    tls_files = {what: given.get(name) for what, name in _TLS.items()}
    if not given.get("tls", False) and any(tls_files.values()):
        raise SettingError("options for TLS are given, and option tls is not true")
    if (tls_files["certificate"] is None) != (tls_files["key"] is None):
        raise SettingError("option tlsCertificate needs tlsKey, and tlsKey needs tlsCertificate")
    if ("accessKey" in given) != ("secretKey" in given):
        raise SettingError("option accessKey needs secretKey, and secretKey needs accessKey")
    return ClusterAccess(
        registries=given["registry"],
        group=given.get("groupId", TOOLS_GROUP),
        tls=TLSFileNames(**tls_files) if given.get("tls", False) else None,
        key=(given["accessKey"], given["secretKey"]) if "accessKey" in given else None,
        timeout=float(given.get("timeout", 30)),
    )


def _starting(given: Mapping[str, Any]) -> PositionByQueue:
    if "startingTimestamp" in given:
        return PositionByQueue(EARLIEST, at_ms=given["startingTimestamp"])
    found: PositionByQueue = (
        given.get("startingOffsetsByTimestamp") or given.get("startingOffsets") or PositionByQueue(EARLIEST)
    )
    return found


def _ending(given: Mapping[str, Any]) -> PositionByQueue:
    if "endingTimestamp" in given:
        return PositionByQueue(LATEST, at_ms=given["endingTimestamp"])
    found: PositionByQueue = (
        given.get("endingOffsetsByTimestamp") or given.get("endingOffsets") or PositionByQueue(LATEST)
    )
    return found


def _check_named(options: NetworkOptions) -> None:
    """Refuse positions in topics and queues that are not read, as far as that can be told without a broker."""
    for name, place in options.places().items():
        for queue in place.queues:
            if options.topics is not None and queue.topic not in options.topics:
                raise SettingError(f"option {name}: topic {queue.topic} is not subscribed to")
            if options.topic_pattern is not None and not options.topic_pattern.fullmatch(queue.topic):
                raise SettingError(f"option {name}: topic {queue.topic} is not subscribed to")
            if options.assign is not None and queue.topic not in {one.topic for one in options.assign}:
                raise SettingError(f"option {name}: {queue} is not among the option assign")


# -- kinds of values -----------------------------------------------------------------------------------------


def _registries(text: str) -> tuple[str, ...]:
    try:
        return registry_addresses(text)
    except SettingError as error:
        raise ValueError(str(error)) from None


def _tags(text: str) -> frozenset[str]:
    found = frozenset(one.strip() for one in text.split("||") if one.strip())
    if not found or "*" in found:
        raise ValueError(f"{text!r} names no tags; write TagA || TagB, and leave the option out for all")
    return found


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def _group(text: str) -> str:
    if not text or not is_group(text):
        raise ValueError(f"{text!r} is not the name of a group")
    return text


_SECONDS: Final = {"ms": 0.001, "s": 1.0, "second": 1.0, "m": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}


def _duration(text: str) -> float:
    """Return seconds of C{15m}, C{200 ms}, C{5 minutes} and the like, as Spark writes times."""
    matched = re.fullmatch(r"(\d+)\s*(ms|s|m|h|second(?=s?$)|minute(?=s?$)|hour(?=s?$))s?", text.lower())
    unit = None if matched is None else _SECONDS[matched[2]]
    if matched is None or unit is None:
        raise ValueError(f"{text!r} is not a time such as 500ms, 30s or 15m")
    return int(matched[1]) * unit


# -- the table -----------------------------------------------------------------------------------------------


_OPTIONS: Final = {
    option.name.lower(): option
    for option in (
        Option("registry", "", _registries),
        Option("subscribe", "topics", topic_names),
        Option("subscribePattern", "topic_pattern", pattern),
        Option("assign", "assign", assigned),
        Option("startingOffsets", "", lambda text: named_offsets(text, EARLIEST)),
        Option("endingOffsets", "", lambda text: named_offsets(text, LATEST)),
        Option("startingTimestamp", "", moment),
        Option("endingTimestamp", "", moment),
        Option("startingOffsetsByTimestamp", "", lambda text: named_times(text, EARLIEST)),
        Option("endingOffsetsByTimestamp", "", lambda text: named_times(text, LATEST)),
        Option(
            "startingOffsetsByTimestampStrategy",
            "is_latest_without_match",
            lambda text: choice("error", "latest")(text) == "latest",
        ),
        Option("tags", "tags", _tags),
        Option("sql", "sql", _text),
        Option("groupId", "group", _group),
        Option("minPartitions", "min_partitions", count),
        Option("maxRecordsPerPartition", "max_records", count),
        Option("maxOffsetsPerTrigger", "max_offsets", count),
        Option("minOffsetsPerTrigger", "min_offsets", count),
        Option("maxTriggerDelay", "max_delay", _duration),
        Option("failOnDataLoss", "fail_on_data_loss", boolean),
        Option("failOnCorrupt", "fail_on_corrupt", boolean),
        Option("columnNameOfCorruptRecord", "corrupt_column", column_name),
        Option("verifyCrc", "verify_crc", automatic),
        Option("decompressBody", "decompress_body", boolean),
        Option("decompressLimit", "decompress_limit", size(1)),
        Option("timeout", "", count),
        Option("tls", "", boolean),
        Option("tlsTrust", "", _text),
        Option("tlsCertificate", "", _text),
        Option("tlsKey", "", _text),
        Option("tlsKeyPassword", "", _text),
        Option("tlsName", "", _text),
        Option("accessKey", "", _text),
        Option("secretKey", "", _text),
    )
}
_ALIASES: Final = {"kafka.group.id": "groupid"}
_TLS: Final = {
    "trust": "tlsTrust",
    "certificate": "tlsCertificate",
    "key": "tlsKey",
    "password": "tlsKeyPassword",
    "name": "tlsName",
}
_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_EXCLUDING: Final = (
    ("startingOffsets", "startingTimestamp"),
    ("startingOffsets", "startingOffsetsByTimestamp"),
    ("startingTimestamp", "startingOffsetsByTimestamp"),
    ("endingOffsets", "endingTimestamp"),
    ("endingOffsets", "endingOffsetsByTimestamp"),
    ("endingTimestamp", "endingOffsetsByTimestamp"),
    ("subscribe", "subscribePattern"),
    ("subscribe", "assign"),
    ("subscribePattern", "assign"),
    ("tags", "sql"),
)

NAMES: Final = tuple(option.name for option in _OPTIONS.values())
"""Every option of a read over the network."""
