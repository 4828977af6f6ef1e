"""
The form in which a broker stores the properties of a message: what a client sent, with some added and some dropped, in
the order in which Java writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from smartgo.errors import MessageIllegal
from smartgo.schema.properties import (
    DELAY,
    INNER_MULTI_DISPATCH,
    KEY_LIMIT,
    KEYS,
    NAME_END,
    NAME_LIMIT,
    PAIR_END,
    RECORD_CRC,
    RESERVED,
    SIZE_LIMIT,
    TAG_CODES_KEPT,
    TAG_LENGTH_KEPT,
    TAGS,
    TRAN_MSG,
    WAIT,
    decode_text,
    encode,
    java_order,
    split_keys,
    tag_code,
)


def _waits(pair: str) -> bool:
    """Tell whether a pair C{WAIT 0x01 value} says true, as Java reads it."""
    return pair[len(WAIT) + 1 :].lower() == "true"


class Rewritten(NamedTuple):
    """
    A client's properties as they are to be stored, and what the send path must know of them.

    @ivar raw: the stored form.
    @ivar tag_code: for the ConsumeQueue unit.
    @ivar wait: false where the client does not want to wait for flush and replica.
    @ivar special: there is a special property (see L{Rewriter}): not a plain send.
    """

    raw: bytes
    tag_code: int
    wait: bool
    special: bool


class _Plan(NamedTuple):
    """A plan for a property string with known names in a known order: rewriting by position, without decoding."""

    match: Callable[[str], re.Match[str] | None]
    """Cuts such a string into its pairs; C{None} for any other string."""
    pick: Callable[[Sequence[str]], Iterable[str]]
    """From these pairs and the added ones to those stored, in Java's order."""
    tags: int
    wait: int
    keys: int
    special: bool


SPECIAL: Final = frozenset({DELAY, TRAN_MSG, INNER_MULTI_DISPATCH})
"""Properties that make a send one that is not plain."""
_NAMES: Final = re.compile("\x01[^\x02]+\x02?")
_NO_PLAN: Final = _Plan(re.compile("(?!)").fullmatch, list, -1, -1, -1, special=False)
_PLANS: Final = 512
_PLAN_NAMES: Final = 48
_PLAN_LENGTH: Final = 1024
_PLAN_AFTER: Final = 4
_MANY_KEYS: Final = len(KEYS) + 2 * KEY_LIMIT
_new = tuple.__new__


class Rewriter:
    """
    The rewriting of the properties of every sent message: decode, add some, drop some, encode in Java's order.

    Clients send the same names over and over, so for a row of names seen a few times a plan is made: a pattern that
    cuts such a string into pairs, and the order in which to put them. The plan last used for a string of so many pairs
    is tried first. What no plan fits (an empty name or value, a name twice, too long) goes the long way.
    """

    def __init__(
        self, added: Mapping[str, str], dropped: Collection[str] = (WAIT,), special: Collection[str] = ()
    ) -> None:
        """
        @param added: put into every message, in place of what the client says; such as the cluster's name.
        @param dropped: taken out after that; L{RECORD_CRC} is in any case.
        @param special: properties beside L{SPECIAL} that make a send one that is not plain.
        @raise ValueError: one of them names a property that the result speaks of.
        """
        self._special = SPECIAL.union(special)
        if not {TAGS, KEYS, *self._special}.isdisjoint([*added, *dropped]) or WAIT in added:
            raise ValueError("TAGS, KEYS, WAIT and the special properties are the client's")
        self._added = dict(added)
        self._dropped = frozenset({*dropped, RECORD_CRC})
        self._pairs = tuple([f"{name}{NAME_END}{value}" for name, value in added.items()])
        self._seen: dict[tuple[str, ...], int] = {}
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._recent: dict[int, _Plan] = {}
        self._pair_codes: dict[str, int] = {}

    def rewrite(self, text: str) -> Rewritten:
        """
        Return the stored form of the properties of a send request.

        @raise MessageIllegal: longer than L{SIZE_LIMIT} once encoded, more than L{NAME_LIMIT} user properties, or more
            than L{KEY_LIMIT} keys.
        """
        match, pick, tags, wait, keys, special = self._recent.get(text.count("\x02"), _NO_PLAN)
        found = match(text)
        if found is None:
            return self._plan(text)
        pairs = found.groups()
        raw = "\x02".join(pick(pairs + self._pairs)).encode("utf-8", "replace")
        if len(raw) > SIZE_LIMIT or (
            keys >= 0 and len(pairs[keys]) > _MANY_KEYS and pairs[keys].count(" ") >= KEY_LIMIT
        ):
            return self._slowly(text)
        if tags < 0:
            code = 0
        else:
            code = self._pair_codes.get(pairs[tags]) or self._pair_code(pairs[tags])
        return _new(Rewritten, (raw, code, wait < 0 or pairs[wait] == "WAIT\x01true" or _waits(pairs[wait]), special))

    def _pair_code(self, pair: str) -> int:
        """Return the tag code of a whole pair C{TAGS 0x01 value}, and keep it."""
        code = tag_code(pair[len(TAGS) + 1 :])
        if len(pair) <= TAG_LENGTH_KEPT:
            if len(self._pair_codes) >= TAG_CODES_KEPT:
                self._pair_codes.clear()
            self._pair_codes[pair] = code
        return code

    def _slowly(self, text: str) -> Rewritten:
        """Rewrite by decoding, editing and encoding."""
        found = decode_text(text)
        strangers = sum(name not in RESERVED for name in found)
        if strangers > NAME_LIMIT:
            raise MessageIllegal(f"{strangers} user properties exceed the limit of {NAME_LIMIT}")
        words = len(split_keys(found.get(KEYS, "")))
        if words > KEY_LIMIT:
            raise MessageIllegal(f"{words} keys exceed the limit of {KEY_LIMIT}")
        found.update(self._added)
        raw = encode(found, self._dropped)
        if len(raw) > SIZE_LIMIT:
            raise MessageIllegal(f"properties of {len(raw)} B exceed the limit of {SIZE_LIMIT} B")
        wait = found.get(WAIT, "true").lower() == "true"
        return Rewritten(raw, tag_code(found.get(TAGS)), wait, not self._special.isdisjoint(found))

    def _plan(self, text: str) -> Rewritten:
        """Find the plan for a string, or go the long way and perhaps make one for the next."""
        *names, rest = _NAMES.split(text)
        key = tuple(names)
        if not rest and key in self._plans:
            self._recent[text.count(PAIR_END)] = self._plans[key]
            return self.rewrite(text)
        rewritten = self._slowly(text)
        if rest or "" in names or len(set(names)) < len(names) or len(names) > _PLAN_NAMES:
            return rewritten
        together = "".join(names)
        if len(together) > _PLAN_LENGTH or PAIR_END in together:
            return rewritten
        if len(self._seen) >= _PLANS or len(self._plans) >= _PLANS:
            self._seen.clear()
            self._plans.clear()
        self._seen[key] = times = self._seen.get(key, 0) + 1
        if times >= _PLAN_AFTER:  # a pattern is dear to compile: not for names that come once
            del self._seen[key]
            self._plans[key] = self._make(names)
        return rewritten

    def _make(self, names: Sequence[str]) -> _Plan:
        """Plan for strings of these names; they are all different, and none is empty."""
        place = {name: at for at, name in enumerate([*names, *self._added])}
        everyone = list(place)
        order = [place[name] for name in map(everyone.__getitem__, java_order(everyone)) if name not in self._dropped]
        pattern = PAIR_END.join([f"({re.escape(name)}{NAME_END}[^{PAIR_END}]+)" for name in names])
        return _Plan(
            re.compile(f"{pattern}{PAIR_END}?" if names else "").fullmatch,
            # itemgetter returns one item itself, not a tuple of it
            itemgetter(*order) if len(order) > 1 else lambda pairs: [pairs[at] for at in order],
            tags=names.index(TAGS) if TAGS in names else -1,
            wait=names.index(WAIT) if WAIT in names else -1,
            keys=names.index(KEYS) if KEYS in names else -1,
            special=not self._special.isdisjoint(names),
        )
