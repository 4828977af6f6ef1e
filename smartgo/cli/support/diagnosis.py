"""
The checks of C{smartgo doctor}: common problems of a cluster.

Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from smartgo.cli.support.brokerlist import number
from smartgo.cli.support.diagnosisresults import (
    NOTE,
    OK,
    PROBLEM,
    WARNING,
    DiagnosisFinding,
    FindingStream,
    descriptors,
    disk,
    few,
    fullness,
    judged,
    permission,
    refusal,
    replication,
    unwritable,
)
from smartgo.cli.support.groupdiagnosis import GroupDiagnosis, dead_letters
from smartgo.cli.support.memberdiagnosis import members
from smartgo.cli.support.output import counted, span
from smartgo.cli.support.portprobe import PortReply, probe
from smartgo.cli.support.rest import RestOptions
from smartgo.cli.support.session import ClusterSession
from smartgo.client.administration.brokers import BrokerPlace, subject_of
from smartgo.client.administration.transactions import TransactionSelection
from smartgo.client.internal.route import MASTER, WRITE
from smartgo.errors import CallFailed, NotConnected, PeerRefused
from smartgo.remoting.plainrefusal import REMARK
from smartgo.schema import refusalkind
from smartgo.schema.address import is_loopback_host, parse_address
from smartgo.schema.bodies import ClusterInfo, TopicConfig
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.runtimeclock import wall_clock_ms
from smartgo.schema.sizes import size_text
from smartgo.schema.topics import TEMPLATE_TOPIC

INHERIT: Final = 1  # bit of a topic's permission: others may be made after it
_ROUTES: Final = 10  # topics of a broker whose routes are asked for its permission

_TRY_TLS: Final = "the port requires TLS: try --tls, and --ca with its CA certificate"
_MEND_FIRST: Final = "what it tells is incomplete: mend what stands above first, and run doctor again"


class Diagnosis:
    """Runs all checks on one cluster."""

    def __init__(
        self, session: ClusterSession, rest: RestOptions, broker: str | None = None, store: str | None = None
    ) -> None:
        """
        @param rest: the REST API, which remembers brokers that are gone.
        @param broker: C{host:port} of a broker that should answer and be registered.
        @param store: a store directory on this machine, whose disk is measured.
        """
        self._session = session
        self._rest = rest
        self._env = session.env
        self._admin = session.admin
        self._broker = broker
        self._store = store
        self._seen: dict[str, ClusterInfo] = {}  # by registry
        self._shut: dict[str, int] = {}  # masters whose own permission lets nobody write, and that
        self._refusing: set[str] = set()  # masters whose store takes nothing
        self._groups = GroupDiagnosis(session)

    async def run(self) -> FindingStream:
        """Yield the findings; a check whose requests fail is reported as not finished."""
        async for one in self._registries():
            yield one
        if self._broker is not None:
            async for one in self._expected(self._broker):
                yield one
        if self._store is not None:
            async for one in disk(self._env, self._store):
                yield one
        async for one in descriptors(self._env):
            yield one
        registries = self._session.client.registries
        async for one in members(self._env, self._rest, registries, self._registered(), self._masterless()):
            yield one
        if not self._seen:
            yield DiagnosisFinding(
                NOTE,
                "cluster",
                "nothing else was checked, as no registry answers: not the disks, stores and replication of brokers,"
                " nor topics, groups and dead letters",
            )
            return
        looks: dict[str, Callable[[], FindingStream]] = {
            "brokers": self._brokers,
            "the template topic": self._template,
            "topics": self._topics,
            "transactions": self._transactions,
            "groups and dead letters": self._groups.run,
        }
        for what, look in looks.items():
            try:
                async for one in look():
                    yield one
            except CallFailed as error:
                yield DiagnosisFinding(
                    WARNING, "cluster", f"the check of {what} could not be finished: {error}", _MEND_FIRST
                )

    def _registered(self) -> set[str]:
        """Return the addresses of all brokers that a registry knows."""
        return {address for info in self._seen.values() for address in _addresses(info)}

    def _masterless(self) -> set[str]:
        """Return the names of brokers of which a registry knows slaves and no registry knows a master."""
        tables = [info.broker_addr_table for info in self._seen.values()]
        masters = {name for table in tables for name, data in table.items() if MASTER in data.broker_addrs}
        return {name for table in tables for name in table} - masters

    # -- registries ------------------------------------------------------------------------------------------

    async def _registries(self) -> FindingStream:
        for address in self._session.client.registries:
            command = Command.request(RequestCode.GET_BROKER_CLUSTER_INFO)
            try:
                answer = await self._session.client.ask(address, command)
                self._seen[address] = ClusterInfo.decode(answer.body)
            except CallFailed as error:
                yield await self._unreachable(
                    f"registry {address}", address, error, "smartgo dev, twistd smartgo-registry"
                )
                continue
            yield DiagnosisFinding(
                OK,
                f"registry {address}",
                f"answers and knows {_census(self._seen[address])}",
            )
        # By names: which address a broker has may depend on the registry's address that was asked.
        tables = {address: set(_processes(info)) for address, info in self._seen.items()}
        everything = set().union(*tables.values()) if tables else set()
        if tables and not everything:
            yield DiagnosisFinding(
                PROBLEM,
                "registry",
                "no broker is registered",
                "start one with this registry in its namesrvAddr; one that runs says in its log why it cannot register",
            )
        for address, known in tables.items():
            if known != everything:
                yield DiagnosisFinding(
                    PROBLEM,
                    f"registry {address}",
                    f"does not know {', '.join(sorted(everything - known))}",
                    "list all registries in the namesrvAddr of every broker, separated by semicolons",
                )

    async def _unreachable(self, subject: str, address: str, error: CallFailed, what: str) -> DiagnosisFinding:
        """Return why a process does not answer, judged by how its port replies."""
        if isinstance(error, PeerRefused):
            wants_tls = error.remark.endswith(REMARK)
            advice = _TRY_TLS if wants_tls else "check that this is the right port"
            words = " ".join(str(error).split())
            return DiagnosisFinding(PROBLEM, subject, f"refuses the request: {words}", advice)
        found = await probe(self._env, address)
        advice = {
            PortReply.REFUSED: f"is it running ({what})? Does it listen on this address, and does a firewall block it?",
            PortReply.HTTP2: "this is a gRPC port (RocketMQ 5's proxy); use the remoting port, 10911 of a broker or "
            "9876 of a registry. Likewise a gRPC client cannot use those: it needs a proxy",
            PortReply.HTTP1: "this is an HTTP port; use the remoting port: 10911 of a broker, 9876 of a registry",
            PortReply.TLS: _TRY_TLS,
            PortReply.CLOSED: "does it require TLS (try --tls)? Has it too many connections? Is this the right port?",
            PortReply.SILENT: "is the process stopped or too busy? Is this the right port?",
            PortReply.OTHER: "this is no RocketMQ port; use 10911 of a broker or 9876 of a registry",
        }[found]
        kind = "no connection" if isinstance(error, NotConnected) and found is PortReply.REFUSED else str(found)
        return DiagnosisFinding(
            PROBLEM, subject, f"{error}; the port {kind}" if found is not PortReply.REFUSED else str(error), advice
        )

    async def _expected(self, address: str) -> FindingStream:
        """Check a broker that should answer and be registered."""
        subject = f"broker {address}"
        try:
            settings = await self._admin.brokers.settings(address)
        except CallFailed as error:
            yield await self._unreachable(subject, address, error, "smartgo dev, twistd smartgo-broker")
            return
        known = self._registered()
        advertised = f"{settings.get('brokerIP1')}:{settings.get('listenPort')}"
        others = [rule.rpartition("=")[2] for rule in settings.get("advertisedAddresses", "").split(";")]
        registered = [one for one in (advertised, address, *others) if one in known]
        if registered:
            yield DiagnosisFinding(OK, subject, f"answers and is registered as {registered[0]}")
            return
        yield DiagnosisFinding(
            PROBLEM,
            subject,
            f"answers, but is not registered here; it registers as {advertised}",
            f"its namesrvAddr ({settings.get('namesrvAddr') or 'empty'}) must name {', '.join(self._seen) or 'one'}",
        )

    # -- brokers ---------------------------------------------------------------------------------------------

    async def _brokers(self) -> FindingStream:
        for place in await self._admin.brokers.places():
            subject = f"broker {place.subject}"
            async for one in self._address(subject, place):
                yield one
            began = self._env.clock.seconds()
            now = self._env.clock.wall_ms()
            try:
                table = await self._admin.brokers.runtime(place.address)
            except CallFailed as error:
                found = await self._unreachable(subject, place.address, error, "twistd smartgo-broker")
                advice = found.advice
                if advice != _TRY_TLS:
                    advice = (
                        "clients connect to the address that a broker advertises: set brokerIP1 to an address that they"
                        f" can reach, or set advertisedAddresses if there is none for all; otherwise: {advice}"
                    )
                yield DiagnosisFinding(found.verdict, subject, f"advertises {place.address}: {found.what}", advice)
                continue
            took = self._env.clock.seconds() - began
            yield DiagnosisFinding(OK, subject, f"answers at {place.address} in {took * 1000:.0f} ms")
            for finding in self._state(subject, table, now / 1000 + took / 2):
                yield finding
            masterless = place.name in self._masterless()
            unrouted = masterless and not await self._admin.topics.serves(place.name, place.name)
            for finding in replication(subject, table, masterless, unrouted):
                yield finding
            if place.id == MASTER:
                if refusalkind.WORDS in table:
                    self._refusing.add(place.name)
                await self._permission(place)
        info = await self._admin.brokers.cluster()
        for name, permitted in sorted(self._shut.items()):
            mates = next((set(names) for names in info.cluster_addr_table.values() if name in names), set())
            masters = {one for one, data in info.broker_addr_table.items() if MASTER in data.broker_addrs}
            others = mates & masters - self._shut.keys() - self._refusing
            yield permission(f"broker {name}", name, permitted, bool(others))
        for name, addresses in sorted((info.contenders or {}).items()):
            for one in judged(
                "master-contended", f"broker {name}", len(addresses), reason=f" ({', '.join(addresses)})"
            ):
                yield one

    async def _permission(self, place: BrokerPlace) -> None:
        """Note a broker whose brokerPermission forbids writes; one that hides its settings counts as writable."""
        try:
            permitted = number(await self._admin.brokers.settings(place.address), "brokerPermission")
        except CallFailed:
            return
        if permitted is not None and not int(permitted) & WRITE:
            self._shut[place.name] = int(permitted)

    async def _address(self, subject: str, place: BrokerPlace) -> FindingStream:
        host, _ = parse_address(place.address)
        registries = [parse_address(one)[0] for one in self._session.client.registries]
        if is_loopback_host(host) and not all(map(is_loopback_host, registries)):
            yield DiagnosisFinding(
                PROBLEM,
                subject,
                f"advertises {place.address}, a loopback address that other machines cannot reach",
                "set brokerIP1 (and bindAddress) to an address that clients can reach",
            )

    def _state(self, subject: str, table: dict[str, str], now: float) -> list[DiagnosisFinding]:
        """Judge the runtime information of a broker."""
        found = []
        theirs_ms = wall_clock_ms(table)
        if theirs_ms is not None:
            differs = abs(theirs_ms / 1000 - now)
            order = "ahead of" if theirs_ms / 1000 > now else "behind"
            found += judged("clock-differs", subject, differs, span(differs) or "", order)
        found += refusal(subject, table)
        disk = number(table, "commitLogDiskRatio")
        if disk is not None:
            found.append(fullness(subject, disk, table.get("commitLogDirCapacity", "")))
        regions = number(table, "damagedRegions") or 0
        found += judged("log-damaged", subject, regions, f"{regions:.0f}")
        found += judged("access-files-refused", subject, number(table, "accessFilesRefused") or 0)
        behind = number(table, "dispatchBehindBytes") or 0
        found += judged("dispatch-behind", subject, behind, size_text(behind))
        slow = number(table, "putLatency99") or 0
        found += judged("send-slow", subject, slow / 1000, f"{slow:.0f} ms")
        if table.get("brokerActive", "true") != "true":
            found.append(DiagnosisFinding(WARNING, subject, "is not active", "look at its log"))
        return found

    # -- topics ----------------------------------------------------------------------------------------------

    async def _template(self) -> FindingStream:
        if set((await self._admin.brokers.cluster()).broker_addr_table) <= self._shut.keys() | self._refusing:
            return  # no broker accepts sends, which was reported already
        try:
            route = await self._admin.topics.route(TEMPLATE_TOPIC)
        except PeerRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            route = None
        if route is None or not any(one.perm & INHERIT for one in route.queue_datas):
            yield DiagnosisFinding(
                NOTE,
                "topics",
                f"there is no template topic ({TEMPLATE_TOPIC}): a send to a new topic fails with response code 17",
                "create topics first (smartgo topic create), or set autoCreateTopicEnable=true at a broker",
            )
        else:
            yield DiagnosisFinding(OK, "topics", "the first send to a new topic creates it")

    async def _topics(self) -> FindingStream:
        configs = await self._admin.topics.configs()
        registered = set(await self._admin.topics.names())
        for one in unwritable(configs, configs.keys() - self._shut.keys(), await self._admin.topics.system_names()):
            yield one
        for broker, table in configs.items():
            missing = [name for name in table if name not in registered]
            if broker in self._masterless():
                if not await self._admin.topics.serves(broker, broker):
                    missing = list(table)
                if missing:
                    yield DiagnosisFinding(
                        PROBLEM,
                        f"broker {broker}",
                        f"its slave has topics that the registry does not know: {few(missing)}; nobody can read them",
                        "start its master. A registry that was started while the master was gone takes the topics of"
                        " the slave after 35 to 65 s, if it is smartgo's; RocketMQ's takes them from masters only",
                    )
                continue
            if missing:
                yield DiagnosisFinding(
                    PROBLEM,
                    f"broker {broker}",
                    f"has topics that the registry does not know: {few(missing)}",
                    "brokers register every 30 s; check its namesrvAddr and its log",
                )
            if await self._is_left_out(broker, table, registered):
                yield DiagnosisFinding(
                    WARNING,
                    f"broker {broker}",
                    "its write permission is removed in the registry: producers do not send to it",
                    f"if it was stopped by smartgo cluster stop-writes: smartgo cluster start-writes {broker}",
                )
        for one in await dead_letters(self._session):
            yield one

    async def _transactions(self) -> FindingStream:
        """Judge the oldest undecided transaction of each broker that tells it."""
        told = await self._admin.transactions.list(TransactionSelection(count=1), lenient=True)
        now_ms = self._env.clock.wall_ms()
        for broker, one in told.items():
            for row in one.rows:
                age = max(0.0, (now_ms - row.born) / 1000)
                for finding in judged("transactions-old", f"broker {broker}", age, span(age) or ""):
                    yield finding

    async def _is_left_out(self, broker: str, table: Mapping[str, TopicConfig], registered: set[str]) -> bool:
        """
        Return whether the registry removed the write permission of a broker that would accept messages.

        Of a broker whose topics the registry does not know this is unknown, and so is a topic that only others have.
        """
        if broker in self._shut:
            return False
        writable = (name for name, one in table.items() if one.perm & WRITE and name in registered)
        for name in islice(writable, _ROUTES):
            route = await self._admin.topics.route(name)
            permissions = [each.perm for each in route.queue_datas if each.broker_name == broker]
            if permissions:
                return not any(each & WRITE for each in permissions)
        return False


def _addresses(info: ClusterInfo) -> list[str]:
    return [address for data in info.broker_addr_table.values() for address in data.broker_addrs.values()]


def _census(info: ClusterInfo) -> str:
    names, processes = len(info.broker_addr_table), len(_processes(info))
    return f"{counted(names, 'broker')}" + ("" if names == processes else f", which are {processes} processes")


def _processes(info: ClusterInfo) -> list[str]:
    return [subject_of(name, number) for name, data in info.broker_addr_table.items() for number in data.broker_addrs]
