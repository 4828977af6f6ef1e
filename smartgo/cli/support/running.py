"""Runs a command's work in the reactor, and turns errors into a sentence and an exit status."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import IO, Any, Final, NoReturn

import click
from twisted.internet import task
from twisted.internet.defer import CancelledError, Deferred, FirstError
from twisted.logger import (
    FilteringLogObserver,
    ILogObserver,
    LogEvent,
    LogLevel,
    LogLevelFilterPredicate,
    formatEvent,
    globalLogBeginner,
)
from twisted.python.failure import Failure
from zope.interface import provider

from smartgo.cli.support.output import printable, span
from smartgo.client.internal import outages
from smartgo.client.internal.denials import words_deny
from smartgo.client.internal.registrycalls import NoRegistryReached
from smartgo.client.timedrefusals import longest_delay_ms
from smartgo.env.interfaces import IEnvironment
from smartgo.env.real import RealEnvironment
from smartgo.errors import (
    BadBody,
    BadHeader,
    BadName,
    BrokerUnknown,
    CallTimedOut,
    MessageIllegal,
    NoQueueTakesMessages,
    NoSuchMessage,
    NotConnected,
    PeerRefused,
    SettingError,
    SmartgoError,
    StoreError,
    SubscriptionParseFailed,
)
from smartgo.node import ending, stalls
from smartgo.node.loglimit import LogLimit
from smartgo.schema.codes import ResponseCode

FAILED: Final = 1
USAGE: Final = 2
# as sysexits.h has them
MISSING: Final = 66
UNSUPPORTED: Final = 69
STORE_FAILED: Final = 74
TRY_AGAIN: Final = 75
FORBIDDEN: Final = 77
INTERRUPTED: Final = 130  # as shells have it

ANOTHER_REGISTRY: Final = "-r HOST:PORT, or NAMESRV_ADDR, names another one"

_BY_CODE: Final[Mapping[int, int]] = {
    ResponseCode.TOPIC_NOT_EXIST: MISSING,
    ResponseCode.QUERY_NOT_FOUND: MISSING,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: MISSING,
    ResponseCode.CONSUMER_NOT_ONLINE: MISSING,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: UNSUPPORTED,
    ResponseCode.NO_PERMISSION: FORBIDDEN,
    ResponseCode.SYSTEM_BUSY: TRY_AGAIN,
    ResponseCode.SERVICE_NOT_AVAILABLE: TRY_AGAIN,
    ResponseCode.FLOW_CONTROL: TRY_AGAIN,
}
"""Exit status by response code; L{FAILED} for other codes."""

_NO_ROUTE: Final = re.compile(r"No topic route info in name server for the topic: (\S+)")  # of a registry
_PLAIN: Final = outages.__name__  # what it says is for the user of a command
_RECOVERIES: Final = ("smartgo.ops.membership.memory", "smartgo.ops.alerts.monitor")
"""Modules whose infos end what they warned of: a broker is back, an alert is resolved."""

Work = Callable[[IEnvironment], Coroutine[Deferred[Any], Any, None]]


class CommandError(click.ClickException):
    """
    An error that ends the command with one sentence and an exit status.

    @ivar problem: the code of the REST API's problem, such as C{topic-not-found}; empty for another error.
    """

    def __init__(self, sentence: str, status: int = FAILED, problem: str = "") -> None:
        super().__init__(sentence)
        self.exit_code = status  # type: ignore[misc]
        self.problem = problem

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the sentence to standard error."""
        click.echo(f"smartgo: {printable(self.message)}", file=file, err=file is None)


def command_error(error: SmartgoError) -> CommandError:
    """Return the sentence and the exit status for one of our errors."""
    if isinstance(error, SettingError | StoreError):
        from smartgo.node.process import status_of  # which brings in all settings

        return CommandError(str(error), status_of(error))
    if isinstance(error, BadName | MessageIllegal | BadHeader | BadBody | SubscriptionParseFailed):
        return CommandError(str(error), USAGE)
    if isinstance(error, NoRegistryReached):
        words = f"no registry can be reached: {str(error.__cause__ or error).rstrip('.')}"
        return CommandError(f"{words} ({ANOTHER_REGISTRY}; smartgo dev starts one)", TRY_AGAIN)
    if isinstance(error, NotConnected | CallTimedOut):
        return CommandError(str(error), TRY_AGAIN)
    if isinstance(error, PeerRefused):
        status = TRY_AGAIN if isinstance(error, NoQueueTakesMessages) else _BY_CODE.get(error.code, FAILED)
        words = error.remark.partition("\n")[0]
        unknown = _NO_ROUTE.match(words)
        if unknown is not None:
            return CommandError(f"there is no topic {unknown[1]}", status)
        longest_ms = longest_delay_ms(words)
        if longest_ms is not None:
            most = span(longest_ms / 1000)
            words = f"the broker takes delivery times up to {most} ahead (timerMaxDelaySec); this one is later: {words}"
        if words_deny(words):
            return CommandError(f"access control refuses this: {words}{_remedy(words)}", FORBIDDEN)
        if words and error.code == ResponseCode.SYSTEM_ERROR:
            return CommandError(words, status)  # the number says no more than that something is wrong
        return CommandError(f"{words or 'request refused'} (response code {error.code})", status)
    if isinstance(error, BrokerUnknown):
        return CommandError(f"{error} (those that are missing: smartgo cluster ls)", FAILED)
    if isinstance(error, NoSuchMessage):
        return CommandError(str(error), MISSING)
    return CommandError(str(error), FAILED)


def _remedy(words: str) -> str:
    """Return what helps where access control knows nobody by the key of a request; else empty."""
    if "No accessKey" in words or ("AclException" in words and "accessKey" not in words):
        return " (name a file with accessKey and secretKey by --access-key-file, or SMARTGO_ACCESS_KEY_FILE)"
    return " (look at accessKey and secretKey of --access-key-file)" if "Check signature" in words else ""


def begin_logging(verbose: bool) -> None:
    """
    Write the log to standard error, rate-limited so that peers cannot flood it (L{LogLimit}).

    @param verbose: log everything; else only warnings and errors, that a broker answers or is registered again, and
        that an alert is resolved. Stalls of the reactor are left out: a busy machine has many, and the user of a
        command can do nothing about them. They are counted all the same.
    """

    @provider(ILogObserver)
    def write(event: LogEvent) -> None:
        begin = "smartgo" if event["log_namespace"].startswith(_PLAIN) else event["log_level"].name
        click.echo(f"{begin}: {formatEvent(event)}", err=True)
        failure = event.get("log_failure")
        if failure is not None:
            click.echo(failure.getTraceback(), err=True)

    least = LogLevel.info if verbose else LogLevel.warn
    levels = LogLevelFilterPredicate(defaultLogLevel=least)
    for name in (_PLAIN, *_RECOVERIES):
        levels.setLogLevelForNamespace(name, LogLevel.info)
    if not verbose:
        levels.setLogLevelForNamespace(stalls.__name__, LogLevel.error)
    observer = FilteringLogObserver(LogLimit(write), [levels])
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False, discardBuffer=True)


def run(work: Work, verbose: bool = False) -> bool:
    """
    Run C{work(environment)} in the reactor; return when it is done, or was interrupted and has cleaned up.

    An interrupt cancels the Deferred that the work waits for; clean up in C{finally}.

    @param verbose: as in L{begin_logging}.
    @return: whether it was interrupted.
    @raise CommandError: the work failed with one of our errors.
    """
    begin_logging(verbose)
    failures: list[Failure] = []
    interruptions: list[object] = []

    def main(reactor: Any) -> Deferred[None]:
        env = RealEnvironment(reactor)
        ended: list[Deferred[None]] = []
        working = Deferred.fromCoroutine(work(env))

        def interrupted() -> Deferred[None] | None:
            if done.called:
                return None
            waiter: Deferred[None] = Deferred()
            ended.append(waiter)
            working.cancel()
            return waiter

        def over(result: object) -> Deferred[None]:
            if isinstance(result, Failure):
                result = _cause(result)
                (interruptions if ended and result.check(CancelledError) else failures).append(result)
            return env.threads.stop()

        def tell(_: object) -> None:
            for waiter in ended:
                waiter.callback(None)

        done: Deferred[None] = working.addBoth(over).addBoth(tell)
        reactor.addSystemEventTrigger("before", "shutdown", interrupted)
        reactor.callWhenRunning(ending.hear, reactor, partial(ending.stop, reactor))
        return done

    try:
        task.react(main)
    except SystemExit as leaving:
        if leaving.code:
            raise
    sys.stdout.flush()
    if failures:
        raise_from(failures[0])
    return bool(interruptions)


def _cause(failure: Failure) -> Failure:
    """Return the original failure that C{FirstError} wraps."""
    while isinstance(failure.value, FirstError):
        failure = failure.value.subFailure
    return failure


def raise_from(failure: Failure) -> NoReturn:
    """
    Raise the error that a command ends with.

    @raise CommandError: the work failed with one of our errors.
    """
    failure = _cause(failure)
    if isinstance(failure.value, SmartgoError):
        raise command_error(failure.value) from None
    if isinstance(failure.value, click.ClickException):
        raise failure.value
    failure.raiseException()
