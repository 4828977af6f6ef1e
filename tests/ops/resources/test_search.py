"""Searches for messages."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import lz4.frame
import zstandard
from twisted.internet.defer import Deferred

from smartgo.ops.reading import inflating
from smartgo.ops.reading.inflating import PER_SECOND, SEARCHED, Searched, search_in
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.security.principals import Principal
from smartgo.ops.web.jobs import RestJob
from smartgo.remoting.client import RemotingClient
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.compression import LZ4, ZLIB, ZSTD
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.message import COMPRESSED
from tests.ops.front import HOST
from tests.ops.resources.test_messages import UNIQUE, MessageCase


class SearchTests(MessageCase):
    """Jobs that search."""

    def search(self, **order: Any) -> tuple[Any, list[int]]:
        """Search in Orders; return the job when it is done, and the numbers of what was found."""
        status, job = self.order("POST", "/messages/search", {"topic": "Orders", **order})
        self.assertEqual((status, job["kind"]), (202, "search"), job)
        self.cluster.pump(1.0)
        job = self.get(f"/jobs/{job['id']}")
        self.assertEqual(job["state"], "done", job)
        rows = self.get(f"/jobs/{job['id']}/rows")["items"]
        return job, sorted(int(row["messageId"][-1]) for row in rows)

    def lines(self, job: Any, query: str = "") -> list[Any]:
        """Return the results of a search, as they are written to a file."""
        answer = self.front.ask("GET", f"/jobs/{job['id']}/export{query}", token=self.token)
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "application/x-ndjson"), answer.content)
        wanted = f'attachment; filename="search-{job["id"]}.jsonl"'
        self.assertEqual(answer.headers["content-disposition"], wanted)
        return [json.loads(line) for line in answer.content.splitlines()]

    def test_export(self) -> None:
        """What was found is written as JSON lines, whole, in the order in which it was found; so many at most."""
        self.send(4, body=b"\xff")
        self.cluster.pump(1.0)
        job, _ = self.search()
        rows = self.get(f"/jobs/{job['id']}/rows")["items"]
        lines = self.lines(job)
        self.assertEqual([one["offsetId"] for one in lines], [one["offsetId"] for one in rows])
        self.assertEqual(len(lines), 5)
        by_id = {one["messageId"][-1]: one for one in lines}
        one = by_id["3"]
        self.assertEqual((one["body"], one["bodyBase64"], one["missing"]), ('{"order": 3}', None, False))
        self.assertEqual((one["queueId"], one["queueOffset"], one["properties"]["region"]), (1, 1, "south"))
        self.assertEqual((by_id["4"]["body"], by_id["4"]["bodyBase64"]), (None, "/w=="))
        self.assertEqual(self.lines(job, "?limit=2"), lines[:2])
        self.assertEqual(self.lines(self.search(property="none")[0]), [])
        self.assertEqual([one["messageId"][-1] for one in self.lines(self.search(key="all", tag="odd")[0])], ["1", "3"])

    def test_export_pieces(self) -> None:
        """What lies together is read together, and a pull is kept: a client that takes nothing has no more read."""
        for number in range(4, 80):
            self.send(number % 10, body=b"x" * 20_000)
        self.cluster.pump(1.0)
        job, _ = self.search(queueId=0)
        asked: list[int] = []
        pull = ClusterQueueReader.pull

        def counted(reader: ClusterQueueReader, queue: MessageQueue, offset: int, *more: Any) -> Any:
            asked.append(offset)
            return pull(reader, queue, offset, *more)

        self.patch(ClusterQueueReader, "pull", counted)
        self.assertEqual(len(self.lines(job)), 40)
        self.assertEqual(asked, [0, 14, 26, 32])  # 256 KiB a pull, and 32 messages a run
        asked.clear()
        streams = self.front.ops.streams
        begin_lines = streams.begin_lines

        def hold(request: Any, chunks: Any, owner: str) -> None:
            begin_lines(request, chunks, owner)
            for stream in streams._streams:
                stream.pauseProducing()

        self.patch(streams, "begin_lines", hold)
        transport: Any = self.front.connect().transport
        head = f"GET /api/v1/jobs/{job['id']}/export HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {self.token}"
        transport.write(head.encode() + b"\r\n\r\n")
        self.cluster.pump(1.0)
        self.assertEqual(asked, [0])
        transport.loseConnection()
        self.cluster.pump(1.0)

    def test_export_missing(self) -> None:
        """A message that is gone since, its topic perhaps with it, is told to be missing."""
        job, _ = self.search(queueId=0)
        self.order("DELETE", "/topics/Orders")
        lines = self.lines(job)
        self.assertEqual([(one["queueOffset"], one["missing"], one["body"]) for one in lines], [
            (0, True, None), (1, True, None),
        ])  # fmt: skip
        self.order("POST", "/topics", {"name": "Orders", "readQueues": 2, "writeQueues": 2})
        self.send(4)
        self.cluster.pump(1.0)
        self.assertEqual({one["missing"] for one in self.lines(job)}, {True})

    def test_export_gap(self) -> None:
        """Of messages that lie together the one that is gone is missing, and the others are there."""
        pull = ClusterQueueReader.pull

        async def some(reader: ClusterQueueReader, queue: MessageQueue, offset: int, *more: Any) -> Any:
            pulled = await pull(reader, queue, offset, *more)
            return pulled._replace(messages=[one for one in pulled.messages if one.stored.queue_offset != 1])

        for number in (4, 6):
            self.send(number)
        self.cluster.pump(1.0)
        job, found = self.search(queueId=0)
        self.assertEqual(found, [0, 2, 4, 6])
        self.patch(ClusterQueueReader, "pull", some)
        self.assertEqual([(one["queueOffset"], one["missing"]) for one in self.lines(job)], [
            (0, False), (1, True), (2, False), (3, False),
        ])  # fmt: skip

    def test_export_queues(self) -> None:
        """Messages of several queues are there, each from its own, however their offsets follow each other."""
        rows = self.front.ops.jobs.get(self.search()[0]["id"]).rows
        wanted = [
            one
            for place in ((0, 0), (1, 1), (0, 1), (1, 0))
            for one in rows
            if place == (one.queue_id, one.queue_offset)
        ]

        async def work(job: RestJob) -> None:
            for one in wanted:
                job.add(one)

        job = self.front.ops.jobs.start("search", Principal("boss", frozenset({"admin"})), work)
        lines = self.lines({"id": job.id})
        self.assertEqual([one["offsetId"] for one in lines], [one.offset_id for one in wanted])
        self.assertEqual([one["missing"] for one in lines], [False] * 4)

    def test_export_refused(self) -> None:
        """There is nothing to be written of another job, of a search that runs still, or of none."""
        jobs = self.front.ops.jobs
        principal = Principal("boss", frozenset({"admin"}))

        async def work(job: RestJob) -> None:
            await Deferred()

        running, other = jobs.start("search", principal, work), jobs.start("dlq-resend", principal, work)
        for number, status, code in (
            (running.id, 409, "job-running"),
            (other.id, 409, "not-a-search"),
            ("0" * 16, 404, "job-not-found"),
        ):
            found, problem = self.order("GET", f"/jobs/{number}/export")
            self.assertEqual((found, problem["code"]), (status, code))

    def test_indexed(self) -> None:
        """By key, unique id and offset id brokers' indexes are asked; the other filters hold as well."""
        self.assertEqual(self.search(key="order-2")[1], [2])
        self.assertEqual(self.search(key="all", tag="odd")[1], [1, 3])
        self.assertEqual(self.search(uniqueKey=f"{UNIQUE[:-1]}1")[1], [1])
        self.assertEqual(self.search(offsetId=self.at(0, 1)["offsetId"])[1], [2])
        self.assertEqual(self.search(offsetId="F" * 32)[1], [])
        self.assertEqual(self.search(key="all", limit=2)[1], [0, 1])

    def test_scanned(self) -> None:
        """Without a key the topic is read, and what all filters let in is found."""
        job, found = self.search()
        self.assertEqual(found, [0, 1, 2, 3])
        self.assertEqual(job["result"], {"found": 4, "scanned": 4, "ended": "complete", "shortened": 0, "missing": []})
        self.assertEqual((job["done"], job["total"]), (4, 4))
        self.assertEqual(self.search(tag="odd")[1], [1, 3])
        self.assertEqual(self.search(tag="odd || even", body=": 3")[1], [3])
        self.assertEqual(self.search(property="region")[1], [0, 1, 2, 3])
        self.assertEqual(self.search(property="region", value="sou")[1], [2, 3])
        self.assertEqual(self.search(property="none")[1], [])
        self.assertEqual(self.search(value="north")[1], [0, 1])
        self.assertEqual(self.search(queueId=1)[1], [1, 3])
        self.assertEqual(self.search(broker="broker-a", queueId=0)[1], [0, 2])

    def test_time(self) -> None:
        """What was stored within a range of time is found, both its ends among it."""
        times = [self.at(number % 2, number // 2)["storedMs"] for number in range(4)]
        self.assertEqual(self.search(fromMs=times[1], untilMs=times[2])[1], [1, 2])
        self.assertEqual(self.search(fromMs=times[3])[1], [3])
        self.assertEqual(self.search(untilMs=times[0])[1], [0])
        self.assertEqual(self.search(fromMs=times[3] + 1)[1], [])

    def test_bounds(self) -> None:
        """A search ends after so many found, or read, and says so."""
        job, found = self.search(limit=1)
        self.assertEqual((found, job["result"]["ended"]), ([0], "found-enough"))
        job, found = self.search(scan=2)
        result = {"found": 2, "scanned": 2, "ended": "scanned-enough", "shortened": 0, "missing": []}
        self.assertEqual((found, job["result"]), ([0, 2], result))

    def test_refused(self) -> None:
        """A search for what is not there, or for two things at once, does not begin."""
        for order, status, code in (
            ({"topic": "Other"}, 404, "topic-not-found"),
            ({"topic": "Orders", "queueId": 9}, 404, "queue-not-found"),
            ({"topic": "Orders", "key": "a", "uniqueKey": "b"}, 400, "invalid-value"),
            ({"topic": "Orders", "fromMs": 2, "untilMs": 1}, 400, "invalid-value"),
            ({"topic": "Orders", "tag": "||"}, 400, "bad-request"),
            ({"topic": "Orders", "else": 1}, 400, "invalid-value"),
        ):
            found = self.order("POST", "/messages/search", order)
            self.assertEqual((found[0], found[1]["code"]), (status, code), order)

    def test_cancelled(self) -> None:
        """A search tells how far it is and can be cancelled; what was found until then stays."""
        remoting = self.front.ops.client.remoting
        held: list[Deferred[Command]] = []

        def ask(address: str, command: Command, *more: Any) -> Deferred[Command]:
            if command.code == RequestCode.PULL_MESSAGE and command.read(PullRequest).queue_id == 1:
                held.append(Deferred())
                return held[-1]
            return RemotingClient.ask(remoting, address, command, *more)

        self.patch(remoting, "ask", ask)
        _, job = self.order("POST", "/messages/search", {"topic": "Orders"})
        self.cluster.pump(1.0)
        job = self.get(f"/jobs/{job['id']}")
        self.assertEqual((job["state"], job["done"], job["total"], job["rows"]), ("running", 2, 4, 2))
        self.assertEqual(self.order("DELETE", f"/jobs/{job['id']}")[0], 204)
        job = self.get(f"/jobs/{job['id']}")
        self.assertEqual((job["state"], job["rows"]), ("cancelled", 2))

    def test_lane(self) -> None:
        """A search unpacks bodies in a thread of its own, one at a time, while others are answered."""
        for number in range(4, 8):
            self.send(number, body=zlib.compress(b"x" * 100_000), sys_flag=COMPRESSED)
        self.cluster.pump(1.0)
        threads = self.front.env.threads
        threads.held.add("inflate")
        _, job = self.order("POST", "/messages/search", {"topic": "Orders", "body": "xxx"})
        for done in range(4):
            self.cluster.pump(1.0)
            self.assertEqual(len(threads.waiting["inflate"]), 1)
            seen = self.get(f"/jobs/{job['id']}")
            self.assertEqual((seen["state"], seen["rows"]), ("running", done))
            threads.release("inflate")
        self.cluster.pump(1.0)
        seen = self.get(f"/jobs/{job['id']}")
        self.assertEqual((seen["state"], seen["rows"], seen["result"]["shortened"]), ("done", 4, 0))

    def test_bombs(self) -> None:
        """Of a short body that unpacks to a very long one the beginning is searched, and so many bytes a second."""
        packed = zlib.compress(b"A" * (4 * SEARCHED))
        for number in range(4, 6):
            self.send(number, body=packed, sys_flag=COMPRESSED)
        self.send(6, body=zlib.compress(b"A" * (SEARCHED - 3) + b"end"), sys_flag=COMPRESSED)
        self.cluster.pump(1.0)
        unpacked: list[int] = []

        def counted(*more: Any) -> Searched:
            found = search_in(*more)
            unpacked.append(found.unpacked)
            return found

        self.patch(inflating, "search_in", counted)
        _, job = self.order("POST", "/messages/search", {"topic": "Orders", "body": "end"})
        seconds = 3 * SEARCHED / PER_SECOND
        self.cluster.pump(seconds / 3, seconds / 6)
        self.assertEqual(self.get(f"/jobs/{job['id']}")["state"], "running")
        self.cluster.pump(seconds, seconds / 6)
        seen = self.get(f"/jobs/{job['id']}")
        self.assertEqual((seen["state"], seen["rows"], seen["result"]["shortened"]), ("done", 1, 2))
        self.assertEqual(len(unpacked), 3)
        self.assertLessEqual(max(unpacked), SEARCHED + 128 * 1024)

    def test_seams(self) -> None:
        """A text is found where two pieces of a body meet, with each method; nothing is found that is not there."""
        plain = b"A" * (128 * 1024 - 3) + b"needle" + b"B" * 300_000
        for flag, packed in (
            (ZLIB, zlib.compress(plain)),
            (LZ4, lz4.frame.compress(plain)),
            (ZSTD, zstandard.ZstdCompressor().compress(plain)),
        ):
            self.assertTrue(search_in(packed, COMPRESSED | flag, b"needle", len(plain)).holds, flag)
            self.assertEqual(search_in(packed, COMPRESSED | flag, b"thread", 1 << 30), (False, len(plain), True))
        self.assertEqual(search_in(b"no stream: needle", COMPRESSED, b"needle", 1 << 20), (True, 0, True))

    def test_exported_bombs(self) -> None:
        """A body that unpacks to more than any message has is exported as it is stored, with why."""
        packed = zlib.compress(b"A" * (SEARCHED + 1))
        self.send(4, body=packed, sys_flag=COMPRESSED)
        self.cluster.pump(1.0)
        job, _ = self.search(key="order-4")
        (line,) = self.lines(job)
        self.assertEqual((line["body"], base64.b64decode(line["bodyBase64"])), (None, packed))
        self.assertIn("exceeds the limit of 4194304 B", line["error"])
