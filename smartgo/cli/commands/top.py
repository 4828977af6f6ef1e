"""C{smartgo top}: show rates and lag continuously."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    console,
    counted,
    in_words,
    moment,
    plain,
    print_streamed,
    printable,
    span,
)
from smartgo.cli.support.running import TRY_AGAIN, CommandError
from smartgo.cli.support.sampling import ClusterSample, ClusterSampler
from smartgo.cli.support.session import ClusterSession, pause
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholeanswers import MissingBrokersWatch, ReadingOptions, reading_options
from smartgo.errors import CallFailed

if TYPE_CHECKING:
    from rich.console import RenderableType

_FRAME: Final = 10  # lines that are not rows of topics or groups


@click.command(
    epilog=examples("smartgo top", "smartgo top --interval 5 --filter Orders", "smartgo top --samples 2 -o jsonl")
)
@click.option(
    "-i", "--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Seconds between samples."
)
@click.option("-n", "--samples", type=click.IntRange(1), help="Stop after this many samples.")
@click.option(
    "-f", "--filter", "part", default="", metavar="TEXT", help="Only topics and groups whose name contains TEXT."
)
@click.option(
    "--topics", "limit", type=click.IntRange(1), default=500, show_default=True, help="Topics to sample at most."
)
@click.option("-a", "--all", "everything", is_flag=True, help="Include retry, dead-letter and system topics.")
@OUTPUT
@reading_options
def top(
    cluster: ReadingOptions,
    interval: float,
    samples: int | None,
    part: str,
    limit: int,
    everything: bool,
    output: str,
) -> None:
    """Show brokers, topics and groups continuously: messages per second, lag, and when the lag will be consumed.

    Stop with ctrl-C. Rates are averages since the previous sample. Without a terminal each sample is printed as a
    table, with -o jsonl as a line. The line below the title names the brokers that the figures lack; with --samples the
    exit status is 75 then.
    """

    async def work(session: ClusterSession, watch: MissingBrokersWatch) -> None:
        screen = TopScreen() if output == TEXT and sys.stdout.isatty() else None
        sampler = ClusterSampler(session, part, everything, limit)
        looked = 0
        try:
            while True:
                began = session.env.clock.seconds()
                watch.lacking.clear()
                try:
                    sample = await sampler.look()
                    sample = replace(sample, lacks=watch.reasons, warning=watch.sentence)
                except CallFailed as error:
                    if screen is None or looked == 0:
                        raise
                    screen.show_error(str(error))
                else:
                    _show(sample, output, screen, session.context.registry)
                looked += 1
                if looked == samples:
                    break
                await pause(session.env.clock, max(0.1, interval - (session.env.clock.seconds() - began)))
        finally:
            if screen is not None:
                screen.close()
        if watch.sentence:
            raise CommandError(watch.sentence, TRY_AGAIN)

    cluster.stream(work)


def _show(sample: ClusterSample, output: str, screen: TopScreen | None, registry: str) -> None:
    if output != TEXT:
        print_streamed(output, plain(sample))
    elif screen is not None:
        screen.show(sample, registry)
    else:
        console().print(view(sample, registry, None))


class TopScreen:
    """The full-screen display in the terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._live.start()
        self._last: tuple[ClusterSample, str] | None = None

    def show(self, sample: ClusterSample, registry: str) -> None:
        """Show a sample."""
        self._last = sample, registry
        self._live.update(view(sample, registry, self._console.height), refresh=True)

    def show_error(self, words: str) -> None:
        """Show the last sample again, with the error that prevented a new one."""
        if self._last is not None:
            self._live.update(view(*self._last, self._console.height, words), refresh=True)

    def close(self) -> None:
        """Restore the terminal."""
        self._live.stop()


def view(sample: ClusterSample, registry: str, height: int | None, error: str = "") -> RenderableType:
    """
    Return a sample as tables.

    @param height: lines of the terminal; C{None} for no limit. The busiest topics and the groups with the highest lag
        come first, as many as fit.
    """
    from rich.console import Group
    from rich.text import Text

    room = None if height is None else max(4, (height - _FRAME - len(sample.brokers)) // 2)
    every = f"every {sample.seconds:.1f} s" if sample.seconds is not None else "first sample; rates follow"
    title = [Text(f"smartgo top  {registry}  {moment(sample.at_ms)}  {every}", style="bold")]
    if sample.warning:
        title.append(Text(printable(sample.warning), style="bold red"))
    topics = sorted(sample.topics, key=lambda one: (-(one.in_per_second or 0.0), -one.messages, one.topic))
    groups = sorted(sample.groups, key=lambda one: (-one.lag, -(one.out_per_second or 0.0), one.group))
    parts: list[Any] = [
        *title,
        _table(
            ("broker", "in/s", "out/s", "in today", "out today", "disk", "oldest message"),
            [
                (
                    row.broker if row.id == 0 else f"{row.broker} ({row.id})",
                    row.put_per_second,
                    row.get_per_second,
                    row.put_today,
                    row.get_today,
                    row.failure or (None if row.disk is None else f"{row.disk:.0%}"),
                    span(row.kept_seconds),
                )
                for row in sample.brokers
            ],
        ),
        Text(),
        _table(("topic", "in/s", "messages"), [(one.topic, one.in_per_second, one.messages) for one in topics[:room]]),
        Text(),
        _table(
            ("group", "topic", "lag", "out/s", "caught up in"),
            [(one.group, one.topic, one.lag, one.out_per_second, span(one.drained_seconds)) for one in groups[:room]],
        ),
    ]
    if sample.left_out:
        parts.append(
            Text(f"{counted(sample.left_out, 'more topic')} not sampled; see --filter and --topics", style="dim")
        )
    if error:
        parts.append(Text(error, style="red"))
    return Group(*parts)


def _table(headings: tuple[str, ...], rows: list[tuple[object, ...]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold cyan")
    for heading in headings:
        is_name = heading in ("broker", "topic", "group")
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(in_words(cell) for cell in row))
    return table
