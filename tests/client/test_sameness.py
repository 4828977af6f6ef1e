"""The faces of the client have the same methods, arguments and docstrings, so that they cannot drift apart."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import smartgo
import smartgo.aio
import smartgo.sync

PAIRS = ("LitePullConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer")
INTERNAL = {"arrived", "check_back", "consume_directly", "heartbeat_data", "hindrance", "members_changed", "moved",
            "put_back", "reset_offsets", "route_changed", "running_info"}  # fmt: skip
"""What the client for Twisted calls on its members, pulls on their consumer, and a face on what it waits for."""
WAITING = {"acknowledge", "batches", "give_back", "receive", "receive_batch"}
"""What the loops over messages add."""
ONLY_TWISTED = {"smartgo.Client": {"env", "embedding"}, "smartgo.Admin": {"asking"}}
NOT_THERE = {"RealEnvironment", "ClientTLS"}
"""Names of Twisted's face alone; C{TLSFiles} stand for the second."""


def methods(kind: type) -> dict[str, Any]:
    """Return the public methods of a class."""
    return {name: value for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


def arguments(function: Any) -> list[tuple[str, object, object]]:
    """Return the name, the default and the type of each argument but C{self}."""
    return [
        (one.name, one.default, re.sub(r"^(\w+\.)+", "", str(one.annotation)))
        for one in inspect.signature(function).parameters.values()
        if one.name != "self"
    ]


def result(function: Any) -> str:
    """Return the type of the result, without its Deferred."""
    return re.sub(r"^Deferred\[(.*)\]$", r"\1", str(inspect.signature(function).return_annotation))


def words(function: Any) -> str:
    """Return a docstring in the words that are common to Deferreds and calls."""
    text = " ".join((inspect.getdoc(function) or "").split())
    for twisted, plain in (
        ("through the Deferred: ", ""),
        ("at once: ", ""),
        ("fires with ", ""),
        ("fires when", "returns when"),
        ("fires after", "returns after"),
        ("fire with", "return"),
        (" The Deferred can be cancelled.", ""),
    ):
        text = text.replace(twisted, plain)
    return text


class SamenessTests(SynchronousTestCase):
    def test_methods(self) -> None:
        """Each class has the methods of Twisted's, and no other but those of loops over messages."""
        for name in PAIRS:
            wanted = set(methods(getattr(smartgo, name))) - INTERNAL
            for face in (smartgo.aio, smartgo.sync):
                found = set(methods(getattr(face, name)))
                added = WAITING if name == "PushConsumer" else set()
                self.assertEqual(found, wanted | added, f"{face.__name__}.{name}")

    def test_signatures(self) -> None:
        """Arguments, defaults and results are the same, without Deferreds; coroutine functions are those of asyncio."""
        for name in PAIRS:
            for method, original in methods(getattr(smartgo, name)).items():
                if method in INTERNAL:
                    continue
                for face in (smartgo.aio, smartgo.sync):
                    found = getattr(getattr(face, name), method)
                    self.assertEqual(arguments(found), arguments(original), f"{face.__name__}.{name}.{method}")
                    self.assertEqual(result(found), result(original), f"{face.__name__}.{name}.{method}")
                    waits = "Deferred" in str(inspect.signature(original).return_annotation)
                    self.assertEqual(inspect.iscoroutinefunction(found), waits and face is smartgo.aio)

    def test_docstrings(self) -> None:
        """Docstrings of producers and of consumers that are asked are the same, but for the words of Deferreds."""
        for name in ("LitePullConsumer", "Producer", "PullConsumer", "TransactionProducer"):
            for method, original in methods(getattr(smartgo, name)).items():
                if method in INTERNAL:
                    continue
                for face in (smartgo.aio, smartgo.sync):
                    found = getattr(getattr(face, name), method)
                    self.assertEqual(words(found), words(original), f"{face.__name__}.{name}.{method}")

    def test_fields(self) -> None:
        """Arguments, results and errors are described in the same words on each face, of every class."""
        for name in PAIRS:
            for method, original in methods(getattr(smartgo, name)).items():
                if method in INTERNAL:
                    continue
                for face in (smartgo.aio, smartgo.sync):
                    found = words(getattr(getattr(face, name), method)).partition("@")[2]
                    self.assertEqual(found, words(original).partition("@")[2], f"{face.__name__}.{name}.{method}")

    def test_constructors(self) -> None:
        """Constructors take the same arguments, but for what only a program with a reactor has."""
        for name in (*PAIRS, "Client", "Admin"):
            dropped = ONLY_TWISTED.get(f"smartgo.{name}", set())
            wanted = [one[0] for one in arguments(getattr(smartgo, name)) if one[0] not in dropped]
            for face in (smartgo.aio, smartgo.sync):
                self.assertEqual([one[0] for one in arguments(getattr(face, name))], wanted, f"{face.__name__}.{name}")

    def test_administration(self) -> None:
        """Each part of administration has all methods of the part for Twisted, with its signature and docstring."""
        for face in (smartgo.aio, smartgo.sync):
            made = vars(face.Admin(face.Client("127.0.0.1")))
            parts = {name: part for name, part in made.items() if not name.startswith("_")}
            originals = inspect.get_annotations(smartgo.Admin.__init__)
            self.assertNotIn("topics", originals)
            for name, part in parts.items():
                kind = type(part)
                original = next(one for one in _originals() if one.__name__ == kind.__name__)
                wanted = methods(original)
                self.assertEqual(set(methods(kind)) - {"run"}, set(wanted), name)
                for method, function in wanted.items():
                    found = getattr(kind, method)
                    self.assertEqual(inspect.signature(found), inspect.signature(function), f"{name}.{method}")
                    self.assertEqual(found.__doc__, function.__doc__)
                    self.assertEqual(inspect.iscoroutinefunction(found), face is smartgo.aio)
            self.assertEqual(len(parts), len(_originals()))

    def test_names(self) -> None:
        """All public names but those of Twisted's face alone are in the other faces too."""
        for face in (smartgo.aio, smartgo.sync):
            found = {name for name, one in vars(face).items() if name[0] != "_" and not isinstance(one, ModuleType)}
            self.assertEqual(found, set(smartgo.__all__) - NOT_THERE | {"TLSFiles"}, face.__name__)


def _originals() -> list[type]:
    from unittest.mock import Mock

    made = vars(smartgo.Admin(Mock()))
    return [type(part) for name, part in made.items() if name != "asking"]
