"""The example of the documentation."""

from __future__ import annotations

import os
import runpy
from typing import Any

from twisted.internet import reactor
from twisted.trial.unittest import SynchronousTestCase, TestCase

from smartgo.env.real import RealEnvironment
from smartgo.net.states import TRANSITIONS, Event, State

DOCS = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "docs")


class ExampleTests(TestCase):
    timeout = 120

    async def test_board(self) -> None:
        """The notice board serves, wakes who waits, and stops with nothing left behind."""
        board = runpy.run_path(os.path.join(DOCS, "examples", "remoting_board.py"))
        said: list[Any] = []
        await board["serve_and_talk"](RealEnvironment(reactor), said.append)
        self.assertEqual(
            said, ["read: code 22, nothing was posted yet\n", "waited for: the tea is ready\n"],
        )  # fmt: skip


class TableTests(SynchronousTestCase):
    def test_states(self) -> None:
        """The table of states in the documentation is the one in the code."""
        with open(os.path.join(DOCS, "remoting.rst"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        header = next(line for line in lines if line.split() == ["state", *(event.value for event in Event)])
        starts = [header.index(event.value) for event in Event]
        ends = [*starts[1:], None]
        begin = lines.index(header) + 2
        found = {}
        for line in lines[begin : begin + len(State) - 2]:
            for event, start, end in zip(Event, starts, ends, strict=True):
                if line[start:end].strip():
                    found[State(line.split()[0]), event] = State(line[start:end].strip())
        self.assertEqual(found, TRANSITIONS)
