"""The API as a Service: its tables, its client towards the cluster, its port."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.auth.connections import AccessControl
from smartgo.client.admin import Admin
from smartgo.client.client import Client, Embedding
from smartgo.client.internal.route import MASTER
from smartgo.config.settings import OpsConfig
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import CallFailed, SettingError
from smartgo.net.endpoints import endpoint
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS, ServerTLS
from smartgo.ops.alerts.messages import NoticeOrigin
from smartgo.ops.alerts.monitor import AlertMonitor
from smartgo.ops.alerts.notifier import AlertNotifier
from smartgo.ops.alerts.senders import check_secrets
from smartgo.ops.console.files import console_pages
from smartgo.ops.figures.history import History
from smartgo.ops.figures.sampler import LANE, BrokerFigures, FigureSampler
from smartgo.ops.figures.subjectsampler import SubjectSampler
from smartgo.ops.interfaces import ILocalNode
from smartgo.ops.membership.memory import MemberMemory
from smartgo.ops.reading.boundedasking import BoundedAsking, Silences
from smartgo.ops.reading.contentcounter import ContentCounter
from smartgo.ops.reading.plans import PlanTable
from smartgo.ops.reading.progress import ProgressReader
from smartgo.ops.reading.survey import GroupSurvey
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.catalog import ClusterParts, ResourceParts, SecurityParts, all_resources
from smartgo.ops.resources.debug import DebugApi
from smartgo.ops.resources.settings import note_asked
from smartgo.ops.security.accounts import AccountAccess
from smartgo.ops.security.audit import AuditLog
from smartgo.ops.security.requestguard import GuardSettings, RequestGuard
from smartgo.ops.security.sessions import SessionTable
from smartgo.ops.security.tokens import TokenTable, parse_configured
from smartgo.ops.web.application import RestApplication
from smartgo.ops.web.jobs import JobTable
from smartgo.ops.web.partial import Missing
from smartgo.ops.web.site import HttpLimits, HttpSite
from smartgo.ops.web.streams import Streams
from smartgo.remoting.origin import Networks
from smartgo.schema.address import is_loopback_host
from smartgo.schema.signature import AccessKey
from smartgo.tablefile import TableFile

_INSTANCE: Final = "ops"
_WARNING_SECONDS: Final = 60.0
"""Between two warnings of one broker that does not answer; it is asked much more often."""


@dataclass(frozen=True)
class OpsNetwork:
    """
    The listening addresses of the API, and its connections to the cluster.

    @ivar place: address and port to serve at; port 0 takes a free one.
    @ivar registries: C{host:port} of each registry of the cluster.
    @ivar tls: certificate and key: then nothing but HTTPS is spoken.
    @ivar client_tls: how registries and brokers are spoken to, where that is by TLS.
    @ivar access_key: signs requests to them; C{None} where they are not signed.
    @ivar access: the rules of access control, whose accounts may use the API; C{None} where it is off.
    """

    place: tuple[str, int]
    registries: Sequence[str]
    tls: ServerTLS | None = None
    client_tls: ClientTLS | None = None
    access_key: AccessKey | None = None
    access: AccessControl | None = None


class Ops(Service):
    """
    The REST API of one process, or of a cluster from outside.

    @ivar ready: fires with this once clients can connect, or fails with why not.
    @ivar tables: the files that are read at the start, each with what reads it.
    @ivar tls: certificate and key of the port, if any.
    @ivar client: towards registries and brokers; C{admin} asks over it, C{view} keeps answers for a moment.
    @ivar membership: remembers the members of the cluster; C{contents} counts what brokers have.
    @ivar sessions, tokens, audit, streams, jobs, sampler, subjects, alerts, notifier, api: its parts.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        config: OpsConfig,
        network: OpsNetwork,
        sweeper: Sweeper,
        node: ILocalNode | None = None,
        metrics: Callable[[], CollectorRegistry] | None = None,
        resources: Sequence[object] = (),
    ) -> None:
        """
        @param network: where to serve, and how to reach the cluster.
        @param sweeper: timers and memory budget of connections, shared with others of the process.
        @param node: the process around the API; C{None} where it fronts a cluster from outside.
        @param metrics: returns what C{/metrics} shows.
        @param resources: more of them, besides those of smartgo.
        @raise SettingError: a setting that cannot be followed.
        """
        self._env = env
        self._config = config
        self._place = network.place
        self.tls = network.tls
        self._sampling = False
        self._silenced: dict[str, float] = {}
        self.ready: Deferred[Ops] = Deferred()
        brokers = Networks(config.ops_broker_networks)
        instance = f"{_INSTANCE}-{env.random.token(4).hex()}"
        self.client = Client(
            env,
            network.registries,
            instance,
            network.client_tls,
            Embedding(brokers.reaches if brokers else None, sweeper),
            network.access_key,
        )
        self.admin = Admin(self.client, self._missing)
        self._silences = Silences(env.clock.seconds)
        members = TableFile(env, posixpath.join(config.ops_path, "members.json"))
        self.membership = MemberMemory(env, members, network.registries)
        self.view = ClusterView(env.clock, self.admin, self._bounded, self.membership)
        self.contents = ContentCounter(env.clock, self.view, self.membership)
        file = TableFile(env, posixpath.join(config.ops_path, "tokens.json"))
        self.tokens = TokenTable(env, file, parse_configured(_words(config.ops_tokens)))
        plans = TableFile(env, posixpath.join(config.ops_path, "offset-plans.json"))
        self.plans = PlanTable(env, plans)
        self.tables: list[tuple[TableFile, Callable[[], object]]] = [
            (file, self.tokens.load),
            (plans, self.plans.load),
            (members, self.membership.load),
        ]
        accounts = AccountAccess(network.access)
        self.sessions = SessionTable(env, self.tokens, accounts)
        self.audit = AuditLog(env, posixpath.join(config.ops_path, "audit.jsonl"))
        if node is not None:
            node.hear(partial(note_asked, env, self.audit))
        self.streams = Streams(env.clock, config.ops_max_streams)
        self.jobs = JobTable(env)
        progress = ProgressReader(env.clock, self.view)
        path = posixpath.join(config.ops_path, "history.bin")
        survey = GroupSurvey(env.clock, self.view, progress)
        alerts = TableFile(env, posixpath.join(config.ops_path, "alerts.json"))
        history = History()
        self.alerts = AlertMonitor(env, self.client, self.view, survey, history, alerts, node)
        self.tables.append((alerts, self.alerts.load))
        check_secrets(env, config.alert_receivers)
        notices = TableFile(env, posixpath.join(config.ops_path, "alert-notices.json"))
        origin = NoticeOrigin(config.alert_source, config.alert_runbooks)
        self.notifier = AlertNotifier(env, config.alert_receivers, origin, notices, self.alerts.table)
        self.tables.append((notices, self.notifier.load))
        self.alerts.watch(self.notifier.look)
        self.sampler = FigureSampler(env, self.view, progress, history, path, self._sampled)
        self.subjects = SubjectSampler(env.clock, self.view, survey, history)
        scope = config.ops_certificate_scope
        self._guard = RequestGuard(
            env.clock.seconds,
            self.tokens,
            self.sessions,
            GuardSettings(
                _words(config.ops_hosts),
                _words(config.ops_trusted_proxies),
                config.ops_requests_per_second,
                None if scope == "none" else scope,
            ),
            accounts,
        )
        registry = CollectorRegistry()
        parts = ResourceParts(
            env,
            SecurityParts(self._guard, self.tokens, self.sessions, self.audit),
            ClusterParts(
                self.client, self.view, progress, survey, self.sampler, self.subjects, self.alerts, self.notifier
            ),
            self.jobs,
            self.plans,
            node,
            metrics or (lambda: registry),
        )
        served = [*all_resources(parts), *([DebugApi()] if config.ops_debug else []), *resources]
        self.api = RestApplication(env, self._guard, self.audit, self.streams, served, console_pages())
        place = endpoint(*network.place)
        self.site = HttpSite(env, sweeper, place, self.api.render, self.api.body_limit, network.tls, _limits(config))

    @property
    def url(self) -> str:
        """The URL of the API, once it is ready."""
        address, port = self._place
        (listening,) = self.site.ports
        port = listening or port
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address, f"[{address}]" if ":" in address else address)  # noqa: S104
        return f"{'http' if self.tls is None else 'https'}://{name}:{port}/"

    def login_url(self) -> str:
        """Return a link that logs in as admin once, within an hour."""
        return f"{self.url}#login={self.sessions.new_code()}"

    def _bounded(self, missing: Missing, seconds: float | None) -> Admin:
        """Return the administration client of one view, with its time limits."""
        return Admin(self.client, asking=BoundedAsking(self.client, missing, self._silences, seconds, self._missing))

    def _missing(self, broker: str, error: CallFailed) -> None:
        now = self._env.clock.seconds()
        if now >= self._silenced.get(broker, 0.0):
            self._silenced[broker] = now + _WARNING_SECONDS
            self._log.warn("broker {broker} does not answer: {error}", broker=broker, error=str(error))

    def _sampled(self, brokers: Sequence[BrokerFigures] | None) -> bool:
        """
        Let alerts and the count of messages take the latest samples; return whether the next ones are wanted soon.

        @param brokers: C{None} if brokers could not be asked.
        """
        self.alerts.look(brokers)
        if brokers is not None:
            masters = [one for one in brokers if one.up and one.id == MASTER]
            self.contents.look({one.name: one.log_bytes for one in masters})
            self.membership.table.timed({one.name: one.timed for one in masters if one.timed is not None})
        return self.contents.waits

    # -- start and stop ----------------------------------------------------------------------------------------

    def startService(self) -> None:
        """Start serving; see C{ready}."""
        super().startService()
        Deferred.fromCoroutine(self._start()).addCallbacks(self.ready.callback, self.ready.errback)

    async def _start(self) -> Ops:
        self._env.files.make_directories(self._config.ops_path)
        self.tokens.load()
        self.plans.load()
        self.membership.load()
        self.audit.load()
        self.alerts.load()
        self.notifier.load()
        await self._env.threads.run(LANE, self.sampler.load)
        self.check_address()
        await self.site.open()
        self.sampler.start()
        self.subjects.start()
        self._sampling = True
        self._log.info("REST API and console at {url}", url=self.url)
        if self._config.alert_receivers and not self._config.alert_runbooks:
            self._log.info(
                "notices of alerts have no address of a page with runbooks: set alertRunbooks, for example to a copy of"
                " the page on alerts"
            )
        return self

    def check_address(self) -> None:
        """
        Refuse an address that needs a token, or access control, or TLS; the tokens must have been loaded.

        @raise SettingError: see L{check_place}.
        """
        check_place(self._place[0], self._guard.login_needed, self.tls is not None, self._config)

    def stopService(self) -> Deferred[None]:
        """Stop listening, end open requests, save; fires when everything has stopped."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self.streams.stop()
        self.jobs.stop()
        await self.site.stopService()
        if self._sampling:
            self.subjects.stop()
            await self.sampler.stop()
        await self.alerts.stop()
        await self.notifier.stop()
        self.contents.stop()
        await self.membership.stop()
        await self.client.stop()
        await self.audit.settled()
        for file, _ in self.tables:
            await file.settled()


def check_place(address: str, login_needed: bool, tls: bool, config: OpsConfig) -> None:
    """
    Refuse to serve a network without tokens and access control, or without TLS (reliability X1, X10).

    @param login_needed: whether there is a token, or access control is on.
    @raise SettingError: the address is no loopback address, and anybody could read, or there is no TLS and nobody
        allowed that.
    """
    if is_loopback_host(address):
        return
    if not login_needed:
        raise SettingError(
            f"the REST API would listen on {address} without any token: anybody could read everything. Create"
            " one first, over a loopback address or with the setting opsTokens, or turn access control on (aclEnable)"
        )
    if not tls and not config.ops_allow_insecure:
        raise SettingError(
            f"the REST API would listen on {address} without TLS, and show tokens to the network; configure"
            " tls.server.certPath, or set opsAllowInsecure=true behind a proxy that speaks TLS"
        )


def _limits(config: OpsConfig) -> HttpLimits:
    """The settings of connections and requests."""
    return HttpLimits(
        config.ops_max_connections,
        config.ops_max_connections_per_address,
        config.ops_max_requests,
        frozenset(_words(config.ops_trusted_proxies)),
    )


def _words(text: str) -> tuple[str, ...]:
    """The parts of a setting that is a list."""
    return tuple(one for one in text.split(";") if one)
