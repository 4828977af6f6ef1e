"""
Admission of slaves by a key (reliability X6).

At the main port a slave shows that it has the key, too: it signs its question (L{smartgo.schema.signature}) together
with a challenge, a word that the master made up. The answer has a ticket, another such word, with which the slave
begins at the port for slaves. Both count once and not for long, so that neither a question nor a ticket that somebody
has recorded is worth anything.
"""

from __future__ import annotations

import hashlib
from typing import Final

from twisted.internet.interfaces import IReactorTime

from smartgo.env.interfaces import IRandom
from smartgo.errors import NoPermission
from smartgo.schema.command import Command
from smartgo.schema.hatransfer import TICKET_WORD_SIZE
from smartgo.schema.signature import ACCESS_KEY, SIGNATURE, AccessKey

CHALLENGE_LIFE: Final = 60.0
"""Seconds that a challenge counts: a slave that follows asks every 5 s."""
TICKET_LIFE: Final = 15.0
"""Seconds that a ticket counts; a connection is made within 5 s, or given up."""

_LIMIT: Final = 1024  # words of either kind; some more than there can be slaves


class Words:
    """Words that cannot be guessed, and count once, for a while. The oldest goes where there are too many."""

    def __init__(self, clock: IReactorTime, random: IRandom, life: float, limit: int = _LIMIT) -> None:
        """@param life: how long a word counts, in seconds."""
        self._clock = clock
        self._random = random
        self._life = life
        self._limit = limit
        self._known: dict[bytes, float] = {}  # digest of a word -> when it counts no more; oldest first

    def __len__(self) -> int:
        return len(self._known)

    def make(self) -> bytes:
        """Return a new word."""
        now = self._clock.seconds()
        while self._known:
            oldest = next(iter(self._known))
            if self._known[oldest] > now and len(self._known) < self._limit:
                break
            del self._known[oldest]
        word = self._random.token(TICKET_WORD_SIZE)
        self._known[_digest(word)] = now + self._life
        return word

    def take(self, word: bytes) -> bool:
        """Tell whether a word counts; it does no more. Digests are compared, so the time it takes tells nothing."""
        return self._known.pop(_digest(word), 0.0) > self._clock.seconds()


class Guard:
    """A master's: hears slaves at the main port, and tells the port for slaves whom to let in."""

    def __init__(self, clock: IReactorTime, random: IRandom, credentials: AccessKey) -> None:
        """@param credentials: the key that slaves have to have."""
        self._credentials = credentials
        self._challenges = Words(clock, random, CHALLENGE_LIFE)
        self._tickets = Words(clock, random, TICKET_LIFE)

    def check(self, request: Command, challenge: str | None) -> bool:
        """
        Tell whether a request was signed with our key, over a challenge that counts.

        @return: false where the challenge alone is missing: it has to be signed once more, over L{challenge}.
        @raise NoPermission: it was not signed with our key; the message says what to do.
        """
        if ACCESS_KEY not in request.fields or SIGNATURE not in request.fields:
            raise NoPermission(
                "slaves of this master must sign: give the slave the master's haAccessKey and haSecretKey"
            )
        if not self._credentials.signed(request):
            raise NoPermission("the signature is wrong: the slave's haAccessKey and haSecretKey are not the master's")
        try:
            return self._challenges.take(bytes.fromhex(challenge or ""))
        except ValueError:
            return False

    def challenge(self) -> str:
        """Return a challenge for the next request, in hexadecimal digits."""
        return self._challenges.make().hex()

    def ticket(self) -> str:
        """Return a ticket for who was found to have our key, in hexadecimal digits."""
        return self._tickets.make().hex()

    def admits(self, word: bytes) -> bool:
        """Tell whether a ticket is one of ours, and use it up."""
        return self._tickets.take(word)


def _digest(word: bytes) -> bytes:
    return hashlib.sha256(word).digest()
