"""The clients under test: the commands of their programs, and the brokers that they can talk to."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ..checkouts import ROOT, THIS, Checkout
from ..errors import BenchmarkError
from ..jars import SERVER, RocketMQ
from . import kafka

Protocol = Literal["rocketmq", "kafka"]

_BOOT = (
    "import importlib, sys; sys.path.insert(0, sys.argv[1]); import benchmarks.clients.programs as programs; "
    "sys.path[0] = sys.argv[2]; importlib.import_module(programs.__name__ + '.' + sys.argv[3]).main(sys.argv[4:])"
)
"""Runs a program of this checkout with the smartgo of another folder."""

_MODULES = {
    "twisted": "on_twisted",
    "aio": "on_asyncio",
    "sync": "blocking",
    "aiokafka": "by_aiokafka",
    "confluent": "by_confluent",
}
_OF_KAFKA = ("aiokafka", "confluent")
JAVA = "java"
NAMES = ("twisted", "aio", "sync", JAVA, *_OF_KAFKA)
"""All clients: smartgo's by the framework, Apache's for Java, and two of Kafka."""
JAVA_WARM_UP = 4.0
WARM_UP = 0.5


class Client(msgspec.Struct, frozen=True):
    """
    A client library, and how its program is started.

    @ivar warm_up: seconds of each kind of load before its first window; a JVM needs time to compile.
    """

    name: str
    protocol: Protocol
    command: tuple[str, ...]
    version: str
    environment: Mapping[str, str] = {}
    warm_up: float = WARM_UP

    def facts(self) -> Mapping[str, object]:
        """Return what a reader of the figures needs to know about it."""
        return {"name": self.name, "version": self.version}


def client_of(words: str, rocketmq: RocketMQ, cache: Path, work: Path) -> Client:
    """
    Make the client that C{words} name: one of L{NAMES}, smartgo's also as C{NAME@PATH} of another checkout.

    @param cache: where Kafka's clients are kept; C{work}: a folder for what is compiled and logged.
    @raise ValueError: they name none.
    @raise BenchmarkError: it cannot be installed or compiled here.
    """
    name, _, path = words.partition("@")
    if name not in NAMES or (path and name in (JAVA, *_OF_KAFKA)):
        raise ValueError(f"{words!r} is none of {', '.join(NAMES)}; those of smartgo may end with @CHECKOUT")
    if name == JAVA:
        source = Path(__file__).parent / "programs" / "ClientLoad.java"
        command = rocketmq.client_program(source, work / "java")
        return Client(name, "rocketmq", tuple(command), f"rocketmq-client {SERVER}", warm_up=JAVA_WARM_UP)
    if name in _OF_KAFKA:
        python = kafka.python(cache)
        return Client(name, "kafka", _python(python, ROOT, name), kafka.versions(python))
    checkout = THIS
    if path:
        checkout = Checkout(Path(path).resolve())
        if not (checkout.root / "smartgo" / "__init__.py").is_file():
            raise BenchmarkError(f"{checkout.root} is no checkout of smartgo")
        name = f"{name}@{checkout.root.name}"
    command_of = _python(Path(sys.executable), checkout.root, words.partition("@")[0])
    return Client(name, "rocketmq", command_of, f"smartgo {checkout.commit()}")


def arguments(client: Client, address: str) -> Sequence[str]:
    """
    Return what is added to a client's command.

    @param address: of the registry, or of Kafka's broker.
    """
    return (address, str(os.sysconf("SC_CLK_TCK"))) if client.name == JAVA else (address,)


def _python(python: Path, root: Path, name: str) -> tuple[str, ...]:
    return (str(python), "-c", _BOOT, str(ROOT), str(root), _MODULES[name])
