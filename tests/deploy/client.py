"""A client of what was deployed: our command line, wherever it runs."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.chaos.rounds import until
from tests.deploy.machines import MachineFailed

SOON = 120.0
"""Seconds within which all is as it should be on a slow machine; a restart's 5 are systemd's own pause."""


class Client:
    """Sends to and reads from the topic C{Orders}."""

    def __init__(self, smartgo: Callable[..., str]) -> None:
        """
        @param smartgo: returns what our command line prints for some words.
        """
        self.smartgo = smartgo

    def send(self, count: int) -> None:
        """Send some messages as soon as the registries know a broker that takes them."""

        def sent() -> bool:
            try:
                return f"sent {count} messages" in self.smartgo("send", "Orders", "order", "--count", str(count))
            except MachineFailed:
                return False

        until(sent, SOON, "messages are taken")

    def consumed(self, group: str, count: int) -> int:
        """Return how many messages a new group is given."""
        words = ("consume", "Orders", "--group", group, "--from", "first", "--count", str(count))
        return len(re.findall(r"^\d+:\d+ order\s*$", self.smartgo(*words), re.MULTILINE))

    def mirrored(self, slave: str) -> None:
        """Wait until a slave has all of its master's log."""

        def has_all() -> bool:
            shown = self.smartgo("cluster", "show", slave)
            wanted = (r"^haBehindBytes +0\s", r"^haState +FOLLOWING\s")
            return all(re.search(line, shown, re.MULTILINE) for line in wanted)

        until(has_all, SOON, f"{slave} has all")
