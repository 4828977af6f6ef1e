"""Shared parts of the commands that use a cluster: connection options, a client, and confirmation prompts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final, TypeVar

import click
import msgspec
from twisted.internet.defer import Deferred

from smartgo.cli.support.contextfile import KEY_FILE_VARIABLE as _KEY_FILE
from smartgo.cli.support.contextfile import ClusterContext, choose
from smartgo.cli.support.output import printable
from smartgo.cli.support.running import INTERRUPTED, UNSUPPORTED, USAGE, CommandError, Work, run
from smartgo.client.admin import Admin
from smartgo.client.administration.asking import Asking, OnMissing
from smartgo.client.client import Client
from smartgo.env.interfaces import IClock, IEnvironment
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command

T = TypeVar("T")

VERBOSE: Final = "smartgo.verbose"
"""Key in a click context's C{meta}: whether the log is written to standard error."""

YES: Final = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")


def do(work: Work, endless: bool = False) -> None:
    """
    Run a command's work in the reactor; see L{run}.

    @param endless: the command runs until it is interrupted, so that an interrupt is no error.
    @raise CommandError: the work was interrupted, or failed with one of our errors.
    """
    if run(work, click.get_current_context().meta.get(VERBOSE, False)) and not endless:
        raise CommandError("interrupted", INTERRUPTED)


class ClusterSession:
    """
    The tools of a running command: the environment, the connection settings, and a client of the cluster.

    @ivar client: a client of the cluster; C{admin} its administration.
    """

    def __init__(self, env: IEnvironment, context: ClusterContext, client: Client, asking: Asking) -> None:
        """@param asking: sends the requests of C{admin}."""
        self.env = env
        self.context = context
        self.client = client
        self.admin = Admin(client, asking=asking)


SessionWork = Callable[[ClusterSession], Coroutine[Deferred[Any], Any, None]]


async def _refuse_brokers(client: Client) -> None:
    """Check that no configured registry is a broker. @raise CommandError: one is."""
    for address in client.registries:
        try:
            answer = await client.ask(address, Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        except CallFailed:
            continue
        if answer.code == ResponseCode.SUCCESS:
            raise CommandError(
                f"{address} is a broker, not a registry; give the address of a registry, usually port 9876", UNSUPPORTED
            )


def _missing(broker: str, error: CallFailed) -> None:
    click.echo(f"smartgo: skipping broker {broker}: {printable(str(error))}", err=True)


def _missing_once() -> OnMissing:
    """Return what prints the brokers that questions go on without: each once for each reason."""
    told: set[tuple[str, str]] = set()

    def tell(broker: str, error: CallFailed) -> None:
        if (broker, str(error)) not in told:
            told.add((broker, str(error)))
            _missing(broker, error)

    return tell


class ClusterOptions:
    """The connection options of a command."""

    def __init__(self, registry: str | None, context: str | None, more: dict[str, Any]) -> None:
        """@param more: other settings of a context that were given, by their names there."""
        self._registry = registry
        self._name = context
        self._more = {name: value for name, value in more.items() if value}

    @classmethod
    def given(cls, found: dict[str, Any]) -> ClusterOptions:
        """Return the connection options among a command's parameters, which are removed from them."""
        more = {
            "tls": found.pop("tls", None),
            "ca": found.pop("ca", None),
            "cert": found.pop("cert", None),
            "key": found.pop("cert_key", None),
            "server_name": found.pop("server_name", None),
            "access_key_file": found.pop("access_key_file", None),
        }
        return cls(found.pop("registry", None), found.pop("context", None), more)

    def chosen(self, env: IEnvironment) -> ClusterContext:
        """Return the connection settings. @raise SettingError: the context does not exist or cannot be read."""
        return msgspec.structs.replace(choose(env, self._registry, self._name), **self._more)

    def do(self, work: SessionWork, endless: bool = False, on_missing: OnMissing = _missing) -> None:
        """
        Run C{work(session)} in the reactor; see L{do}. The client is stopped when the work ends.

        @param on_missing: takes the brokers that a query goes on without; by default they are printed.
        """
        self._do(work, lambda client: Asking(client, on_missing), endless)

    def look(self, work: SessionWork, on_missing: OnMissing | None = None) -> None:
        """
        Run work that reads the state of a cluster, as L{do} does; a broker that does not answer is waited for once.

        @param on_missing: takes the brokers that a query goes on without; by default each is printed.
        """
        self._do(work, lambda client: Asking(client, on_missing or _missing_once()).impatient())

    def _do(self, work: SessionWork, asking: Callable[[Client], Asking], endless: bool = False) -> None:
        async def inside(env: IEnvironment) -> None:
            context = self.chosen(env)
            client = context.client(env)
            try:
                await work(ClusterSession(env, context, client, asking(client)))
            except PeerRefused as error:
                if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    await _refuse_brokers(client)
                raise
            finally:
                await client.stop()

        do(inside, endless)


def access_key_option(function: Callable[..., T]) -> Callable[..., T]:
    """Add the option C{--access-key-file} to a command, unless it has the option."""
    if any(one.name == "access_key_file" for one in getattr(function, "__click_params__", ())):
        return function
    return click.option(
        "--access-key-file",
        metavar="FILE",
        help=f"File with accessKey and secretKey to show who you are, where access control is on.  [env: {_KEY_FILE}]",
    )(function)


def cluster_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add the connection options to a command; it gets a L{ClusterOptions} as its first argument."""

    @click.option(
        "-r",
        "--registry",
        metavar="HOST:PORT",
        help="The registry; separate several with semicolons.  [env: NAMESRV_ADDR; default: 127.0.0.1:9876]",
    )
    @click.option(
        "--context", metavar="NAME", help='Use this context; "smartgo context ls" lists them.  [env: SMARTGO_CONTEXT]'
    )
    @click.option("--tls", is_flag=True, help="Use TLS.")
    @click.option("--ca", metavar="FILE", help="CA certificate (PEM) to trust instead of the system's; implies --tls.")
    @click.option("--cert", metavar="FILE", help="Client certificate (PEM), if the server requires one.")
    @click.option("--cert-key", metavar="FILE", help="Private key of the client certificate (PEM).")
    @click.option("--server-name", metavar="NAME", help="Host name expected in the server's certificate.")
    @access_key_option
    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> T:
        cluster = ClusterOptions.given(kwargs)
        return function(cluster, *args, **kwargs)

    return command


def confirm(sentence: str, yes: bool) -> None:
    """
    Ask for confirmation.

    @param yes: C{--yes} was given; nothing is asked.
    @raise CommandError: the answer is no, or standard input is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{sentence} There is no terminal to confirm this; use --yes.", USAGE)
    if not click.confirm(f"{sentence} Continue?", err=True):
        raise CommandError("cancelled; nothing was changed")


async def pause(clock: IClock, seconds: float) -> None:
    """Wait for C{seconds}; may be cancelled."""
    if seconds <= 0:
        return
    over: Deferred[None] = Deferred()
    call = clock.callLater(seconds, over.callback, None)
    try:
        await over
    finally:
        if call.active():
            call.cancel()
