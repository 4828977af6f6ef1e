"""A cluster that runs already, in the place of a broker for tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

from smartgo.errors import CallFailed
from smartgo.testing.wire import QUEUES

_OF_TESTS: Final = frozenset({
    "add_fault", "address", "advance", "clear_faults", "directory", "down", "faults", "lag", "messages", "purge",
    "restart",
})  # fmt: skip
"""What a broker for tests has, and no other."""


class RunningCluster:
    """
    A cluster of the option C{--smartgo-registry}: topics can be created, and clients connect.

    @ivar registry: the option's value.
    """

    def __init__(self, registry: str, skip: Callable[[str], NoReturn]) -> None:
        """@param skip: ends a test that asks for what only a broker for tests has."""
        self.registry = registry
        self._skip = skip

    def create_topic(self, name: str, queues: int = QUEUES) -> None:
        """
        Create a topic at all brokers of the cluster, by the command C{smartgo topic create}.

        @raise CallFailed: the command failed; the error has its words.
        """
        command = [sys.executable, "-m", "smartgo.cli.main", "topic", "create", name, "--queues", str(queues)]
        done = subprocess.run(  # noqa: S603 - our own program
            [*command, "--registry", self.registry], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode:
            raise CallFailed(done.stdout.decode(errors="replace").strip())

    def __getattr__(self, name: str) -> Any:
        """
        Skip the test that asks for a method of a broker for tests.

        @raise AttributeError: that has none of this name either.
        """
        if name in _OF_TESTS:
            self._skip(f"{name} needs a broker for tests; --smartgo-registry names a cluster")
        raise AttributeError(name)
