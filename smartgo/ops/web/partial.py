"""Answers that leave brokers out: which ones are missing, and why; the answer names them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, cast

import msgspec

from smartgo.errors import PeerRefused
from smartgo.ops.problems import Problem

_REASON_LIMIT: Final = 200  # characters


class MissingBroker(msgspec.Struct, rename="camel", frozen=True):
    """
    A broker that is missing from an answer.

    @ivar reason: why: it did not answer in time, cannot be reached, refused, or sent an answer that cannot be read.
    """

    broker: str
    reason: str


class Partial(msgspec.Struct, rename="camel", kw_only=True):
    """
    An answer from which brokers may be missing.

    @ivar missing: the brokers that did not answer; empty if the answer is complete.
    """

    missing: list[MissingBroker] = []


class Missing:
    """The brokers that are missing from one view."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def note(self, broker: str, error: object) -> None:
        """Note a missing broker; the first reason stays."""
        reason = (error.remark if isinstance(error, PeerRefused) else str(error)).removeprefix(f"broker {broker}: ")
        self._reasons.setdefault(broker, reason if len(reason) <= _REASON_LIMIT else reason[: _REASON_LIMIT - 1] + "…")

    def add(self, other: Missing, only: Collection[str] | None = None) -> None:
        """Add the missing brokers of another question. @param only: of these; C{None} for all."""
        for broker, reason in other._reasons.items():
            if only is None or broker in only:
                self._reasons.setdefault(broker, reason)

    @property
    def rows(self) -> list[MissingBroker]:
        """Return the missing brokers, by name."""
        return [MissingBroker(broker, self._reasons[broker]) for broker in sorted(self._reasons)]

    def absent(self, what: str, code: str) -> Problem:
        """Return the error for what no broker has that answered: who is missing may have it."""
        if not self:
            return Problem(404, f"there is no {what}", code)
        return Problem(502, f"no broker that answered has {what}; not answering: {self._listed}", "brokers-missing")

    def lacking(self, what: str) -> Problem:
        """Return the error for what is not made without the brokers that are missing."""
        return Problem(502, f"{what} would lack what these brokers have: {self._listed}", "brokers-missing")

    @property
    def _listed(self) -> str:
        return "; ".join(f"{one.broker}: {one.reason}" for one in self.rows)


def fill(answer: object, missing: Missing) -> None:
    """Name who is missing in an answer that has a place for it: C{missing}, as L{Partial} has it."""
    if isinstance(answer, msgspec.Struct) and "missing" in answer.__struct_fields__:
        cast("Partial", answer).missing = missing.rows
