"""Tests for L{benchmarks.opsload}, without a broker."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.errors import BenchmarkError
from benchmarks.opsload import Outcome, Recorded, Replay, recorded, told


class Server(http.server.ThreadingHTTPServer):
    """Answers like the API, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.enough = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server: Server

            def do_GET(self) -> None:
                self.server.asked.append(self.path)
                if self.path == "/events":
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(b"data: 1\n\ndata: 2\n\n")
                    self.close_connection = True
                else:
                    self.send_response(404 if "gone" in self.path else 200)
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"{}")
                if len(self.server.asked) >= 5:
                    self.server.enough.set()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


class ReplayTests(SynchronousTestCase):
    """A record, replayed."""

    def test_replay(self) -> None:
        """Requests are asked at their pace and over again, streams read, times filled in, failures told."""
        server = Server()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        outcome = Outcome("x", 1, 1, [10.0, 20.0], [10.5, 22.0])
        requests = [Recorded(0.0, "/a?begin={begin}&end={end}"), Recorded(0.0, "/gone"), Recorded(0.0, "/events", True)]
        with Replay(f"127.0.0.1:{server.server_port}", requests, outcome).running():
            self.assertTrue(server.enough.wait(60))
            for _ in range(6000):  # the stream is read by a thread of its own
                if outcome.events == 2:
                    break
                threading.Event().wait(0.01)
        begin, end = (
            (int(part.split("=")[1]) for part in server.asked[0].split("?")[1].split("&"))
            if (server.asked[0] != "/events")
            else (0, 900_000)
        )
        self.assertEqual(end - begin, 900_000)
        self.assertEqual(outcome.events, 2)
        self.assertGreaterEqual(outcome.requests, 2)
        self.assertEqual(set(outcome.failures), {"/gone: 404"})
        self.assertIn("ratio 1.075", told(outcome))
        self.assertFalse(outcome.met)

    def test_record(self) -> None:
        """The record that is kept is one; others are told from it."""
        kept = recorded()
        self.assertTrue(any(one.stream for one in kept))
        self.assertEqual(kept, sorted(kept, key=lambda one: one.at))
        path = Path(self.mktemp())
        for wrong in (b"", b"{}\n", b'{"at": 1}\n'):
            path.write_bytes(wrong)
            self.assertRaises(BenchmarkError, recorded, path)
        self.assertRaises(BenchmarkError, recorded, Path(self.mktemp()))
