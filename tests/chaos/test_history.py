"""Events as JSON lines."""

from __future__ import annotations

import io

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.history import Fault, Invoke, Note, Ok, Recorder, decode, encode, load


class LineTests(SynchronousTestCase):
    """One event, one line."""

    def test_there_and_back(self) -> None:
        """Every event is read from its line as it was."""
        for event in (
            Invoke(t=1.5, who="p0", value="a", digest=7, attempts=3, delay=5, half=True),
            Ok(t=2, who="p0", value="ä", code=12, queue="Orders@broker-a:0", offset=0),
            Fault(t=3, name="cut", target="link", on=False, count=4),
        ):
            line = encode(event)
            self.assertEqual(line.count(b"\n"), 1)
            self.assertEqual(decode(line), event)

    def test_readable(self) -> None:
        """A line says what it is, and leaves out what is usual."""
        self.assertEqual(encode(Ok(t=2, value="a")), b'{"event":"ok","t":2,"value":"a"}\n')

    def test_no_event(self) -> None:
        """A line that is cut, or is no event, is refused."""
        line = encode(Invoke(t=1, value="a"))
        for cut in range(len(line) - 1):
            self.assertRaises(msgspec.DecodeError, decode, line[:cut])
        self.assertRaises(msgspec.ValidationError, decode, b'{"event":"nothing"}')


class RecorderTests(SynchronousTestCase):
    """Keeping events while a run goes on."""

    def setUp(self) -> None:
        """Have a recorder whose clock stands at 100 s."""
        self.seconds = 100.0
        self.file = io.BytesIO()
        self.recorder = Recorder(self.file, lambda: self.seconds)

    def test_moments(self) -> None:
        """An event without a moment happens now, counted from the begin of the run; another keeps its own."""
        self.seconds = 102.25
        self.recorder.add(Note(text="now"))
        self.recorder.add(Note(t=1, text="before"))
        self.assertEqual([event.t for event in self.recorder.events], [2.25, 1])

    def test_file(self) -> None:
        """What is kept can be loaded from the file."""
        self.seconds += 1
        self.recorder.note("something is missing", missing=True)
        self.recorder.add(Ok(t=2, value="a"))
        lines = self.file.getvalue().splitlines()
        self.assertEqual(list(load(lines)), self.recorder.events)
        self.recorder.close()
        self.assertTrue(self.file.closed)
