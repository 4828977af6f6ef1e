"""
The log as JSON: one object a line, for programs that gather logs.

C{{"time":"2026-11-21T16:42:51.644Z","level":"info","namespace":"smartgo.broker.broker.Broker","message":"..."}}: the
message as a person would read it, and beside it each value that it was made of; of a failure also C{traceback}.
"""

from __future__ import annotations

import datetime
import sys
from typing import IO, Any, Final

import msgspec
from twisted.logger import FileLogObserver, LogEvent, formatEvent
from twisted.python.logfile import LogFile

FORMATS: Final = ("text", "json")

_SIMPLE: Final = (str, int, float, bool, type(None))
_LONGEST: Final = 4096  # characters of a value


def json_line(event: LogEvent) -> str:
    """
    Write one event.

    >>> json_line({"log_time": 0.5, "log_namespace": "n", "log_format": "{count} gone", "count": 2})
    '{"time":"1970-01-01T00:00:00.500Z","level":"info","namespace":"n","message":"2 gone","count":2}\\n'
    """
    when = datetime.datetime.fromtimestamp(float(event.get("log_time") or 0.0), datetime.UTC)
    level = event.get("log_level")
    line: dict[str, Any] = {
        "time": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z",
        "level": "info" if level is None else level.name,
        "namespace": event.get("log_namespace") or "",
        "message": formatEvent(event),
    }
    failure = event.get("log_failure")
    if failure is not None:
        line["traceback"] = failure.getTraceback()
    if event.get("log_system") is None:  # what is logged the old way says nothing by its other members
        for name, value in event.items():
            if not name.startswith("log_") and name not in line:
                line[name] = value if isinstance(value, _SIMPLE) else str(value)[:_LONGEST]
    return msgspec.json.encode(line).decode() + "\n"


def json_file_observer(file: IO[Any]) -> FileLogObserver:
    """Return what writes events to a file; as C{twisted.logger.jsonFileLogObserver} is used."""
    return FileLogObserver(file, json_line)


class JsonLog:
    """
    What C{twistd} makes its log observer by; it knows this by its name alone, and so there is one.

    @ivar path: the log file, turned over as twistd's own; C{-} or nothing for standard output.
    """

    name: Final = f"{__name__}.json_log"

    def __init__(self) -> None:
        self.path: str | None = None

    def __call__(self) -> FileLogObserver:
        """Open the file and return the observer."""
        standard = not self.path or self.path == "-"
        return json_file_observer(sys.stdout if standard else LogFile.fromFullPath(self.path))


json_log: Final = JsonLog()
