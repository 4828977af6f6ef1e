"""
Brokers: which there are, how they are doing, their settings; to tidy up, and to take them out of use.

Source: C{tools/admin/DefaultMQAdminExtImpl.java}, C{tools/command/broker}.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from smartgo.client.administration.asking import Asking, body_of, deferred
from smartgo.client.client import header_of
from smartgo.client.internal.route import MASTER
from smartgo.config.properties import parse, render
from smartgo.errors import BrokerUnknown, CallFailed, PeerRefused, SettingError
from smartgo.schema.bodies import (
    BackupReport,
    BrokerStatsData,
    ClusterInfo,
    ConsumeStatsList,
    KVTable,
    RetentionReport,
    StoreState,
)
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.admin import (
    BackupStoreRequest,
    BrokerConsumeStatsRequest,
    BrokerStatsRequest,
    ScrubStoreRequest,
)
from smartgo.schema.headers.registry import (
    AddWritePermRequest,
    AddWritePermResponse,
    WipeWritePermRequest,
    WipeWritePermResponse,
)


class BrokerPlace(msgspec.Struct, frozen=True, order=True):
    """
    One broker process.

    @ivar id: 0 the master, others its slaves.
    @ivar address: C{host:port}.
    """

    cluster: str
    name: str
    id: int
    address: str

    @property
    def subject(self) -> str:
        """Return its name in alerts, in commands and to people."""
        return subject_of(self.name, self.id)


def subject_of(name: str, id: int) -> str:
    """
    Return the name of a broker process: that of its broker, for slaves with C{#} and the id.

    >>> subject_of("broker-a", 0), subject_of("broker-a", 1)
    ('broker-a', 'broker-a#1')
    """
    return name if id == MASTER else f"{name}#{id}"


def places_of(info: ClusterInfo) -> list[BrokerPlace]:
    """Return all broker processes that a registry knows, sorted."""
    return sorted(
        BrokerPlace(data.cluster, name, broker_id, address)
        for name, data in info.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    )


def settings_of(answer: Command) -> dict[str, str]:
    """Return the settings that the body of an answer holds. @raise CallFailed: it cannot be read."""
    try:
        return {one.key: one.value for one in parse(answer.body, "answer")}
    except SettingError as error:
        raise CallFailed(f"an answer cannot be read: {error}") from None


def settings_body(changes: Mapping[str, str]) -> bytes:
    """Return settings as a request's body holds them."""
    return render(changes.items()).encode()


class Brokers:
    """
    Queries and changes of brokers. The methods fail as L{smartgo.client.admin.Admin} says.

    A broker is given by its name, which means the master of that name, by that of a slave (C{broker-a#1}), or by its
    address C{host:port}.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    # -- which there are -------------------------------------------------------------------------------------

    @deferred
    async def cluster(self) -> ClusterInfo:
        """Return all brokers by name, and the broker names of each cluster."""
        return await self._asking.cluster()

    @deferred
    async def places(self) -> list[BrokerPlace]:
        """Return all broker processes, sorted."""
        return places_of(await self._asking.cluster())

    @deferred
    async def address(self, broker: str) -> str:
        """Return the address of a broker. @raise CallFailed: through the Deferred: nobody knows it."""
        return await self._address(broker)

    async def _address(self, broker: str) -> str:
        if ":" in broker:
            return broker
        if "#" not in broker:
            return (await self._asking.masters([broker]))[broker]
        places = {one.subject: one.address for one in places_of(await self._asking.cluster())}
        if broker not in places:
            raise BrokerUnknown(f"there is no broker {broker}; there is: {', '.join(places) or 'none'}")
        return places[broker]

    # -- how they are doing ----------------------------------------------------------------------------------

    @deferred
    async def runtime(self, broker: str) -> dict[str, str]:
        """Return the runtime information of a broker; docs/spec/broker#statistics lists the names."""
        answer = await self._asking.broker(await self._address(broker), RequestCode.GET_BROKER_RUNTIME_INFO)
        return body_of(KVTable, answer).table

    @deferred
    async def counter(self, broker: str, name: str, key: str) -> BrokerStatsData | None:
        """
        Return one counter of a broker for a minute, an hour and a day; C{None} if it counted nothing.

        @param name: such as C{TOPIC_PUT_NUMS}; C{key} then is the topic.
        """
        header = BrokerStatsRequest(stats_name=name, stats_key=key)
        try:
            answer = await self._asking.broker(await self._address(broker), RequestCode.VIEW_BROKER_STATS_DATA, header)
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.SYSTEM_ERROR:
                return None
            raise
        return body_of(BrokerStatsData, answer)

    @deferred
    async def counters(self, name: str, key: str) -> dict[str, BrokerStatsData]:
        """Return one counter by broker name; brokers that counted nothing are left out."""
        return await self._asking.bodies(
            BrokerStatsData,
            await self._asking.readable(),
            RequestCode.VIEW_BROKER_STATS_DATA,
            BrokerStatsRequest(stats_name=name, stats_key=key),
            none=(ResponseCode.SYSTEM_ERROR,),
        )

    @deferred
    async def progress(self, broker: str, orderly: bool = False) -> ConsumeStatsList:
        """
        Return the offsets of all groups of a broker, and the ends of their queues.

        @param orderly: only in order topics.
        """
        answer = await self._asking.broker(
            await self._address(broker),
            RequestCode.GET_BROKER_CONSUME_STATS,
            BrokerConsumeStatsRequest(is_order=orderly),
        )
        return body_of(ConsumeStatsList, answer)

    # -- settings --------------------------------------------------------------------------------------------

    @deferred
    async def settings(self, broker: str) -> dict[str, str]:
        """Return the settings of a broker by name; secret values are hidden."""
        return settings_of(await self._asking.broker(await self._address(broker), RequestCode.GET_BROKER_CONFIG))

    @deferred
    async def change_settings(self, broker: str, changes: Mapping[str, str]) -> None:
        """Change settings of a broker that can be changed while it runs."""
        await self._asking.broker(
            await self._address(broker), RequestCode.UPDATE_BROKER_CONFIG, body=settings_body(changes)
        )

    # -- tidying up ------------------------------------------------------------------------------------------

    @deferred
    async def clean_queues(self, broker: str) -> None:
        """Make a broker remove the queue units of messages that the log no longer has."""
        await self._asking.broker(await self._address(broker), RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    @deferred
    async def clean_topics(self, broker: str) -> None:
        """Make a broker remove the queues of topics that it no longer has."""
        await self._asking.broker(await self._address(broker), RequestCode.CLEAN_UNUSED_TOPIC)

    @deferred
    async def clean_log(self, broker: str) -> None:
        """Make a broker remove expired log files now."""
        await self._asking.broker(await self._address(broker), RequestCode.DELETE_EXPIRED_COMMITLOG)

    @deferred
    async def retention(self, broker: str) -> RetentionReport:
        """
        Return which log files L{clean_log} would remove now, and why.

        @raise PeerRefused: through the Deferred: it is a broker of RocketMQ, which does not say (3).
        """
        answer = await self._asking.broker(await self._address(broker), RequestCode.GET_RETENTION)
        return body_of(RetentionReport, answer)

    @deferred
    async def backup(
        self, broker: str, name: str = "", rate: int = 0, keep: int = 0, keep_seconds: int = 0
    ) -> BackupReport:
        """
        Begin a backup of a broker's store, and return how it goes; it goes on after this.

        @param name: of the directory that it gets beside the store's; empty: tell how the last backup goes.
        @param rate: bytes per second that it copies at most; 0 for no limit.
        @param keep: how many of the newest backups stay when it is complete, itself included; 0: all,
            unless C{keep_seconds} is given.
        @param keep_seconds: backups that are younger stay, too; 0: only those that C{keep} names. Where it is
            given and C{keep} is 0, all that are older go, but the newest.
        @raise PeerRefused: through the Deferred: the name is none or taken, a backup is running, or it is a broker of
            RocketMQ, which makes none (3).
        """
        header = BackupStoreRequest(name=name, rate=rate, keep=keep, keep_seconds=keep_seconds)
        answer = await self._asking.broker(await self._address(broker), RequestCode.BACKUP_STORE, header)
        return body_of(BackupReport, answer)

    @deferred
    async def cancel_backup(self, broker: str) -> BackupReport:
        """
        Cancel the backup of a broker's store that runs, if one does, and return how the last one goes.

        What there is of it is removed; its state is C{failed} soon after this.

        @raise PeerRefused: through the Deferred: it is a broker of RocketMQ, which makes none (3).
        """
        header = BackupStoreRequest(cancel=True)
        answer = await self._asking.broker(await self._address(broker), RequestCode.BACKUP_STORE, header)
        return body_of(BackupReport, answer)

    @deferred
    async def store_state(self, broker: str) -> StoreState:
        """
        Return the state of a broker's store: its log and disk, retention, damage, scrub and timed messages.

        @raise PeerRefused: through the Deferred: it is a broker of RocketMQ, which does not say (3).
        """
        return body_of(StoreState, await self._asking.broker(await self._address(broker), RequestCode.GET_STORE_STATE))

    @deferred
    async def scrub(self, broker: str, running: bool) -> StoreState:
        """
        Begin a scrub of a broker's log if none runs, or end the one that runs; return the state of its store.

        @raise PeerRefused: as L{store_state}.
        """
        header = ScrubStoreRequest(running=running)
        answer = await self._asking.broker(await self._address(broker), RequestCode.SCRUB_STORE, header)
        return body_of(StoreState, answer)

    # -- in and out of use -----------------------------------------------------------------------------------

    @deferred
    async def wipe_write(self, broker: str) -> int:
        """
        Remove the write permission of a broker's topics at all registries; return the number of topics.

        It lasts until the broker registers changed topics, or until L{restore_write}.
        """
        answers = await self._asking.registries(
            RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermRequest(broker_name=broker)
        )
        return max(header_of(WipeWritePermResponse, one).wipe_topic_count for one in answers.values())

    @deferred
    async def hold_writes(self, broker: str) -> dict[str, CallFailed]:
        """
        Repeat L{wipe_write}, so that it lasts although the broker registers; return the registries that did not answer.

        @raise CallFailed: no registry answered; this is the first one's failure.
        """
        header = WipeWritePermRequest(broker_name=broker)
        answers = await self._asking.each_registry(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        failed = {address: answer for address, answer in answers.items() if isinstance(answer, CallFailed)}
        if len(failed) == len(answers):
            raise next(iter(failed.values()))
        return failed

    @deferred
    async def restore_write(self, broker: str) -> int:
        """Restore the write permission of a broker's topics at all registries; return the number of topics."""
        answers = await self._asking.registries(
            RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermRequest(broker_name=broker)
        )
        return max(header_of(AddWritePermResponse, one).add_topic_count for one in answers.values())
