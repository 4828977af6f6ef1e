"""
The C{smartgo} command.

The table below is all that C{smartgo --help} needs: a command's module is imported when that command is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Final

import click

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Get started": {
        "demo": "Try it out: send, consume and look up messages; leaves nothing behind.",
        "dev": "Run a registry and a broker here, for development.",
        "send": "Send messages.",
        "consume": "Print messages as they arrive.",
    },
    "Inspect and change": {
        "topic": "Topics: list, create, change, delete.",
        "group": "Consumer groups: lag, members, settings, offset resets.",
        "msg": "Messages: search, show, track, resend, tail, export.",
        "dlq": "Dead letters: list, show, resend, export.",
        "tx": "Transactions: which are undecided, since when; resume checks.",
        "client": "Connected clients.",
        "cluster": "Brokers: state, counters, draining, clean-up.",
        "config": "Settings of brokers and registries: show, change, undo; check a file.",
        "console": "Print a login link of the console.",
        "alert": "Alerts: list the problems that the server has found; silence known ones.",
        "kv": "Key-value settings in the registries.",
        "context": "Named connection settings, so that you need not type them.",
    },
    "Measure and diagnose": {
        "top": "Rates and lag, live.",
        "bench": "Measure sending, consuming and delays.",
        "doctor": "Find problems, and what to do about them.",
        "check": "Check a store directory offline.",
        "store": "Store directories, offline: list, dump, verify, repair, compare, export.",
        "acl": "Access control: test what a key may do.",
        "completion": "Print a completion script.",
    },
}
"""Every command and its line in the help, in order. Command C{x} is C{smartgo.cli.commands.x:x}; see L{_ELSEWHERE}."""

_ELSEWHERE: Final = {"send": "sendconsume", "consume": "sendconsume"}

_EPILOG: Final = """\b
Try it without any setup:
  smartgo demo

\b
Work with it: start a broker in one terminal, use it from another.
  smartgo dev
  smartgo send Greetings "hello, world" --tag first
  smartgo consume Greetings --from first

\b
Manage a cluster:
  smartgo context set prod --registry 10.0.0.1:9876 --use
  smartgo cluster ls
  smartgo group lag audit
  smartgo doctor
"""


class LazyCommands(click.Group):
    """The group of all commands; a command's module is imported when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it; C{None} for an unknown name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = import_module(f"smartgo.cli.commands.{_ELSEWHERE.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that C{args} begin with. @raise click.UsageError: there is none; similar names are given."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            similar = get_close_matches(name, self.list_commands(ctx))
            words = "" if not similar else "Did you mean " if len(similar) == 1 else "Did you mean one of: "
            hint = f" ({words}{', '.join(map(repr, similar))}?)" if similar else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, without importing them."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        """Complete names without importing them."""
        found = [
            click.shell_completion.CompletionItem(name, help=text)
            for section in SECTIONS.values()
            for name, text in section.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _print_version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from smartgo.core import CORE
    from smartgo.env.product import product_version

    click.echo(f"smartgo {product_version()}\ncore: {CORE}")
    context.exit()


@click.command(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
@click.option("-v", "--verbose", is_flag=True, help="Write the log to standard error.")
@click.pass_context
def cli(context: click.Context, verbose: bool) -> None:
    """A message broker that speaks RocketMQ's protocol, and its command-line tools.

    Any RocketMQ client works with it; configure the registry (name server) address, 127.0.0.1:9876.

    To run a broker as a daemon, see "twistd smartgo --help".
    """
    context.meta["smartgo.verbose"] = verbose


def main() -> None:
    """Run the command."""
    cli()


if __name__ == "__main__":
    main()
