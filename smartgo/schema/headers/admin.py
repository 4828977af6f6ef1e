"""
Headers about a broker as a whole: 26, 315, 317, 30003, 30005.

Source: C{GetBrokerConfigResponseHeader}, C{ViewBrokerStatsDataRequestHeader}, C{GetConsumeStatsInBrokerHeader}, 4.9.8.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int32, Int64


class BrokerConfigResponse(Header, gc=False):
    """
    The answer to 26.

    @ivar version: the settings' data version, as JSON text.
    """

    version: str


class BrokerStatsRequest(Header, gc=False):
    """315: one counter, as C{TOPIC_PUT_NUMS} of a topic."""

    stats_name: str = field(name="statsName")
    stats_key: str = field(name="statsKey")


class BrokerConsumeStatsRequest(Header, gc=False):
    """317: how far every group is behind; of ordered topics, or of the others."""

    is_order: bool = field(name="isOrder")


class BackupStoreRequest(Header, gc=False):
    """
    30003: begin a backup of the store.

    @ivar name: of the backup; empty to be told of the last one.
    @ivar cancel: end the backup that runs, and remove what there is of it; without a name.
    @ivar rate: bytes per second that it copies at most; 0 for no limit.
    @ivar keep: how many of the newest backups stay when it is complete, itself included; 0: all,
        unless C{keep_seconds} is given.
    @ivar keep_seconds: backups that are younger stay, too; 0: only those that C{keep} names. Where it is given and
        C{keep} is 0, all that are older go, but the newest.
    """

    name: str = ""
    rate: Int64 = 0
    keep: Int32 = 0
    keep_seconds: Int64 = 0
    cancel: bool = False


class ScrubStoreRequest(Header, gc=False):
    """
    30005: begin or end a scrub of the log.

    @ivar running: true begins one if none runs; false ends the one that runs.
    """

    running: bool
