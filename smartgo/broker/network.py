"""A broker's connections to others: their TLS, their limits, and the client for registries and other brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred

from smartgo.auth.connections import AccessControl
from smartgo.auth.ruleediting import RuleEditor
from smartgo.net.limits import Limits
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS, ServerTLS
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.interfaces import IRequestHook
from smartgo.remoting.listeners import ListenerMux
from smartgo.schema.signature import AccessKey

AccessChange: TypeAlias = "Callable[[Callable[[RuleEditor], object]], Deferred[Any]]"
"""Calls a function with the files' editor in a thread, puts in force what they say then; fires with its result."""


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """
    The TLS and the access control of a broker's ports and of its own calls.

    @ivar server: certificate and key of its ports, loaded; C{None} where they speak none.
    @ivar client: how it speaks to registries and other brokers, where that is by TLS.
    @ivar hooks: access control: see each request of its ports.
    @ivar control: the rules that these hooks ask, for what a request does not name itself.
    @ivar change: has the files of these rules changed; C{None} where access control is off.
    @ivar key: signs its own requests; C{None} where they are not signed.
    """

    server: ServerTLS | None = None
    client: ClientTLS | None = None
    hooks: tuple[IRequestHook, ...] = ()
    control: AccessControl | None = None
    change: AccessChange | None = None
    key: AccessKey | None = None


@dataclass(frozen=True, slots=True)
class BrokerNetwork:
    """
    The parts of a broker that connections are made of.

    @ivar sweeper: timers and memory budget of connections, shared with others of the process.
    @ivar limits: what connections to the broker's ports may take.
    @ivar security: TLS and access control.
    @ivar client: asks registries and other brokers.
    @ivar dialled: tells of the connections of C{client}.
    """

    sweeper: Sweeper
    security: BrokerSecurity
    limits: Limits
    client: RemotingClient
    dialled: ListenerMux
