"""Tests of L{smartgo.cli.support.running}."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import click
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.logger import LogEvent, Logger, globalLogBeginner
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support import running
from smartgo.client.internal.outages import BrokerOutages
from smartgo.client.internal.registrycalls import NoRegistryReached
from smartgo.errors import (
    BadName,
    CallFailed,
    NoQueueTakesMessages,
    NotConnected,
    PeerRefused,
    SettingError,
    SmartgoError,
    StoreHeld,
)
from smartgo.node.stalls import StallWatch
from smartgo.ops.alerts import monitor
from smartgo.ops.membership import memory
from tests.fakes import FakeEnvironment


class LoggingTests(SynchronousTestCase):
    """The log of a command."""

    def setUp(self) -> None:
        self.said: list[str] = []
        self.patch(click, "echo", lambda line, err=False: self.said.append(line))

    def logger(self, verbose: bool = False, namespace: str = "smartgo.test") -> Logger:
        """Begin to log, to a list."""
        observers: list[Any] = []
        with patch.object(globalLogBeginner, "beginLoggingTo", lambda those, **_: observers.extend(those)):
            running.begin_logging(verbose)
        (observer,) = observers

        def observe(event: LogEvent) -> None:
            observer(event | {"log_time": 1000.0})

        return Logger(namespace, observer=observe)  # type: ignore[arg-type]

    def test_levels(self) -> None:
        """Warnings are written, and the rest where it is wanted."""
        for verbose, lines in ((False, ["warn: b"]), (True, ["info: a", "warn: b"])):
            source = self.logger(verbose)
            source.info("a")
            source.warn("b")
            self.assertEqual(self.said, lines)
            self.said.clear()

    def test_outages(self) -> None:
        """That a broker is gone and is back is written in plain words, also without --verbose."""
        for verbose in (False, True):
            source = self.logger(verbose, BrokerOutages._log.namespace)
            with patch.object(BrokerOutages, "_log", source):
                outages = BrokerOutages()
                outages.failed("vm", NotConnected("refused"))
                outages.answered("vm")
            self.assertEqual(
                self.said,
                ["smartgo: broker vm does not answer; trying again: refused", "smartgo: broker vm answers again"],
            )
            self.said.clear()

    def test_recoveries(self) -> None:
        """That a broker is registered again and that an alert is resolved is written, as the opposite was."""
        for module in (memory.MemberMemory, monitor.AlertMonitor):
            source = self.logger(namespace=module._log.namespace)
            source.info("it is well again")
            source.debug("nobody needs this")
        self.assertEqual(self.said, ["info: it is well again"] * 2)

    def test_flood(self) -> None:
        """Who floods a node that a command runs in itself does not flood the log."""
        source = self.logger()
        for number in range(1000):
            source.warn("closing {peer}", peer=f"10.0.0.1:{number}")
        self.assertEqual(len(self.said), 60)

    def test_stalls(self) -> None:
        """Stalls of the reactor, which a busy machine has, are written only where everything is."""
        for verbose, lines in ((False, []), (True, ["warn: the reactor was blocked for 0.500 s, stall 0 since"])):
            source = self.logger(verbose, StallWatch._log.namespace)
            with patch.object(StallWatch, "_log", source):
                StallWatch(FakeEnvironment().clock, lambda _: None)._say(0.5)
            self.assertEqual([line.partition(" this")[0] for line in self.said], lines)
            self.said.clear()


class EndTests(SynchronousTestCase):
    """The end of a command whose work failed."""

    def test_one_of_several(self) -> None:
        """What failed one of several calls is what the command ends with."""
        calls: list[Deferred[None]] = [Deferred(), Deferred()]
        together = gatherResults([gatherResults(calls, consumeErrors=True)], consumeErrors=True)
        calls[1].errback(NotConnected("127.0.0.1:1: refused"))
        refusal = self.assertRaises(running.CommandError, running.raise_from, self.failureResultOf(together))
        self.assertEqual((refusal.exit_code, refusal.message), (75, "127.0.0.1:1: refused"))

    def test_cancelled(self) -> None:
        """A cancellation of several calls is one of the command."""
        calls: list[Deferred[None]] = [Deferred(), Deferred()]
        together = gatherResults(calls, consumeErrors=True)
        together.cancel()
        self.assertRaises(CancelledError, running.raise_from, self.failureResultOf(together))


class StatusTests(SynchronousTestCase):
    def test_codes(self) -> None:
        """The response code stands in the sentence, unless it is the general one and there are words."""
        for error, words in (
            (PeerRefused(1, "backup x is running"), "backup x is running"),
            (PeerRefused(1, ""), "request refused (response code 1)"),
            (PeerRefused(14, "the disk is full"), "the disk is full (response code 14)"),
        ):
            self.assertEqual(running.command_error(error).message, words)

    def test_statuses(self) -> None:
        """Errors become a sentence and a status: 75 try again, 78 a setting, 2 a wrong argument, else 1."""
        cases: list[tuple[SmartgoError, int]] = [
            (NotConnected("no"), 75), (StoreHeld("/s", 7), 75), (SettingError("no"), 78), (BadName("no"), 2),
            (PeerRefused(1, "no"), 1), (PeerRefused(17, "no"), 66), (NoQueueTakesMessages("T"), 75),
            (CallFailed("no"), 1),
        ]  # fmt: skip
        for error, status in cases:
            self.assertEqual(running.command_error(error).exit_code, status, error)

    def test_denied(self) -> None:
        """What access control refuses is called so, with what helps, in RocketMQ's words, too; status 77."""
        key = "(name a file with accessKey and secretKey by --access-key-file, or SMARTGO_ACCESS_KEY_FILE)"
        secret = "(look at accessKey and secretKey of --access-key-file)"
        java = "org.apache.rocketmq.acl.common.AclException: "
        for remark, more in (
            ("No accessKey is configured", f" {key}"),
            (f"{java}No accessKey is configured, org.apache", f" {key}"),
            ("Check signature failed for accessKey=an-admin", f" {secret}"),
            ("Need admin permission for request code=25, but accessKey=a-sender is not", ""),
            ("No permission for topic orders: PUB is needed, topicPerms of accessKey=x gives SUB", ""),
        ):
            error = running.command_error(PeerRefused(1, f"{remark}\nat x"))
            self.assertEqual((error.exit_code, error.message), (77, f"access control refuses this: {remark}{more}"))

    def test_too_far(self) -> None:
        """The remark about a delivery time that is too far ahead follows a sentence with the limit in days."""
        remark = (
            "timer message illegal, the delay time should not be bigger than the max delay 259200000ms;"
            " or if set del msg, the delay time should be bigger than the current time"
        )
        self.assertEqual(
            running.command_error(PeerRefused(13, remark)).message,
            "the broker takes delivery times up to 3 d ahead (timerMaxDelaySec); this one is later:"
            f" {remark} (response code 13)",
        )

    def test_no_topic(self) -> None:
        """A topic that no registry knows is said to be missing, in the words of other commands."""
        remark = "No topic route info in name server for the topic: Nope\nSee http://example.com for further details."
        found = running.command_error(PeerRefused(17, remark))
        self.assertEqual((found.message, found.exit_code), ("there is no topic Nope", 66))

    def test_no_registry(self) -> None:
        """Where no registry can be reached, the sentence has the ways to name another one, and the one to start one."""
        error = NoRegistryReached(NotConnected("cannot connect to 127.0.0.1:9876: Connection refused."))
        error.__cause__ = NotConnected("cannot connect to 127.0.0.1:9876: Connection refused.")
        found = running.command_error(error)
        self.assertEqual(found.exit_code, 75)
        self.assertEqual(
            found.message,
            "no registry can be reached: cannot connect to 127.0.0.1:9876: Connection refused"
            " (-r HOST:PORT, or NAMESRV_ADDR, names another one; smartgo dev starts one)",
        )
