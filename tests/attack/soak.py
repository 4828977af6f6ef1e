"""
C{python -m tests.attack.soak --minutes 30 --connections 200000}: good and bad clients on one broker for long, and how
much anonymous memory it takes meanwhile.

Good: producers and consumers that wait for their answers, and a bystander. Bad: connections that are opened and closed
in every way there is, clients that never read, long polls that are left behind.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.attack.attacks import SEED, closed
from tests.attack.scene import MIB, Child, Scene
from tests.attack.wire import MAX_OFFSET, PULL, SEND_V2, Address, Wire, pull_fields, request, send_fields

_EVERY: Final = 30.0  # seconds between two rows
_BODY: Final = b"x" * 700
_LINGER: Final = struct.pack("ii", 1, 0)  # closing sends a reset


class Clients:
    """
    Clients of one kind each on a thread of its own, in a process of their own; counts what becomes of them.

    @ivar counts: by what happened.
    """

    def __init__(self, broker: Address, rate: float) -> None:
        """
        @param rate: bad connections opened a second.
        """
        self._broker = broker
        self._rate = rate
        self.counts: Counter[str] = Counter()
        self._ended = threading.Event()

    def start(self) -> None:
        """Start all of them."""
        often = ((self._produce, 2), (self._consume, 2), (self._deaf, 3), (self._churn, 1))
        kinds: list[Callable[[int], None]] = [kind for kind, count in often for _ in range(count)]
        for number, kind in enumerate(kinds):
            threading.Thread(target=self._again, args=(kind, number), daemon=True).start()

    def _again(self, kind: Callable[[int], None], number: int) -> None:
        while not self._ended.is_set():
            try:
                kind(number)
            except (OSError, EOFError) as error:
                self.counts[f"{kind.__name__.strip('_')} lost: {type(error).__name__}"] += 1
                self._ended.wait(0.5)

    def _produce(self, number: int) -> None:
        wire = Wire(self._broker)
        while not self._ended.wait(0.1):
            for count in range(20):
                properties = f"TAGS\x01t\x02KEYS\x01k{number}-{count}\x02"
                answer = wire.call(SEND_V2, send_fields(f"Soak{number}", properties=properties), _BODY)
                self.counts["sent" if answer.code == 0 else f"send answered {answer.code}"] += 1

    def _consume(self, number: int) -> None:
        wire, offset = Wire(self._broker), 0
        while not self._ended.is_set():
            answer = wire.call(PULL, pull_fields(f"Soak{number - 2}", offset, 1000, f"soak{number}"))
            following = int(answer.fields.get("nextBeginOffset", offset))
            if answer.code == 0:
                self.counts["consumed"] += following - offset
            elif answer.code not in (19, 20, 21):
                self.counts[f"pull answered {answer.code}"] += 1
                self._ended.wait(0.5)
            offset = following

    def _deaf(self, number: int) -> None:
        """Ask for much, read a little now and then, and close."""
        wire = Wire(self._broker, receive_buffer=2048)
        wire.socket.settimeout(2.0)
        try:
            for _ in range(200):
                wire.send(request(PULL, pull_fields("Soak0", 0, 0, "deaf")))
        except OSError:
            pass
        self._ended.wait(20.0)
        wire.close()

    def _churn(self, number: int) -> None:
        """Open connections at the rate, and end each in another way."""
        chance = random.Random(SEED)
        begin, opened = time.monotonic(), 0
        while not self._ended.is_set():
            ahead = begin + opened / self._rate - time.monotonic()
            if ahead > 0:
                self._ended.wait(ahead)
            opened += 1
            try:
                self._one(chance)
                self.counts["opened and closed"] += 1
            except (OSError, EOFError):
                self.counts["opened, and lost"] += 1

    def _one(self, chance: random.Random) -> None:
        wire = Wire(self._broker, 10.0)
        try:
            way = chance.randrange(7)
            if way == 1:
                wire.send(struct.pack(">i", 16 * MIB) + bytes(chance.randrange(1, MIB)))
            elif way == 2:
                wire.call(MAX_OFFSET, {"topic": "Soak0", "queueId": "0"})
            elif way == 3:
                wire.send(request(PULL, pull_fields("Soak0", 10**9, 30_000, "left")))
            elif way == 4:
                wire.send(chance.randbytes(chance.randrange(1, 2000)))
            elif way == 5:
                wire.send(request(MAX_OFFSET, {"topic": "Soak0", "queueId": "0"}) * 50)
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            elif way == 6:
                wire.send(b"\x16\x03\x01" + chance.randbytes(100))
        finally:
            closed([wire])


def serve(arguments: list[str]) -> None:
    """Be the process of the clients: answer each line with what was counted."""
    host, port, rate = arguments
    clients = Clients((host, int(port)), float(rate))
    clients.start()
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(clients.counts) + "\n")
        sys.stdout.flush()


def soak(minutes: float, connections: int) -> bool:
    """Run it and print a row each half minute; return whether memory was flat after the first sixth."""
    home = tempfile.mkdtemp(prefix="smartgo-soak-")
    scene = Scene(home)
    rows: list[int] = []
    try:
        scene.start()
        host, port = scene.aim.broker
        rate = connections / (minutes * 60)
        clients = Child("clients", home, "tests.attack.soak", "--serve", host, str(port), str(rate), environment={})
        begin = time.monotonic()
        pause = threading.Event()
        _say("| seconds | broker, anonymous KiB | registry | descriptors | CPU s | log lines | counts | bystander |")
        _say("|---|---|---|---|---|---|---|---|")
        while (now := time.monotonic() - begin) < minutes * 60:
            pause.wait(min(_EVERY, minutes * 60 - now))
            taken, counts = scene.taken(), clients.ask()
            broker = taken["broker"]
            rows.append(broker.memory)
            _say(
                f"| {time.monotonic() - begin:.0f} | {broker.memory >> 10} | {taken['registry'].memory >> 10}"
                f" | {broker.descriptors} | {broker.cpu:.0f} | {broker.lines} | {counts} | {scene.bystander('1')} |"
            )
        clients.kill()
    finally:
        scene.end()
        shutil.rmtree(home, ignore_errors=True)
    settled = rows[len(rows) // 6 :]
    growth = max(settled[len(settled) // 2 :]) - max(settled[: len(settled) // 2])
    _say(f"the most in the second half is {growth / MIB:+.1f} MiB to the most in the first, its first sixth left out")
    return growth < 4 * MIB


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Read the command line; return the exit status."""
    parser = argparse.ArgumentParser("python -m tests.attack.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--connections", type=int, default=200_000)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return 0
    return 0 if soak(given.minutes, given.connections) else 1


if __name__ == "__main__":
    sys.exit(main())
