"""
Run histories: one by its seed, many side by side, and a failing one again and again until it is short.
"""

from __future__ import annotations

import gc
import multiprocessing
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from tests.histories.brokerhistory import BrokerHistory
from tests.histories.history import History, Violation
from tests.histories.pairhistory import PairHistory
from tests.histories.storehistory import StoreHistory
from tests.sim.reducer import ATTEMPTS, reduce

KINDS: Final[dict[str, Callable[[int, Collection[int]], History]]] = {
    "store": StoreHistory,
    "broker": BrokerHistory,
    "pair": PairHistory,
}
"""What histories are about, by name."""

_TURN: Final = ("store", "broker", "store", "broker", "store", "pair")
_CHUNK: Final = 6


class Outcome(NamedTuple):
    """The outcome of one history."""

    seed: int
    kind: str
    digest: str
    """Of its trace."""
    steps: int
    trace: list[str]
    broken: str | None
    """Which promise was broken, in a word or two; C{None}: none was."""
    text: str
    """All about that."""


def kind_of(seed: int) -> str:
    """Return what the history of a seed is about."""
    return _TURN[seed % len(_TURN)]


def run(seed: int, kind: str | None = None, left_out: Collection[int] = ()) -> Outcome:
    """
    Run one history.

    @param left_out: numbers of the steps that are not taken.
    """
    kind = kind or kind_of(seed)
    history = KINDS[kind](seed, left_out)
    broken, text = None, ""
    gc.disable()  # what dead processes leave behind must not be collected, and run, in the middle
    try:
        history.run()
    except Violation as violation:
        broken, text = violation.kind, str(violation)
    except Exception as error:
        broken, text = type(error).__name__, traceback.format_exc()
    finally:
        gc.enable()
    return Outcome(seed, kind, history.digest, history.steps, history.trace, broken, text)


def run_many(seeds: Iterable[int], jobs: int = 1, kind: str | None = None) -> Iterator[Outcome]:
    """Run many histories in some processes; the outcomes come in any order, without traces."""
    if jobs <= 1:
        yield from (_untraced((seed, kind)) for seed in seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=500) as pool:
        yield from pool.imap_unordered(_untraced, ((seed, kind) for seed in seeds), _CHUNK)


def _untraced(task: tuple[int, str | None]) -> Outcome:
    return run(*task)._replace(trace=[])


def shrink(outcome: Outcome, attempts: int = ATTEMPTS) -> frozenset[int]:
    """Return the numbers of as many steps as can be left out while the same promise is broken."""
    return reduce(
        outcome.steps,
        lambda left_out: run(outcome.seed, outcome.kind, left_out).broken == outcome.broken,
        attempts,
    )
