"""
The nodes of a local cluster as processes: started in order, waited for, watched, stopped in order.

A node tells that it is ready as it would tell systemd (L{smartgo.node.notify}). Its log is a file of its own; what it
says on standard output and error is shown when it ends by itself.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IListeningPort, IProcessTransport
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from smartgo.cli.support.localcluster import NodePlan
from smartgo.cli.support.output import printable
from smartgo.cli.support.running import FAILED, CommandError
from smartgo.env.interfaces import IEnvironment

PATIENCE: Final = 20.0
"""Seconds from the signal to a node until it is killed; it needs 10 at most (reliability D14)."""

_CHILD: Final = "smartgo.node.child"
_KEPT: Final = 4096  # bytes of what a node said
_LINES_SAID: Final = 10
_LINES_LOGGED: Final = 3

Spawn = Callable[..., IProcessTransport]
"""C{spawnProcess} of the reactor."""


class NodeProcess(ProcessProtocol):
    """
    One node.

    @ivar ready: fires once, with whether it serves; C{False} when it has ended before.
    @ivar ended: fires with this when it has ended.
    @ivar status: how it ended: an exit status, or a signal's number below 0; C{None} while it runs.
    """

    transport: IProcessTransport

    def __init__(self, node: NodePlan) -> None:
        self.node = node
        self.ready: Deferred[bool] = Deferred()
        self.ended: Deferred[NodeProcess] = Deferred()
        self.status: int | None = None
        self.said = b""

    def heard(self, words: bytes) -> None:
        """Take what it tells of itself."""
        if b"READY=1" in words.split(b"\n") and not self.ready.called:
            self.ready.callback(True)

    def outReceived(self, data: bytes) -> None:
        """Keep the end of what it says."""
        self.said = (self.said + data)[-_KEPT:]

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        """Say so."""
        value: Any = reason.value
        self.status = -value.signal if value.signal else value.exitCode or 0
        if not self.ready.called:
            self.ready.callback(False)
        self.ended.callback(self)

    @property
    def pid(self) -> int | None:
        """Of its process."""
        pid: int | None = self.transport.pid
        return pid

    def signal(self, name: str) -> None:
        """Send a signal, if it still runs."""
        try:
            self.transport.signalProcess(name)
        except ProcessExitedAlready:
            pass

    def in_words(self) -> str:
        """How it ended, in a sentence."""
        status = self.status or 0
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{self.node.name} {how}; its log is {self.node.log}"


class NodeProcesses:
    """
    All nodes of a cluster.

    @ivar running: those that run, in the order in which they were started.
    @ivar over: fires when the last has ended by itself.
    """

    def __init__(self, env: IEnvironment, spawn: Spawn, say: Callable[[str], object]) -> None:
        """
        @param say: is told, in a sentence or two, when a node ends that should not.
        """
        self._env = env
        self._spawn = spawn
        self._say = say
        self._config = ""
        self._ears: list[IListeningPort] = []
        self._stopping = False
        self.running: list[NodeProcess] = []
        self.over: Deferred[None] = Deferred()

    async def start(self, nodes: Sequence[NodePlan], config: str = "") -> list[NodeProcess]:
        """
        Start nodes, one role after another; returns when all serve. C{stop} in any case.

        @param config: the file of settings; empty for none.
        @raise Refusal: one ended at once; with its status.
        """
        self._config = config
        started = []
        for _, same in groupby(nodes, lambda node: node.role):
            group = [self._begin(node) for node in same]
            started += group
            for process in group:
                if not await process.ready:
                    raise self._refusal(process)
        for process in started:
            process.ended.addCallback(self._lost)
        return started

    def _begin(self, node: NodePlan) -> NodeProcess:
        process = NodeProcess(node)
        self._env.files.make_directories(node.folder)
        address = f"@smartgo-{self._env.random.token(16).hex()}"
        self._ears.append(self._env.network.hear(address, process.heard))
        command = [sys.executable, "-m", _CHILD, *node.arguments(self._config)]
        self._spawn(process, sys.executable, command, env=self._environment(address))
        self.running.append(process)
        process.ended.addCallback(self._gone)
        return process

    def _environment(self, address: str) -> Mapping[str, str]:
        left_out = ("NAMESRV_ADDR", "WATCHDOG_USEC", "WATCHDOG_PID")
        kept = {name: value for name, value in os.environ.items() if name not in left_out}
        return {**kept, "NOTIFY_SOCKET": address}

    def _gone(self, process: NodeProcess) -> NodeProcess:
        self.running.remove(process)
        return process

    def _lost(self, process: NodeProcess) -> NodeProcess:
        if self._stopping:
            return process
        self._say(f"{process.in_words()}{_indented(self._last_words(process))}")
        if self.running:
            twistd = os.path.join(os.path.dirname(sys.executable), "twistd")
            again = shlex.join([twistd, *process.node.arguments(self._config)])
            self._say(f"the others go on; {process.node.name} is started again by: {again}")
        if not self.running and not self.over.called:
            self.over.callback(None)
        return process

    def _refusal(self, process: NodeProcess) -> CommandError:
        """Why one did not start: the one sentence that it said, or its end, with all that it said above."""
        status = process.status if process.status and process.status > 0 else FAILED
        words = self._last_words(process)
        if len(words) == 1:
            return CommandError(f"{process.node.name} does not start: {words[0]}", status)
        self._say(f"{process.node.name} said at last:{_indented(words)}")
        return CommandError(process.in_words(), status)

    def _last_words(self, process: NodeProcess) -> list[str]:
        """Return the last lines that it said, else the last of its log."""
        if process.said:
            return process.said.decode(errors="replace").splitlines()[-_LINES_SAID:]
        path = process.node.log
        try:
            size = self._env.files.size(path)
            end: bytes = self._env.files.read_at(path, max(0, size - _KEPT), _KEPT)
        except OSError:
            return []
        return end.decode(errors="replace").splitlines()[-_LINES_LOGGED:]

    async def stop(self) -> None:
        """Stop what runs, one role after another, the last first; returns when all have ended."""
        self._stopping = True
        last_first = reversed(self.running[:])
        for _, same in groupby(last_first, lambda process: process.node.role):
            await self._end(list(same))
        for ear in self._ears:
            await maybeDeferred(ear.stopListening)
        self._ears.clear()

    async def _end(self, processes: Sequence[NodeProcess]) -> None:
        for process in processes:
            process.signal("TERM")
        killing = [self._env.clock.callLater(PATIENCE, process.signal, "KILL") for process in processes]
        await DeferredList([process.ended for process in processes])
        for call in killing:
            if call.active():
                call.cancel()


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"\n    {printable(line.expandtabs(4))}" for line in lines)
