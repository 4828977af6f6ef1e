"""
Grants of a hook to the runs of compiled code: who may send what, so that it need not see each of their requests.

A run asks the grants about a frame that it would take. The compiled ones let it pass if the frame names an access key
that may send such a request for its topic and group, and has the right signature under the secret of that key. On a
connection whose client certificate an account names, a frame without an access key passes as that account's. Whatever
they do not let pass is not taken: it goes to the hook, which decides and says why. The signature is that of
L{smartgo.schema.signature}. Without the core no run takes anything where grants have to be asked; the hook sees all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from smartgo.core import choose

LearnGrant: TypeAlias = "Callable[[str, int, str, str], bytes | None]"
"""Returns the secret of an access key (first) if it may send requests of a code for a topic and a group (empty where a
send names none); C{None}: there is no such key, or it may not. It must not raise."""


class NoRunGrants:
    """The interface of grants; lets nothing pass."""

    def __init__(self, learn: LearnGrant) -> None:
        """@param learn: is asked once for each key, code, topic and group, until L{forget}."""

    def forget(self) -> None:
        """Learn everything anew: the rules have changed."""

    def unsigned_as(self, access_key: str) -> None:
        """
        Let frames without an access key pass, unsigned, as far as those that this key has signed.

        It holds for the frames of one connection: who hands them over calls this before, and with an empty key after.

        @param access_key: of the account whose requests they are; empty: they do not pass.
        """


if TYPE_CHECKING:
    RunGrants = NoRunGrants
else:
    RunGrants = choose("RunGrants", NoRunGrants)
