"""
A notice board on the remoting framework: clients post, read, or wait for the next notice.

Run it: C{python docs/examples/remoting_board.py}. It serves on a free port, talks to itself, and stops.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment
from smartgo.env.real import RealEnvironment
from smartgo.errors import QueryNotFound
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.sweeper import Sweeper
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.dispatch import Dispatcher, LongPoll
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.server import RemotingServer
from smartgo.schema.command import Command

POST, READ, WAIT = 9001, 9002, 9003


@implementer(IRequestProcessor)
class Board:
    """One notice, and everybody who waits for the next."""

    codes = frozenset([POST, READ, WAIT])

    def __init__(self) -> None:
        self._notice: bytes | None = None
        self._waiting: dict[Deferred[Any], Command] = {}
        self._posted = False

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """Answer at once where that is possible."""
        if request.code == POST:
            self._notice = request.body
            self._posted = True
            return request.answer()
        if request.code == READ:
            if self._notice is None:
                raise QueryNotFound("nothing was posted yet")
            return request.answer(body=self._notice)
        held = LongPoll(self._let_go)
        self._waiting[held] = request
        return held

    def refuses(self) -> bool:
        """Return False: no request is refused for lack of room."""
        return False

    def run_ended(self) -> None:
        """Wake everybody who waits, once for all the notices of one read."""
        if self._posted:
            self._posted = False
            waiting, self._waiting = self._waiting, {}
            for held, request in waiting.items():
                held.callback(request.answer(body=self._notice or b""))

    def _let_go(self, held: Deferred[Any]) -> None:
        """The client has gone, or the server stops."""
        self._waiting.pop(held, None)


async def serve_and_talk(env: IEnvironment, write: Any = sys.stdout.write) -> None:
    """Start a board, use it as two clients would, stop everything."""
    sweeper = Sweeper(env.clock, MemoryBudget(env.clock))
    server = RemotingServer(env, "tcp:0:interface=127.0.0.1", Dispatcher([Board()]), sweeper)
    await server.open()
    server.startService()
    address = f"127.0.0.1:{server.ports[0]}"

    reader = RemotingClient(env, sweeper)
    empty = await reader.ask(address, Command.request(READ))
    write(f"read: code {empty.code}, {empty.remark}\n")
    waiting = reader.ask(address, Command.request(WAIT), timeout=30.0)
    await reader.ask(address, Command.request(READ))  # on the same connection, so the board has seen both

    writer = RemotingClient(env, sweeper)
    await writer.tell(address, Command.request(POST, body=b"the tea is ready"))
    write(f"waited for: {(await waiting).body.decode()}\n")

    for client in (reader, writer):
        await client.stop()
    await server.stopService()


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(serve_and_talk(RealEnvironment(reactor))))
