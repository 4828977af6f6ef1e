"""What every command that talks to a cluster has: options to reach it, a client, and how it asks and tells people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final, TypeVar

import click
import msgspec
from twisted.internet.defer import Deferred

from smartgo.cli.support.contextfile import ClusterContext, choose
from smartgo.cli.support.output import printable
from smartgo.cli.support.running import INTERRUPTED, USAGE, CommandError, Work, run
from smartgo.client.admin import Admin
from smartgo.client.client import Client
from smartgo.env.interfaces import IClock, IEnvironment
from smartgo.errors import CallFailed

T = TypeVar("T")

VERBOSE: Final = "smartgo.verbose"
"""Key in a click context's C{meta}: whether the log is wanted."""

YES: Final = click.option("-y", "--yes", is_flag=True, help="Do it without asking.")
DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


def do(work: Work, endless: bool = False) -> None:
    """
    Do a command's work; see L{run}.

    @param endless: an interrupt is how it is meant to end.
    @raise Refusal: it was interrupted before its end, or failed with one of our errors.
    """
    if run(work, click.get_current_context().meta.get(VERBOSE, False)) and not endless:
        raise CommandError("interrupted", INTERRUPTED)


class ClusterSession:
    """
    A command at work.

    @ivar client: a client of the cluster; C{admin} its administration.
    """

    def __init__(self, env: IEnvironment, context: ClusterContext, client: Client) -> None:
        self.env = env
        self.context = context
        self.client = client
        self.admin = Admin(client, _missing)


def _missing(broker: str, error: CallFailed) -> None:
    click.echo(f"smartgo: going on without {broker}: {printable(str(error))}", err=True)


class ClusterOptions:
    """The cluster that a command's options mean."""

    def __init__(self, registry: str | None, context: str | None, tls: dict[str, Any]) -> None:
        self._registry = registry
        self._name = context
        self._tls = {name: value for name, value in tls.items() if value}

    def chosen(self, env: IEnvironment) -> ClusterContext:
        """Return how to reach it. @raise SettingError: that cannot be told."""
        return msgspec.structs.replace(choose(env, self._registry, self._name), **self._tls)

    def do(self, work: Callable[[ClusterSession], Coroutine[Deferred[Any], Any, None]], endless: bool = False) -> None:
        """Do C{work(connected)} in the reactor; see L{do}. The client is stopped in the end."""

        async def inside(env: IEnvironment) -> None:
            context = self.chosen(env)
            client = context.client(env)
            try:
                await work(ClusterSession(env, context, client))
            finally:
                await client.stop()

        do(inside, endless)


def cluster_options(function: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options that say where the cluster is; it is called with a L{ClusterOptions} first."""

    @click.option(
        "-r",
        "--registry",
        metavar="HOST:PORT",
        help="The registry to ask; several with semicolons between them.  [env: NAMESRV_ADDR; default: 127.0.0.1:9876]",
    )
    @click.option("--context", metavar="NAME", help='Use this one of "smartgo context ls".  [env: SMARTGO_CONTEXT]')
    @click.option("--tls", is_flag=True, help="Speak TLS.")
    @click.option("--ca", metavar="FILE", help="Trust this authority (PEM) in place of the system's; implies --tls.")
    @click.option("--cert", metavar="FILE", help="Our certificate (PEM), where the other side asks for one.")
    @click.option("--cert-key", metavar="FILE", help="Its private key (PEM).")
    @click.option("--server-name", metavar="NAME", help="What certificates must say in place of the name dialled.")
    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> T:
        tls = {
            "tls": kwargs.pop("tls"),
            "ca": kwargs.pop("ca"),
            "cert": kwargs.pop("cert"),
            "key": kwargs.pop("cert_key"),
            "server_name": kwargs.pop("server_name"),
        }
        cluster = ClusterOptions(kwargs.pop("registry"), kwargs.pop("context"), tls)
        return function(cluster, *args, **kwargs)

    return command


def confirm(sentence: str, yes: bool) -> None:
    """
    Ask a person whether to go on.

    @param yes: they said so already.
    @raise Refusal: they said no, or there is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{sentence} Nobody is there to ask; say it with --yes.", USAGE)
    if not click.confirm(f"{sentence} Go on?", err=True):
        raise CommandError("nothing was done")


async def pause(clock: IClock, seconds: float) -> None:
    """Wait. Can be cancelled."""
    if seconds <= 0:
        return
    over: Deferred[None] = Deferred()
    call = clock.callLater(seconds, over.callback, None)
    try:
        await over
    finally:
        if call.active():
            call.cancel()
