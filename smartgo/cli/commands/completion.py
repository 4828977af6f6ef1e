"""C{smartgo completion}: print a shell's completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from smartgo.cli.support.texts import examples

_VARIABLE = "_SMARTGO_COMPLETE"


@click.command(
    epilog=examples(
        "smartgo completion bash >> ~/.bashrc",
        "smartgo completion zsh > ~/.zfunc/_smartgo",
        "smartgo completion fish > ~/.config/fish/completions/smartgo.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for SHELL: commands, options and their values."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"there is no completion script for {shell}")
    click.echo(made(context.find_root().command, {}, "smartgo", _VARIABLE).source())
