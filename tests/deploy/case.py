"""The configuration of programs by the files of docs/deploy."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.loading import Configuration
from smartgo.node.options import (
    AllOptions,
    BrokerOptions,
    FrontOptions,
    NodeOptions,
    RegistryOptions,
    SlaveOptions,
    configure,
)
from tests.fakes import FakeEnvironment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "docs", "deploy")
PROGRAMS: dict[str, type[NodeOptions]] = {
    one.program: one for one in (AllOptions, BrokerOptions, FrontOptions, RegistryOptions, SlaveOptions)
}
TWISTD = ["--nodaemon", "--pidfile=", "--logfile=-"]
"""In the foreground, no pid file, the log to standard output."""


def deployed(*path: str) -> str:
    """The text of a file."""
    with open(os.path.join(DEPLOY, *path), encoding="utf-8") as file:
        return file.read()


class DeployCase(SynchronousTestCase):
    def configured(self, words: list[str]) -> Configuration:
        """Return a program's configuration, with the files of docs/deploy/config in /etc/smartgo."""
        env = FakeEnvironment()
        env.files.make_directories("/etc/smartgo")
        for name in os.listdir(os.path.join(DEPLOY, "config")):
            env.files.create(f"/etc/smartgo/{name}", deployed("config", name).encode())
        options = PROGRAMS[words[0]]()
        options.parseOptions(words[1:])
        found = configure(env, options)
        self.assertEqual(list(found.warnings), [], words)
        return found
