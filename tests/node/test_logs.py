"""The log as JSON."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr
from typing import Any

from twisted.logger import Logger, LogLevel, LogPublisher
from twisted.logger._legacy import publishToNewObserver
from twisted.python.failure import Failure
from twisted.python.reflect import namedAny
from twisted.python.usage import Options
from twisted.trial.unittest import SynchronousTestCase

from smartgo.node.logs import json_file_observer, json_line
from smartgo.node.options import BrokerOptions


class JsonTests(SynchronousTestCase):
    """One object a line."""

    def setUp(self) -> None:
        self.file = io.StringIO()
        publisher = LogPublisher(json_file_observer(self.file))
        self.publisher = publisher
        self.source = Logger("smartgo.test", observer=publisher)

    def lines(self) -> list[Any]:
        """Return the written lines."""
        return [json.loads(line) for line in self.file.getvalue().splitlines()]

    def test_event(self) -> None:
        """A line says when, how grave, who and what, and holds the values that the message was made of."""
        self.source.warn("group {group} went back to {offset}, {what}", group="g", offset=7, what={"a": 1}, more=None)
        (line,) = self.lines()
        self.assertRegex(line.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(
            line,
            {
                "level": "warn", "namespace": "smartgo.test", "message": "group g went back to 7, {'a': 1}",
                "group": "g", "offset": 7, "what": "{'a': 1}", "more": None,
            },
        )  # fmt: skip

    def test_time(self) -> None:
        """Times are of UTC, to the millisecond."""
        line = json.loads(json_line({"log_time": 1_700_000_000.0625, "log_format": "x"}))
        self.assertEqual((line["time"], line["level"]), ("2023-11-14T22:13:20.062Z", "info"))

    def test_failure(self) -> None:
        """A failure comes with its traceback, on the same line."""
        try:
            raise ValueError("no good")
        except ValueError:
            self.source.failure("it broke", Failure(), LogLevel.critical)
        (line,) = self.lines()
        self.assertEqual((line["message"].splitlines()[0], line["level"]), ("it broke", "critical"))
        self.assertIn("ValueError: no good", line["traceback"])

    def test_text_in_values(self) -> None:
        """Whatever a value holds, an event is one line, and no value can take the place of what we say."""
        self.source.info(
            "{text}", text='a"\n\x1b[31m', time="forged", message="forged", value="x" * 10_000, thing=object()
        )
        (line,) = self.lines()
        self.assertEqual(line["message"], 'a"\n\x1b[31m')
        self.assertNotEqual(line["time"], "forged")

    def test_legacy(self) -> None:
        """What Twisted logs the old way is a line too."""
        publishToNewObserver(
            self.publisher, {"message": ("Door starting",), "system": "-", "time": 5.0, "isError": 0}, lambda event: ""
        )
        (line,) = self.lines()
        self.assertEqual((line["time"], line["level"]), ("1970-01-01T00:00:05.000Z", "info"))


class OptionTests(SynchronousTestCase):
    """The option of the daemons."""

    def parsed(self, *arguments: str, **parent: Any) -> Options:
        """Return twistd's options as our options read them."""
        options = BrokerOptions()
        options.parent = Options()
        options.parent.update(parent)
        options.parseOptions(list(arguments))
        return options.parent

    def test_json(self) -> None:
        """--log-format json gives twistd and twist an observer of ours, which writes to the log file."""
        path = self.mktemp()
        parent = self.parsed("--log-format", "json", logfile=path)
        memory = io.StringIO()
        parent["fileLogObserverFactory"](memory)({"log_format": "hello", "log_time": 1.0})
        self.assertEqual(json.loads(memory.getvalue())["message"], "hello")
        namedAny(parent["logger"])()({"log_format": "hello", "log_time": 1.0})
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.loads(file.read())["message"], "hello")

    def test_text(self) -> None:
        """Without it, or with text, lines are as twistd writes them; with another logger or syslog they are its own."""
        for arguments in ((), ("--log-format", "text")):
            path = self.mktemp()
            namedAny(self.parsed(*arguments, logfile=path)["logger"])()(
                {"log_format": "hello", "log_time": 1.0, "log_namespace": "n", "log_level": LogLevel.info}
            )
            with open(path, encoding="utf-8") as opened:
                self.assertRegex(opened.read(), r"^1970-01-01T\S+ \[n#info\] hello\n$")
        self.assertEqual(self.parsed(logger="its.own")["logger"], "its.own")
        self.assertNotIn("logger", self.parsed(syslog=1))

    def test_refused(self) -> None:
        """Another format, and a daemon that is to write to standard output, are refused."""
        for format_, sentence in (
            ("xml", "--log-format xml: write "),
            ("json", "a daemon cannot log to standard output"),
        ):
            written = io.StringIO()
            with redirect_stderr(written):
                error = self.assertRaises(SystemExit, self.parsed, "--log-format", format_, logfile="-")
            self.assertEqual(error.code, 2)
            self.assertIn(sentence, written.getvalue())
        self.assertIn("logger", self.parsed("--log-format", "json", logfile="-", nodaemon=1))

    def test_standard_output(self) -> None:
        """In the foreground lines go to standard output."""
        file = io.StringIO()
        self.patch(__import__("sys"), "stdout", file)
        parent = self.parsed("--log-format", "json", nodaemon=1)
        namedAny(parent["logger"])()({"log_format": "hello", "log_time": 1.0})
        self.assertEqual(json.loads(file.getvalue())["message"], "hello")
