"""The C{smartgo} command."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

import click

from smartgo.cli.demo import demo
from smartgo.cli.dev import dev
from smartgo.cli.message import consume, send
from smartgo.cli.topic import topic


def _version() -> str:
    try:
        return version("smartgo")
    except PackageNotFoundError:
        return "from a checkout that is not installed"


_EPILOG: Final = """\b
Try it without setting anything up:
  smartgo demo

\b
Work with it: start a broker in one terminal, talk to it in another.
  smartgo dev
  smartgo send Greetings "hello, world" --tag first
  smartgo consume Greetings --from first
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=_EPILOG)
@click.version_option(_version(), prog_name="smartgo")
@click.option("-v", "--verbose", is_flag=True, help="Write more of what happens to standard error.")
@click.pass_context
def cli(context: click.Context, verbose: bool) -> None:
    """A message broker that speaks RocketMQ's protocol, and tools to use it.

    Any RocketMQ client works with it too; give it the registry's address, 127.0.0.1:9876.

    For a broker as a daemon see "twistd smartgo --help".
    """
    context.obj = verbose


cli.add_command(demo)
cli.add_command(dev)
cli.add_command(send)
cli.add_command(consume)
cli.add_command(topic)


def main() -> None:
    """Run the command."""
    cli()


if __name__ == "__main__":
    main()
