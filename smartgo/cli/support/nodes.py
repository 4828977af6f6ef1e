"""
The nodes of a local cluster as processes: started in order, waited for, watched, stopped in order.

A node reports that it is ready as it would report to systemd (L{smartgo.node.notify}). It has its own log file; its
standard output and error are shown when it stops unexpectedly.
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
from smartgo.node.process import PortTaken, probe_ports

STOP_TIMEOUT: Final = 20.0
"""Seconds after SIGTERM until a node is killed; it needs 10 at most (reliability D14)."""

_CHILD: Final = "smartgo.node.child"
_KEPT: Final = 4096  # bytes of what a node said
_LINES_SAID: Final = 10
_LINES_LOGGED: Final = 3

Spawn = Callable[..., IProcessTransport]
"""C{spawnProcess} of the reactor."""


class NodeProcess(ProcessProtocol):
    """
    The process of one node.

    @ivar ready: fires once: C{True} when the node serves, C{False} when it ended before that.
    @ivar ended: fires with this object when the process has ended.
    @ivar status: the exit status, or the negative number of the signal; C{None} while it runs.
    """

    transport: IProcessTransport

    def __init__(self, node: NodePlan) -> None:
        self.node = node
        self.ready: Deferred[bool] = Deferred()
        self.ended: Deferred[NodeProcess] = Deferred()
        self.status: int | None = None
        self.said = b""

    def heard(self, words: bytes) -> None:
        """Handle a notification of the node."""
        if b"READY=1" in words.split(b"\n") and not self.ready.called:
            self.ready.callback(True)

    def outReceived(self, data: bytes) -> None:
        """Keep the end of its standard output and error."""
        self.said = (self.said + data)[-_KEPT:]

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        """Record the exit status and fire the Deferreds."""
        value: Any = reason.value
        self.status = -value.signal if value.signal else value.exitCode or 0
        if not self.ready.called:
            self.ready.callback(False)
        self.ended.callback(self)

    @property
    def pid(self) -> int | None:
        """The process id."""
        pid: int | None = self.transport.pid
        return pid

    def signal(self, name: str) -> None:
        """Send a signal, if it still runs."""
        try:
            self.transport.signalProcess(name)
        except ProcessExitedAlready:
            pass

    def in_words(self) -> str:
        """Return a sentence on how the process ended."""
        status = self.status or 0
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
        return f"{self.node.name} {how}; log: {self.node.log}"


class NodeProcesses:
    """
    The processes of all nodes of a cluster.

    @ivar running: the running processes, in the order of their start.
    @ivar over: fires when the last process has ended unexpectedly.
    """

    def __init__(self, env: IEnvironment, spawn: Spawn, say: Callable[[str], object]) -> None:
        """
        @param say: called with a sentence when a node stops unexpectedly.
        """
        self._env = env
        self._spawn = spawn
        self._say = say
        self._config = ""
        self._ears: list[IListeningPort] = []
        self._stopping = False
        self._died: list[NodePlan] = []
        self.running: list[NodeProcess] = []
        self.over: Deferred[None] = Deferred()

    async def start(self, nodes: Sequence[NodePlan], config: str = "") -> list[NodeProcess]:
        """
        Start nodes, one role after another; return when all serve. Call C{stop} even after a failure.

        @param config: the configuration file; empty for none.
        @raise CommandError: a node ended before it served; with its exit status.
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
            self._say(
                f"the other nodes keep running; to restart {process.node.name}, in another terminal: {again}\n"
                "    It then runs until it is stopped there: ctrl-C in this terminal does not end it."
            )
        self._died.append(process.node)
        if not self.running and not self.over.called:
            self.over.callback(None)
        return process

    def _refusal(self, process: NodeProcess) -> CommandError:
        """Return why a node did not start: the one line that it printed, or how it ended, after printing its output."""
        status = process.status if process.status and process.status > 0 else FAILED
        words = self._last_words(process)
        if len(words) == 1:
            return CommandError(f"{process.node.name} did not start: {words[0]}", status)
        self._say(f"last output of {process.node.name}:{_indented(words)}")
        return CommandError(process.in_words(), status)

    def _last_words(self, process: NodeProcess) -> list[str]:
        """Return the last lines of its output, or else of its log."""
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
        """Stop the running nodes role by role, the last started first; return when all have ended."""
        self._stopping = True
        last_first = reversed(self.running[:])
        for _, same in groupby(last_first, lambda process: process.node.role):
            await self._end(list(same))
        for ear in self._ears:
            await maybeDeferred(ear.stopListening)
        self._ears.clear()
        for node in self._died:
            if self._is_in_use(node.address):
                self._say(f"{node.name} was started again by hand and goes on at {node.address}: stop it there")

    def _is_in_use(self, address: str) -> bool:
        host, _, port = address.rpartition(":")
        try:
            probe_ports(self._env, [(host.strip("[]"), int(port), "a node")])
        except PortTaken:
            return True
        return False

    async def _end(self, processes: Sequence[NodeProcess]) -> None:
        for process in processes:
            process.signal("TERM")
        killing = [self._env.clock.callLater(STOP_TIMEOUT, process.signal, "KILL") for process in processes]
        await DeferredList([process.ended for process in processes])
        for call in killing:
            if call.active():
                call.cancel()


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"\n    {printable(line.expandtabs(4))}" for line in lines)
