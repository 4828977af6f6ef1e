"""A hook that is made anew for each connection, so that it can remember what it has decided there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from weakref import ref

from zope.interface import implementer

from smartgo.remoting.interfaces import IPeer, IRequestHook
from smartgo.remoting.processor import RequestHook
from smartgo.remoting.rungrants import RunGrants
from smartgo.schema.command import Command

RequestCheck: TypeAlias = "Callable[[Command], None]"
"""Lets a request of one connection pass; raises L{RequestRefused<smartgo.errors.RequestRefused>} to stop it."""


@implementer(IRequestHook)
class ConnectionHook(RequestHook):
    """
    Asks about each request the check that belongs to its connection.

    @ivar grants: see L{IRequestHook<smartgo.remoting.interfaces.IRequestHook>}.
    """

    def __init__(self, make_check: Callable[[IPeer], RequestCheck], grants: RunGrants | None = None) -> None:
        """
        @param make_check: makes the check of a connection at its first request; the check must not keep the
            connection, or it is never freed.
        """
        self.grants = grants
        self._make_check = make_check
        self._checks: dict[int, RequestCheck] = {}
        self._peers: dict[int, ref[IPeer]] = {}

    def __len__(self) -> int:
        """Return the number of connections that have a check."""
        return len(self._checks)

    def before(self, peer: IPeer, request: Command) -> None:
        """Let a request pass, or stop it by what the check raises."""
        check = self._checks.get(id(peer))
        if check is None:
            check = self._begin(peer)
        check(request)

    def _begin(self, peer: IPeer) -> RequestCheck:
        """Make the check of a connection, which goes with the connection."""
        number = id(peer)

        def forget(_: object) -> None:
            del self._checks[number], self._peers[number]

        check = self._checks[number] = self._make_check(peer)
        self._peers[number] = ref(peer, forget)
        return check
