"""Tests for L{benchmarks.scale.crowd}, over real sockets against a stand-in."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.errors import BenchmarkError
from benchmarks.scale import crowd
from benchmarks.scale.crowd import Crowd, answers_in, frame
from tests.benchmarks.standin import Answer, Request, StandIn, decode, encode

BEAT, PULL = 34, 11


class FrameTests(SynchronousTestCase):
    """Requests and answers as bytes."""

    def test_request(self) -> None:
        """A request is a JSON frame."""
        request = decode(frame(34, 7, {"a": "b"}, b"body")[4:])
        self.assertEqual((request.code, request.opaque, request.fields, request.body), (34, 7, {"a": "b"}, b"body"))

    def test_answers(self) -> None:
        """Whole answers count, in whatever pieces they come; requests of the broker do not."""
        request = Request(34, 5, {}, b"", False)
        stream = encode(request, body=b"x") + frame(40, 9) + encode(request._replace(opaque=6))
        for cut in range(len(stream)):
            first, rest = answers_in(stream[:cut])
            second, rest = answers_in(rest + stream[cut:])
            self.assertEqual((first + second, rest), ([5, 6], b""))


class CrowdTests(SynchronousTestCase):
    """Many clients in one thread."""

    def crowd(self, answer: Answer, count: int, kind: crowd.Kind) -> Crowd:
        """Return clients of a stand-in."""
        self.server = StandIn(answer)
        self.addCleanup(self.server.stop)
        made = Crowd(f"127.0.0.1:{self.server.port}", count, kind)
        self.addCleanup(made.close)
        return made

    def test_beats(self) -> None:
        """All clients connect, each under an identity of its own, and are answered."""
        clients = self.crowd(lambda requests: [encode(each) for each in requests], 20, "beat")
        self.assertGreater(clients.connect(30.0), 0.0)
        identities = {json.loads(request.body)["clientID"] for request in self.server.requests}
        self.assertEqual((len(identities), clients.answers, len(clients), clients.lost), (20, 20, 20, 0))
        waited = clients.waited
        assert waited is not None
        self.assertEqual(waited.rounds, 20)

    def test_beats_while_others_wait(self) -> None:
        """A client beats again while others are not answered yet: a broker gives up whoever is silent."""
        self.patch(crowd, "BEAT_S", 0.02)
        again = threading.Event()
        beats = Counter[str]()

        def answer(requests: list[Request]) -> list[bytes]:
            for request in requests:
                name = json.loads(request.body)["clientID"]
                beats[name] += 1
                if name.endswith("@0"):
                    if beats[name] == 3:
                        again.set()
                elif not again.wait(30.0):
                    return []
            return [encode(each) for each in requests]

        clients = self.crowd(answer, 2, "beat")
        clients.connect(40.0)
        self.assertGreaterEqual(beats["127.0.0.1@0"], 3)
        self.assertEqual(clients.lost, 0)

    def test_polls(self) -> None:
        """A consumer asks again as soon as a pull was answered; ten share a group."""
        answered = threading.Event()
        pulls = Counter[str]()

        def answer(requests: list[Request]) -> list[bytes]:
            for request in requests:
                if request.code == PULL:
                    pulls[request.fields["consumerGroup"]] += 1
                    if pulls.total() >= 60:
                        answered.set()
                        return []
            return [encode(each, 19 if each.code == PULL else 0) for each in requests]

        clients = self.crowd(answer, 20, "poll")
        clients.connect(30.0)
        with clients.kept():
            self.assertTrue(answered.wait(30.0))
        self.assertEqual(set(pulls), {"scale-0", "scale-1"})

    def test_beats_again(self) -> None:
        """Heart-beats are repeated when they are due."""
        self.patch(crowd, "BEAT_S", 0.05)
        again = threading.Event()
        beats = Counter[str]()

        def answer(requests: list[Request]) -> list[bytes]:
            beats.update(json.loads(each.body)["clientID"] for each in requests)
            if min(beats.values()) >= 3 and len(beats) == 5:
                again.set()
            return [encode(each) for each in requests]

        clients = self.crowd(answer, 5, "beat")
        clients.connect(30.0)
        with clients.kept():
            self.assertTrue(again.wait(30.0))

    def test_refused_at_first(self) -> None:
        """Clients that are refused try again until somebody listens."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        clients = Crowd(f"127.0.0.1:{port}", 3, "beat")
        self.assertRaises(BenchmarkError, clients.connect, 0.0)
        found: list[float] = []
        waiting = threading.Thread(target=lambda: found.append(clients.connect(30.0)))
        waiting.start()
        server = StandIn(lambda requests: [encode(each) for each in requests], port)
        self.addCleanup(server.stop)
        self.addCleanup(clients.close)
        waiting.join()
        self.assertEqual((len(found), clients.answers), (1, 3))

    def test_lost(self) -> None:
        """A connection that the broker closes is counted."""
        self.patch(crowd, "BEAT_S", 0.05)
        connected = threading.Event()

        def answer(requests: list[Request]) -> list[bytes]:
            return [b""] if connected.is_set() else [encode(each) for each in requests]

        clients = self.crowd(answer, 3, "beat")
        clients.connect(30.0)
        connected.set()
        with clients.kept():
            for _ in range(3000):
                if clients.lost == 3:
                    break
                threading.Event().wait(0.01)
        self.assertEqual(clients.lost, 3)

    def test_too_many(self) -> None:
        """More clients than descriptors are refused in a sentence."""
        with mock.patch("resource.getrlimit", return_value=(100, 1000)):
            error = self.assertRaises(BenchmarkError, Crowd, "127.0.0.1:1", 900, "beat")
        self.assertIn("hard limit of 1000", str(error))
