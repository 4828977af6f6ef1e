"""Dead letters that are copies of one message: the original gave several, as it was sent again or given back twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from smartgo.client.internal.copies import RESENT_FROM
from smartgo.schema import properties
from smartgo.schema.bodies import MessageQueue


class LetterCopy(NamedTuple):
    """
    A dead letter as far as its origin goes.

    @ivar offset_id: its own offset id; C{stored_ms} when it became a dead letter, wall clock.
    @ivar origin: its message: the offset id of the first record, before it was refused, with the unique id.
    @ivar resent_from: the offset id of the dead letter that its message was sent again from; empty if of none.
    """

    offset_id: str
    stored_ms: int
    origin: str
    resent_from: str

    @classmethod
    def of(cls, offset_id: str, stored_ms: int, found: Mapping[str, str]) -> LetterCopy:
        """Return a dead letter by its properties."""
        origin = found.get(properties.ORIGIN_MESSAGE_ID, "")
        whole = f"{origin} {found.get(properties.UNIQ_KEY, '')}" if origin else offset_id
        return cls(offset_id, stored_ms, whole, found.get(RESENT_FROM, ""))


class OlderCopy(NamedTuple):
    """A dead letter that is not sent, as a later one of the same message is."""

    offset_id: str
    queue: MessageQueue
    queue_offset: int


def older_copies(letters: Iterable[LetterCopy]) -> dict[str, str]:
    """
    Return those of some dead letters that are copies of the message of a later one: the offset id of the latest of all
    copies, by theirs.
    """
    found = _related(letters)
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents.get(name, name) != name:
            parents[name] = name = parents.get(parents[name], parents[name])
        return name

    for one in found:
        parents[root(one.origin)] = root(one.offset_id)
        if one.resent_from:
            parents[root(one.resent_from)] = root(one.offset_id)
    newest: dict[str, LetterCopy] = {}
    for one in found:
        place = root(one.offset_id)
        if place not in newest or (newest[place].stored_ms, newest[place].offset_id) < (one.stored_ms, one.offset_id):
            newest[place] = one
    latest = {one.offset_id: newest[root(one.offset_id)].offset_id for one in found}
    return {id_: other for id_, other in latest.items() if id_ != other}


def _related(letters: Iterable[LetterCopy]) -> list[LetterCopy]:
    """Return those of some dead letters that may have copies among them; nearly all have none, and need no look."""
    found = list(letters)
    origins = Counter(one.origin for one in found)
    resent = {one.resent_from for one in found if one.resent_from}
    return [one for one in found if origins[one.origin] > 1 or one.resent_from or one.offset_id in resent]
