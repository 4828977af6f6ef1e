"""
A well-behaved client in a process of its own: one request each 10 ms, and what became of them.

C{python -m tests.attack.bystander HOST PORT KIND}: KIND is C{send} (to a topic of its own) or C{cluster} (asks a
registry). A line on standard input, a number, is answered by one JSON line with the figures since the last, as soon as
there are so many.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from tests.attack.wire import CLUSTER, SEND_V2, Wire, send_fields

EVERY = 0.01
"""Seconds between two requests."""
PATIENCE = 30.0
"""Seconds to wait for an answer."""


class Bystander:
    """Asks again and again on a thread of its own; counts."""

    def __init__(self, host: str, port: int, kind: str) -> None:
        self._address = (host, port)
        self._kind = kind
        self._lock = threading.Condition()
        self._waits: list[float] = []
        self._errors: list[str] = []
        self._asked_at: float | None = None

    def run(self) -> None:
        """Ask for ever."""
        pause = threading.Event()
        wire: Wire | None = None
        while True:
            begin = time.monotonic()
            self._asked_at = begin
            try:
                if wire is None:
                    wire = Wire(self._address, PATIENCE)
                answer = (
                    wire.call(CLUSTER)
                    if self._kind == "cluster"
                    else wire.call(SEND_V2, send_fields("Bystander"), b"x" * 64)
                )
                self._note(time.monotonic() - begin, "" if answer.code == 0 else f"code {answer.code}: {answer.remark}")
            except (OSError, EOFError) as error:
                self._note(time.monotonic() - begin, repr(error))
                wire = None
                pause.wait(0.2)
            pause.wait(EVERY)

    def _note(self, seconds: float, error: str) -> None:
        with self._lock:
            self._asked_at = None
            self._waits.append(seconds)
            if error:
                self._errors.append(error)
            self._lock.notify_all()

    def figures(self, least: int) -> dict[str, Any]:
        """
        Return count, errors, and p50, p99 and max in ms; a request that still waits counts with its age.

        @param least: how many requests to wait for.
        """
        with self._lock:
            self._lock.wait_for(lambda: len(self._waits) >= least)
            waits, self._waits = self._waits, []
            errors, self._errors = self._errors, []
            if self._asked_at is not None:
                waits.append(time.monotonic() - self._asked_at)
        waits.sort()
        if not waits:
            return {"count": 0, "p50": 0.0, "p99": 0.0, "max": 0.0, "errors": 0, "error": ""}
        count = len(waits)
        return {
            "count": count,
            "p50": round(waits[count // 2] * 1e3, 2),
            "p99": round(waits[int(count * 0.99)] * 1e3, 2),
            "max": round(waits[-1] * 1e3, 2),
            "errors": len(errors),
            "error": errors[0][:200] if errors else "",
        }


def main() -> None:
    """Serve standard input."""
    _, host, port, kind = sys.argv
    bystander = Bystander(host, int(port), kind)
    threading.Thread(target=bystander.run, daemon=True).start()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(bystander.figures(int(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
