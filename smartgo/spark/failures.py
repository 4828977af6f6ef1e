"""Causes of failed Spark jobs, found in what Spark says of them: a stack trace of the JVM, of a worker, or of both."""

from __future__ import annotations

import re
from typing import Final

from smartgo.errors import SettingError, SmartgoError, StoreError

_OURS: Final = re.compile(r"smartgo\.[a-z.]*?(\w+): (.+)")
_RAISED: Final = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$")
"""The line of a Python traceback that names the exception: the only one that is not indented."""
_CHAINED: Final = ("Traceback ", "During handling ", "The above exception ")
_CAUSED: Final = "Caused by: "
_TRACEBACK: Final = "Traceback (most recent call last):"


class JobFailed(SmartgoError):
    """Spark failed; the message names the cause."""


def understood(text: str) -> SmartgoError | None:
    """Return the message of an error of smartgo from Spark's error, which is a worker's traceback and more."""
    found = _OURS.findall(text)
    if not found:
        return None
    kind, sentence = found[-1]
    return SettingError(sentence) if kind == "SettingError" else StoreError(sentence)


def job_failed(error: Exception) -> SmartgoError:
    """Return what to tell a user of an error of Spark's: our own sentence where there is one, else Spark's cause."""
    text = str(error)
    return understood(text) or JobFailed(f"Spark failed: {cause(text) or type(error).__name__}")


def cause(text: str) -> str:
    """
    Return one line that says what failed and why.

    @param text: an error of Spark's. What a Python worker raised stands at the end of its traceback; of several Java
        exceptions, the last C{Caused by} is the cause.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    first, _, rest = lines[0].partition(_TRACEBACK)
    raised = _raised(lines)
    if raised is not None:
        return _joined(first, raised)
    causes = [line.strip().removeprefix(_CAUSED) for line in lines if line.strip().startswith(_CAUSED)]
    return _joined(first + rest, causes[-1]) if causes else first + rest


def _raised(lines: list[str]) -> str | None:
    """Return the exception that the last Python traceback ends with."""
    begins = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if not begins:
        return None
    for line in lines[begins[-1] + 1 :]:
        if _RAISED.match(line) and not line.startswith(_CHAINED):
            return line
    return None


def _joined(what: str, why: str) -> str:
    what = what.strip().rstrip(":")
    return f"{what}: {why}" if what and why not in what else what or why
