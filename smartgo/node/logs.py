"""
The log of a process, as text or as JSON: one object a line, for programs that gather logs.

C{{"time":"2026-11-21T16:42:51.644Z","level":"info","namespace":"smartgo.broker.broker.Broker","message":"..."}}: the
message as a person would read it, and beside it each value that it was made of; of a failure also C{traceback}.
"""

from __future__ import annotations

import datetime
import signal
import sys
from collections.abc import Callable
from typing import IO, Any, Final

import msgspec
from twisted.logger import FileLogObserver, ILogObserver, LogEvent, formatEvent, textFileLogObserver
from twisted.python.logfile import LogFile

from smartgo.node.loglimit import LogLimit

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


class LogOutput:
    """
    A factory of the log observer that C{twistd} uses; twistd imports it by name alone, hence one object for each form.

    @ivar path: the log file, turned over as twistd's own; C{-} or nothing for standard output.
    """

    def __init__(self, name: str, observer: Callable[[IO[Any]], ILogObserver]) -> None:
        """
        @param observer: makes what writes events to a file.
        """
        self.name: Final = f"{__name__}.{name}"
        self._observer = observer
        self.path: str | None = None

    def to(self, file: IO[Any]) -> LogLimit:
        """Return what writes events to a file; C{twist} makes its log observer by this."""
        return LogLimit(self._observer(file))

    def __call__(self) -> LogLimit:
        """Open the file and return the observer."""
        if not self.path or self.path == "-":
            return self.to(sys.stdout)
        file = LogFile.fromFullPath(self.path)
        if not signal.getsignal(signal.SIGUSR1):  # as twistd's own
            from twisted.internet import reactor

            signal.signal(signal.SIGUSR1, lambda *_: reactor.callFromThread(file.rotate))  # type: ignore[attr-defined]
        return self.to(file)


json_log: Final = LogOutput("json_log", json_file_observer)
"""The log as JSON."""
text_log: Final = LogOutput("text_log", textFileLogObserver)
"""The log as text."""
