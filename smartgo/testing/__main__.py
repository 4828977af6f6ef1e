"""
A registry and a broker for tests, as a process: C{python -m smartgo.testing}.

It prints one line of JSON with its addresses when clients can connect, and ends when its standard input does, so that
it never outlives the tests that started it. L{smartgo.testing.wire} says what it can be asked for meanwhile.
"""

from __future__ import annotations

import click

from smartgo.cli.support.embedded import read_settings
from smartgo.cli.support.running import run
from smartgo.env.interfaces import IEnvironment
from smartgo.testing.inprocess import InProcessBroker
from smartgo.testing.server import CallReceiver, CommandedBroker


@click.command()
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set one setting; may be repeated.")
def main(settings: tuple[str, ...]) -> None:
    """Run a registry and a broker for tests, on free ports and with a temporary store, until standard input ends.

    The first line of standard output is a JSON object with their addresses: registry, broker, directory.
    """
    flags = read_settings(settings)

    async def work(env: IEnvironment) -> None:
        from twisted.internet.stdio import StandardIO  # which installs a reactor

        broker = InProcessBroker(env, flags)
        try:
            await broker.start()
            calls = CallReceiver(CommandedBroker(broker))
            StandardIO(calls)
            await calls.ended
        finally:
            await broker.stop()

    run(work)


if __name__ == "__main__":
    main(prog_name="python -m smartgo.testing")
