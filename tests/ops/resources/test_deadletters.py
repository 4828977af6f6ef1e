"""Dead letters: listed, shown, taken out, mended and given out again."""

from __future__ import annotations

import json
from typing import Any, cast
from unittest import mock

from twisted.internet.defer import Deferred, fail

from smartgo.client.internal import reading
from smartgo.client.internal.deadletterjournal import JournalWriter
from smartgo.client.messages import Message
from smartgo.errors import NotConnected
from smartgo.ops.reading import deadletterreader
from smartgo.ops.reading import messagelines as exporting
from smartgo.ops.resources.send import Outbox, SentMessage
from smartgo.ops.web.streams import STUCK_SECONDS
from smartgo.remoting.client import RemotingClient
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendBackRequest
from tests.ops.front import HOST
from tests.ops.resources.test_messages import UNIQUE, MessageCase


class LetterCase(MessageCase):
    """Group audit has given all four messages of Orders back for good."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster.heartbeat("audit", "Orders")
        for number in range(4):
            self.give_back(number)

    def give_back(self, number: int, delay_level: int = -1) -> None:
        """Give a message back; the level is -1 for never again."""
        offset = self.at(number % 2, number // 2)["logOffset"]
        header = SendBackRequest(offset=offset, group="audit", delay_level=delay_level, origin_topic="Orders")
        answer = self.cluster.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
        self.assertEqual(answer.code, 0, answer.remark)
        self.cluster.pump(1.0)
        self.front.ops.view.forget()

    def letters(self, query: str = "") -> list[Any]:
        """The dead letters of the group."""
        return cast("list[Any]", self.get(f"/dlq/audit{query}")["items"])

    def job(self, path: str, body: Any) -> tuple[Any, list[Any]]:
        """Run a job to its end; return it and its rows."""
        status, job = self.order("POST", path, body)
        self.assertEqual(status, 202, job)
        self.cluster.pump(2.0)
        job = self.get(f"/jobs/{job['id']}")
        return job, self.get(f"/jobs/{job['id']}/rows")["items"]


class ListTests(LetterCase):
    """Looking at dead letters."""

    def test_groups(self) -> None:
        """Groups with dead letters are listed with how many there are, and from when to when."""
        row = self.get("/dlq")["items"][0]
        rows = self.letters("?sort=storedMs")
        expected = {
            "group": "audit",
            "topic": "%DLQ%audit",
            "brokers": ["broker-a"],
            "messages": 4,
            "open": 4,
            "inRetry": 0,
            "oldestMs": rows[0]["storedMs"],
            "newestMs": rows[-1]["storedMs"],
        }
        self.assertEqual(row, expected)
        for query, total in (
            ("?q=AUD", 1),
            ("?q=other", 0),
            ("?sort=-messages", 1),
            ("?sort=-open", 1),
            ("?sort=-newestMs&q=aud", 1),
        ):
            self.assertEqual(self.get(f"/dlq{query}")["total"], total, query)
        self.assertEqual(self.order("GET", "/dlq?sort=colour")[0], 400)

    def test_pages(self) -> None:
        """The newest come first, page by page; or the oldest."""
        first = self.get("/dlq/audit?limit=3")
        self.assertEqual([one["queueOffset"] for one in first["items"]], [3, 2, 1])
        self.assertEqual((first["total"], first["items"][0]["originTopic"]), (4, "Orders"))
        second = self.get(f"/dlq/audit?limit=3&cursor={first['next']}")
        self.assertEqual(([one["queueOffset"] for one in second["items"]], second["next"]), ([0], None))
        self.assertEqual([one["queueOffset"] for one in self.letters("?sort=storedMs&offset=2")], [2, 3])
        self.assertEqual(self.letters("?offset=9"), [])

    def test_none(self) -> None:
        """A group without dead letters is not found."""
        for method, path in (("GET", "/dlq/other"), ("GET", "/dlq/other/export"), ("POST", "/dlq/other/resend")):
            status, problem = self.order(method, path, {} if method == "POST" else None)
            self.assertEqual((status, problem["code"]), (404, "no-dead-letters"), path)


class ExportTests(LetterCase):
    """Taking them out."""

    def export(self, query: str = "") -> list[Any]:
        """The lines of an export."""
        answer = self.front.ask("GET", f"/dlq/audit/export{query}", token=self.token)
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "application/x-ndjson"))
        return [json.loads(line) for line in answer.content.splitlines()]

    def test_lines(self) -> None:
        """Each dead letter is one line of JSON with all that is known of it."""
        lines = self.export()
        self.assertEqual([line["body"] for line in lines], [f'{{"order": {number}}}' for number in range(4)])
        self.assertEqual((lines[0]["originTopic"], lines[0]["properties"]["region"]), ("Orders", "north"))
        self.assertEqual(len(self.export("?limit=2")), 2)
        self.assertEqual(len(self.export(f"?fromMs={lines[2]['storedMs']}")), 2)
        self.assertEqual(len(self.export(f"?untilMs={lines[0]['storedMs']}")), 1)

    def test_empty(self) -> None:
        """An export of nothing is empty."""
        self.assertEqual(self.export("?untilMs=1"), [])

    def test_bytes(self) -> None:
        """A body that is no text is written as base64."""
        self.send(4, body=b"\xff")
        self.cluster.pump(1.0)
        self.give_back(4)
        self.assertEqual((self.export()[4]["body"], self.export()[4]["bodyBase64"]), (None, "/w=="))

    def test_slow(self) -> None:
        """For a client that does not read nothing is read either; in the end it is cut."""
        line = self.front.connect()
        request = f"GET /api/v1/dlq/audit/export HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        begin_lines = self.front.ops.streams.begin_lines
        began: list[Any] = []

        def hold(request: Any, chunks: Any, owner: str) -> None:
            begin_lines(request, chunks, owner)
            began.extend(self.front.ops.streams._streams)
            began[0].pauseProducing()

        self.patch(self.front.ops.streams, "begin_lines", hold)
        cast("Any", line.transport).write(request.encode())
        self.cluster.pump(STUCK_SECONDS / 2)
        self.assertFalse(line.closed)
        self.cluster.pump(STUCK_SECONDS)
        self.assertTrue(line.closed)
        self.assertEqual(len(self.front.ops.streams), 0)

    def test_cut(self) -> None:
        """Where a broker stops to answer midway, the last line names it; where it does so at once, that is said."""
        self.patch(reading, "BATCH", 1)
        self.patch(exporting, "PIECE", 1)
        remoting = self.front.ops.client.remoting
        pulls = 0

        def ask(address: str, command: Command, *more: Any) -> Deferred[Command]:
            nonlocal pulls
            if command.code == RequestCode.PULL_MESSAGE:
                pulls += 1
                if pulls > 2:
                    return fail(NotConnected("nobody there"))
            return RemotingClient.ask(remoting, address, command, *more)

        self.patch(remoting, "ask", ask)
        line = self.front.connect()
        request = f"GET /api/v1/dlq/audit/export HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        cast("Any", line.transport).write(request.encode())
        self.cluster.pump(1.0)
        self.assertEqual(line.received.count(b'"bornMs"'), 2)
        self.assertIn(b'{"missing":[{"broker":"broker-a","reason":"nobody there"}]}\n', line.received)
        self.assertTrue(line.received.endswith(b"0\r\n\r\n"))
        answer = self.front.ask("GET", "/dlq/audit/export", token=self.token)
        self.assertEqual((answer.status, answer.json["detail"]), (502, "nobody there"))


class ResendTests(LetterCase):
    """Giving them out again."""

    def test_one(self) -> None:
        """A dead letter goes to its group alone, as if it were new, and says whose copy it is."""
        letter = self.letters("?sort=storedMs")[1]
        path = f"/dlq/audit/messages/{letter['offsetId']}/resend"
        status, row = self.order("POST", path, {"dryRun": True})
        self.assertEqual((status, row["topic"], row["sentId"], row["error"]), (200, "%RETRY%audit", None, None))
        status, row = self.order("POST", path, {})
        self.assertEqual((status, row["messageId"]), (200, f"{UNIQUE[:-1]}1"))
        self.cluster.pump(1.0)
        copy = self.get(f"/messages/{row['sentOffsetId']}")
        self.assertEqual((copy["topic"], copy["originTopic"], copy["reconsumeTimes"]), ("%RETRY%audit", "Orders", 0))
        self.assertEqual((copy["messageId"], copy["body"]["text"]), (row["messageId"], '{"order": 1}'))
        self.assertEqual(copy["properties"]["RESENT_FROM"], letter["offsetId"])
        self.assertEqual(copy["properties"]["ORIGIN_MESSAGE_ID"], self.at(1, 0)["offsetId"])
        self.assertEqual(len(self.letters()), 4)

    def test_mended(self) -> None:
        """Body, tag, keys and properties can be changed before; what is not named stays."""
        letter = self.letters("?sort=storedMs")[0]
        path = f"/dlq/audit/messages/{letter['messageId']}/resend"
        mend = {"text": "mended", "properties": {"region": "", "by": "hand"}}
        status, row = self.order("POST", path, {"to": "topic", "mend": mend})
        self.assertEqual((status, row["topic"]), (200, "Orders"), row)
        self.cluster.pump(1.0)
        copy = self.get(f"/messages/{row['sentOffsetId']}")
        self.assertEqual((copy["body"]["text"], copy["tag"], copy["keys"]), ("mended", "even", ["order-0", "all"]))
        self.assertEqual((copy["properties"].get("region"), copy["properties"]["by"]), (None, "hand"))
        self.assertNotEqual(copy["messageId"], letter["messageId"])
        for bad in (
            {"properties": {"UNIQ_KEY": "x"}},
            {"text": "a", "base64": "YQ=="},
            {"text": ""},
            {"keys": ["a b"]},
        ):
            self.assertEqual(self.order("POST", path, {"mend": bad})[0], 400, bad)

    def test_other(self) -> None:
        """What is no dead letter of the group is not sent."""
        path = f"/dlq/audit/messages/{self.at(0, 0)['offsetId']}/resend"
        self.assertEqual(self.order("POST", path, {})[1]["code"], "message-not-found")

    def test_many(self) -> None:
        """All that are meant are sent, and the job tells what became of each."""
        job, rows = self.job("/dlq/audit/resend", {"dryRun": True})
        expected = {
            "found": 4,
            "sent": 0,
            "failed": 0,
            "missing": [],
            "dryRun": True,
            "missingBrokers": [],
            "leftOut": [],
        }
        self.assertEqual((job["state"], job["result"]), ("done", expected))
        self.assertEqual({row["topic"] for row in rows}, {"%RETRY%audit"})
        job, rows = self.job("/dlq/audit/resend", {"key": "order-2"})
        self.assertEqual((job["result"]["sent"], [row["messageId"][-1] for row in rows]), (1, ["2"]))
        job, rows = self.job("/dlq/audit/resend", {"to": "topic", "limit": 3})
        self.assertEqual((job["result"]["sent"], {row["topic"] for row in rows}), (3, {"Orders"}))
        self.assertEqual(self.job("/dlq/audit/resend", {"body": ": 3"})[0]["result"]["found"], 0)  # it was sent before
        self.assertEqual(self.job("/dlq/audit/resend", {"body": ": 3", "again": True})[0]["result"]["found"], 1)
        self.assertEqual(self.get("/topics/%25RETRY%25audit")["amounts"]["messages"], 2)

    def test_older_copies(self) -> None:
        """
        Of two letters of one message the older is acknowledged once the later was sent: not where that is not reached,
        or cannot be sent.
        """
        self.give_back(0)
        older, later = (one["offsetId"] for one in self.letters("?sort=storedMs") if one["messageId"][-1] == "0")

        def opened() -> set[str]:
            return {one["offsetId"] for one in self.letters("?state=open")}

        result = self.job("/dlq/audit/resend", {"dryRun": True})[0]["result"]
        self.assertEqual((result["found"], result["leftOut"]), (4, [{"offsetId": older, "instead": later}]))
        result = self.job("/dlq/audit/resend", {"limit": 1})[0]["result"]
        self.assertEqual((result["sent"], result["leftOut"], {older, later} <= opened()), (1, [], True))

        async def refuse(outbox: Outbox, message: Message) -> SentMessage:
            raise NotConnected("nobody is there")

        with mock.patch.object(Outbox, "send", refuse):
            result = self.job("/dlq/audit/resend", {})[0]["result"]
        self.assertEqual((result["failed"], result["leftOut"], {older, later} <= opened()), (3, [], True))

        async def decline(journal: JournalWriter, *args: object, **more: object) -> None:
            raise NotConnected("nobody is there")

        with mock.patch.object(JournalWriter, "acknowledged", decline):
            job, rows = self.job("/dlq/audit/resend", {"ids": [older, later]})
        self.assertEqual((job["state"], job["result"]["sent"], job["result"]["failed"]), ("done", 1, 1))
        self.assertIn(f"it was sent, but the older dead letter {older} could not be acknowledged", rows[0]["error"])
        result = self.job("/dlq/audit/resend", {"again": True})[0]["result"]
        self.assertEqual((result["sent"], result["leftOut"]), (4, [{"offsetId": older, "instead": later}]))
        self.assertEqual(opened(), set())

    def test_copies_among_many(self) -> None:
        """Copies are looked for among so many dead letters, in a thread; those beyond are sent each for itself."""
        self.give_back(0)
        threads = self.front.env.threads
        threads.held.add("dead-letters")
        _, job = self.order("POST", "/dlq/audit/resend", {"dryRun": True})
        self.cluster.pump(2.0)
        self.assertEqual(self.get(f"/jobs/{job['id']}")["state"], "running")
        threads.held.clear()
        threads.release("dead-letters")
        self.cluster.pump(2.0)
        result = self.get(f"/jobs/{job['id']}")["result"]
        self.assertEqual((result["found"], len(result["leftOut"])), (4, 1))
        self.patch(deadletterreader, "COMPARED", 4)
        result = self.job("/dlq/audit/resend", {"dryRun": True})[0]["result"]
        self.assertEqual((result["found"], result["leftOut"]), (5, []))

    def test_named(self) -> None:
        """Those that are named are sent, each once, and those that are not there are told."""
        first, second, *_ = self.letters()
        ids = [first["offsetId"], second["messageId"], first["offsetId"], "nothing"]
        job, rows = self.job("/dlq/audit/resend", {"ids": ids})
        self.assertEqual((job["result"]["sent"], job["result"]["missing"]), (2, ["nothing"]))
        self.assertEqual([row["offsetId"] for row in rows], [first["offsetId"], second["offsetId"]])

    def test_failed(self) -> None:
        """One that cannot be sent does not keep the others, and its row says why."""
        self.send(4, body=b"no zlib", sys_flag=1)
        self.cluster.pump(1.0)
        self.give_back(4)
        job, rows = self.job("/dlq/audit/resend", {})
        self.assertEqual((job["result"]["sent"], job["result"]["failed"]), (4, 1))
        self.assertIn("decompressed", rows[4]["error"])
        path = f"/dlq/audit/messages/{rows[4]['offsetId']}/resend"
        self.assertEqual(self.order("POST", path, {})[1]["code"], "body-unreadable")
        self.assertEqual(self.order("POST", path, {"mend": {"text": "mended"}})[0], 200)
