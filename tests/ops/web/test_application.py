"""What every request meets: limits, problem bodies, headers, routing (reliability L22, B10, X12)."""

from __future__ import annotations

import gzip
from typing import Any, cast

from smartgo.ops.web import channel
from smartgo.ops.web.httpsession import FIRST_SECONDS
from smartgo.ops.web.request import split_target
from smartgo.ops.web.site import HttpLimits
from tests.ops.front import HOST, parsed
from tests.ops.web.case import FrontCase


class LimitTests(FrontCase):
    """Every limit of L22 has its answer."""

    def refused(self, data: bytes, status: int, seconds: float = 0.0) -> Any:
        """Send bytes that get a problem body; return it."""
        answer = self.front.raw(data, seconds)
        self.assertEqual(answer.status, status, answer.content)
        self.assertEqual(answer.headers["content-type"], "application/problem+json")
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        self.assertEqual(answer.json["status"], status)
        return answer

    def test_url(self) -> None:
        """A URL above 8 KiB gets 414, whether its line ends or not; one of 8 KiB does not."""
        self.refused(b"GET /%s HTTP/1.1\r\n" % (b"a" * 8200), 414)
        self.refused(b"GET /" + b"a" * 30_000, 414)
        answer = self.front.ask("GET", "//" + "a" * 8191)
        self.assertEqual(answer.status, 404)

    def test_headers(self) -> None:
        """More than 100 headers, or more than 16 KiB of them, get 431."""
        head = b"GET /api/v1/health HTTP/1.1\r\nHost: %s\r\n" % HOST.encode()
        self.refused(head + b"".join(b"X-%d: 1\r\n" % one for one in range(100)) + b"\r\n", 431)
        self.refused(head + b"X-Long: " + b"a" * 16_384 + b"\r\n\r\n", 431)
        self.refused(head + b"X-Long: " + b"a" * 60_000, 431)
        self.refused(head + b"".join(b"X-%d: %s\r\n" % (one, b"a" * 1000) for one in range(18)) + b"\r\n", 431)
        answer = self.front.raw(head + b"".join(b"X-%d: 1\r\n" % one for one in range(90)) + b"\r\n")
        self.assertEqual(answer.status, 200)

    def test_body(self) -> None:
        """A body above 64 KiB gets 413 before it is sent, whether its length is announced or not."""
        head = b"POST /api/v1/echo HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n" % HOST.encode()
        self.refused(head + b"Content-Length: 65537\r\n\r\n", 413)
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        self.refused(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 3, 413)
        self.assertEqual(self.front.ask("POST", "/echo", {"number": 1, "text": "a" * 60_000}).status, 200)

    def test_long_body(self) -> None:
        """A route for messages takes 4 MiB."""
        self.assertEqual(self.front.ask("POST", "/long", {"body": "a" * (4 << 20)}).status, 204)
        self.assertEqual(self.front.ask("POST", "/long", {"body": "a" * (5 << 20)}).status, 413)

    def test_bodies_at_once(self) -> None:
        """Long bodies that are not whole get 503 where all of them together are too long; short ones are taken."""
        self.patch(channel, "BODIES", 1 << 20)
        head = b"POST /api/v1/long HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n" % HOST.encode()
        head += b"Content-Length: %d\r\n\r\n" % (1 << 20)
        lines = [self.front.connect() for _ in range(3)]
        for line in lines:
            cast("Any", line.transport).write(head + b" " * 400_000)
        self.front.cluster.pump()
        self.assertEqual([bool(line.received) for line in lines], [False, False, True])
        self.assertEqual(parsed(lines[2].received).status, 503)
        self.assertEqual(self.front.ask("POST", "/echo", {"number": 1, "text": "a" * 60_000}).status, 200)
        self.assertEqual(self.front.ask("POST", "/long", {"body": "a" * 400_000}).status, 503)
        cast("Any", lines[0].transport).loseConnection()
        self.front.cluster.pump()
        self.assertEqual(self.front.ask("POST", "/long", {"body": "a" * 400_000}).status, 204)
        cast("Any", lines[1].transport).loseConnection()
        self.front.cluster.pump(3.0)
        self.assertEqual(self.front.ops.site.receiving, 0)

    def test_slow_request(self) -> None:
        """A request that is not whole after 30 s gets 408, however much of it there is."""
        for data in (
            b"G",
            b"GET /api/v1/health HTTP/1.1\r\n",
            b"POST /api/v1/echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
        ):
            line = self.front.connect()
            cast("Any", line.transport).write(b"GET /api/v1/health HTTP/1.1\r\nHost: %s\r\n\r\n" % HOST.encode())
            self.front.cluster.pump()
            line.received = b""
            cast("Any", line.transport).write(data)
            self.front.cluster.pump(29.0)
            self.assertEqual(line.received, b"")
            self.front.cluster.pump(2.0)
            self.assertEqual(parsed(line.received).status, 408, data)
            self.front.cluster.pump(3.0)
            self.assertTrue(line.closed)

    def test_slow_answer(self) -> None:
        """A resource that has no answer after 30 s is given up with 504."""
        answer = self.front.ask("GET", "/slow", seconds=31.0)
        self.assertEqual((answer.status, answer.code), (504, "gateway-timeout"))

    def test_at_once(self) -> None:
        """The 65th request at once gets 503, and the next one that is not one too many is served."""
        most = HttpLimits().requests
        lines = [self.front.connect() for _ in range(most)]
        for line in lines:
            cast("Any", line.transport).write(b"GET /api/v1/slow HTTP/1.1\r\nHost: %s\r\n\r\n" % HOST.encode())
        self.front.cluster.pump()
        self.assertEqual(len(self.slow.waiting), most)
        answer = self.front.ask("GET", "/session")
        self.assertEqual((answer.status, answer.headers["retry-after"]), (503, "1"))
        for probe in ("/health", "/ready", "/metrics", "//metrics", "//health", "//ready"):
            self.assertEqual(self.front.ask("GET", probe).status, 200, probe)
        self.slow.waiting.pop().callback({"a": 1})
        self.front.cluster.pump()
        self.assertEqual(self.front.ask("GET", "/session").status, 200)
        cast("Any", lines[0].transport).loseConnection()
        self.front.cluster.pump()
        self.assertEqual(self.front.ask("GET", "/session").status, 200)

    def test_idle_connections(self) -> None:
        """Idle connections keep out nobody: the one that was silent for longest gives way to the next."""
        lines = [self.front.connect() for _ in range(513)]
        self.front.cluster.pump()
        for probe in ("/health", "/ready", "/metrics", "/brokers"):
            self.assertEqual(self.front.ask("GET", probe).status, 200, probe)
        self.assertEqual([line.closed for line in lines[:-128]], [True] * (513 - 128))
        self.assertFalse(lines[-1].closed)
        self.assertLessEqual(len(self.front.ops.site.links), 128)

    def test_first_request(self) -> None:
        """A connection over which nothing comes is closed after 10 s, one whose first request has no end answered."""
        silent, begun, asked = (self.front.connect() for _ in range(3))
        cast("Any", begun.transport).write(b"GET /api/v1/health HTTP/1.1\r\nX: y\r\n")
        cast("Any", asked.transport).write(b"GET /api/v1/health HTTP/1.1\r\nHost: %s\r\n\r\n" % HOST.encode())
        self.front.cluster.pump(FIRST_SECONDS - 0.5)
        self.assertEqual((silent.closed, begun.received), (False, b""))
        self.front.cluster.pump(1.0)
        self.assertEqual((silent.closed, parsed(begun.received).status), (True, 408))
        self.front.cluster.pump(30.0)
        self.assertEqual((begun.closed, asked.closed), (True, False))
        self.front.cluster.pump(60.0)
        self.assertTrue(asked.closed)

    def test_garbage(self) -> None:
        """What is no HTTP gets 400, and the connection is closed."""
        for data in (
            b"\x16\x03\x01\x00\x00\r\n",
            b"GET\r\n\r\n",
            b"GET /api/v1/health HTTP/1.1\r\nno colon\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        ):
            self.refused(data, 400)

    def test_pipelined(self) -> None:
        """Two requests of one connection are answered in order."""
        one = b"GET /api/v1/health HTTP/1.1\r\nHost: %s\r\n\r\n" % HOST.encode()
        line = self.front.connect()
        cast("Any", line.transport).write(one + one)
        self.front.cluster.pump()
        self.assertEqual(line.received.count(b'{"status":"up"}'), 2)

    def test_idle(self) -> None:
        """A connection without another request is closed after a minute, without a word."""
        used = self.front.connect()
        cast("Any", used.transport).write(b"GET /api/v1/health HTTP/1.1\r\nHost: %s\r\n\r\n" % HOST.encode())
        self.front.cluster.pump(59.0)
        self.assertFalse(used.closed)
        self.front.cluster.pump(3.0)
        self.assertEqual((used.closed, used.received.count(b"HTTP/1.1")), (True, 1))


class AnswerTests(FrontCase):
    """What answers look like."""

    def test_slow_turn(self) -> None:
        """A request that holds the reactor up is counted by its route, each time that it does; its waits are not."""
        clock, slow = self.front.env.clock, self.front.cluster.sweeper.slow
        for seconds, counts in ((0.01, {}), (0.2, {"request GET /held/{name}": 1})):

            def hold(seconds: float = seconds) -> None:
                clock.rightNow += seconds

            self.slow.hold = hold
            line = self.front.connect()
            cast("Any", line.transport).write(f"GET /api/v1/held/a HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
            self.front.cluster.pump()
            self.assertEqual((len(self.slow.waiting), slow.counts), (1, counts))
            slow.counts.clear()
            clock.rightNow += 5.0
            self.slow.waiting.pop().callback({"a": 1})
            self.front.cluster.pump()
            self.assertEqual(parsed(line.received).json, {"a": 1})
            self.assertEqual(slow.counts, counts)
            slow.counts.clear()

    def test_headers(self) -> None:
        """Every answer has the headers of X12, errors too; none says what serves it."""
        for path, method in (("/health", "GET"), ("/nowhere", "GET"), ("/health", "DELETE"), ("//docs", "GET")):
            headers = self.front.ask(method, path).headers
            self.assertEqual(
                headers["content-security-policy"],
                "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
            )
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertEqual(headers["referrer-policy"], "no-referrer")
            self.assertNotIn("server", headers)
            self.assertNotIn("access-control-allow-origin", headers)
        self.assertEqual(self.front.ask("GET", "/health").headers["cache-control"], "no-store")

    def test_problem(self) -> None:
        """An error says type, title, status, detail, code, message and requestId, and nothing more."""
        answer = self.front.ask("GET", "/nowhere")
        self.assertEqual(answer.status, 404)
        self.assertEqual(set(answer.json), {"type", "title", "status", "detail", "code", "message", "requestId"})
        self.assertEqual(answer.json["requestId"], answer.headers["x-request-id"])

    def test_broken(self) -> None:
        """A mistake of ours is 500 with an id that the log has too, and nothing of its words."""
        answer = self.front.ask("GET", "/broken")
        self.assertEqual(answer.status, 500)
        self.assertNotIn(b"secret", answer.content)
        (logged,) = self.flushLoggedErrors(RuntimeError)
        self.assertIn("secret", str(logged.value))

    def test_method(self) -> None:
        """A method that a path does not have gets 405 and those that it has."""
        answer = self.front.ask("PATCH", "/topics")
        self.assertEqual((answer.status, answer.headers["allow"]), (405, "GET, HEAD, POST"))

    def test_no_redirect(self) -> None:
        """A path with slashes too many is another path."""
        for path in ("/health/", "//api//v1/health", "//api/v1//health"):
            self.assertEqual(self.front.ask("GET", path).status, 404, path)

    def test_paths(self) -> None:
        """Paths that are no UTF-8, or point out of a folder, are no paths of ours."""
        for path, status in (
            ("//api/v1/topics/%FF", 400),
            ("//api/v1/topics/%00", 400),
            ("//..%2f..%2fetc/passwd", 404),
            ("//docs/../health", 404),
            ("/topics/%25RETRY%25g", 404),
            ("/topics/" + "a" * 128, 400),
        ):
            self.assertEqual(self.front.ask("GET", path).status, status, path)

    def test_head(self) -> None:
        """HEAD gives the head of GET alone."""
        answer = self.front.ask("HEAD", "/health")
        self.assertEqual((answer.status, answer.content), (200, b""))
        self.assertEqual(answer.headers["content-length"], str(len(b'{"status":"up"}')))

    def test_left(self) -> None:
        """A change whose client has left is done to its end, and noted as what became of it; a look is given up."""
        line = self.front.connect()
        request = f"POST /api/v1/slow HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n\r\n"
        cast("Any", line.transport).write(request.encode())
        looking = self.front.connect()
        cast("Any", looking.transport).write(f"GET /api/v1/slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        self.front.cluster.pump()
        change, look = self.slow.waiting
        for one in (line, looking):
            cast("Any", one.transport).loseConnection()
        self.front.cluster.pump()
        self.assertEqual((change.called, look.called), (False, True))
        change.callback({"a": 1})
        self.assertEqual([one.status for one in self.front.ops.audit.entries()], [200])

    def test_stop(self) -> None:
        """A stop ends idle connections at once, waits for what is being served, and for no more than 2 s."""
        idle, served, stuck = (self.front.connect() for _ in range(3))
        for line in (served, stuck):
            cast("Any", line.transport).write(f"GET /api/v1/slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        self.front.cluster.pump()
        done = self.front.ops.site.stopService()
        self.front.cluster.pump()
        self.assertEqual((idle.closed, served.closed, stuck.closed), (True, False, False))
        self.slow.waiting[0].callback({"a": 1})
        self.front.cluster.pump()
        self.assertEqual((parsed(served.received).json, served.closed), ({"a": 1}, True))
        self.assertNoResult(done)
        self.front.cluster.pump(2.1)
        self.successResultOf(done)
        self.assertTrue(stuck.closed)

    def test_etag(self) -> None:
        """An answer that the client has already gets 304."""
        tag = self.front.ask("GET", "/health").headers["etag"]
        again = self.front.ask("GET", "/health", headers={"If-None-Match": f'"x", W/{tag}'})
        self.assertEqual((again.status, again.content), (304, b""))
        self.assertEqual(self.front.ask("GET", "/health", headers={"If-None-Match": '"x"'}).status, 200)

    def test_gzip(self) -> None:
        """Long answers are compressed for those who take it."""
        answer = self.front.ask("GET", "//openapi.json", headers={"Accept-Encoding": "gzip"})
        self.assertEqual(answer.headers["content-encoding"], "gzip")
        plain = self.front.ask("GET", "//openapi.json")
        self.assertEqual(gzip.decompress(answer.content), plain.content)
        short = self.front.ask("GET", "/health", headers={"Accept-Encoding": "gzip"})
        self.assertNotIn("content-encoding", short.headers)


class ReadingTests(FrontCase):
    """How requests are read (reliability B3, B4)."""

    def test_body(self) -> None:
        """Bodies that are no such JSON get 400, and say where they are wrong."""
        for body in (
            b"",
            b"{",
            b"[]",
            b'{"number": "1"}',
            b'{"number": 1.5}',
            b'{"number": NaN}',
            b'{"number": 1, "other": 2}',
            b'{"number": 1, "text": "\xff"}',
            b'{"number": 1, "text": "\\ud800"}',
            b'{"number": 1, "text": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        ):
            answer = self.front.ask("POST", "/echo", body)
            self.assertEqual((answer.status, answer.code), (400, "invalid-value"), body[:50])

    def test_deep(self) -> None:
        """Nesting without end is refused, not followed."""
        answer = self.front.ask("POST", "/topics", b"[" * 60_000, token=self.front.admin())
        self.assertEqual(answer.status, 400)

    def test_type(self) -> None:
        """A body of another type than JSON gets 415."""
        answer = self.front.ask("POST", "/echo", b"{}", headers={"Content-Type": "text/plain"})
        self.assertEqual(answer.status, 415)
        answer = self.front.ask(
            "POST", "/echo", b'{"number": 1}', headers={"Content-Type": "application/json; charset=utf-8"}
        )
        self.assertEqual(answer.status, 200)

    def test_header_bytes(self) -> None:
        """Headers that are no UTF-8 are wrong like any other, and no mistake of ours."""
        body = b'{"number": 1}'
        for name, status in (
            ("Authorization", 401),
            ("Content-Type", 415),
            ("Cookie", 200),
            ("Host", 403),
            ("Origin", 403),
            ("X-Forwarded-For", 200),
            ("X-CSRF-Token", 200),
            ("If-None-Match", 200),
            ("Accept-Encoding", 200),
        ):
            headers = {"Host": HOST, "Content-Type": "application/json", "Content-Length": str(len(body))}
            headers[name] = "\xff\xfe"
            lines = ["POST /api/v1/echo HTTP/1.1", *(f"{one}: {value}" for one, value in headers.items())]
            answer = self.front.raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            self.assertEqual(answer.status, status, name)

    def test_query(self) -> None:
        """Parameters that nobody knows, that are there twice, or are not allowed get 400."""
        for query in (
            "nobody=1",
            "limit=1&limit=2",
            "limit=x",
            "limit=1_0",
            "limit=201",
            "limit=0",
            "q=%FF",
            "offset=-1",
        ):
            self.assertEqual(self.front.ask("GET", f"/jobs?{query}").status, 400, query)
        self.assertEqual(self.front.ask("GET", "/health?a=1").status, 400)
        self.assertEqual(self.front.ask("GET", "/topics?kind=normal&kind=dead").status, 200)

    def test_cursor(self) -> None:
        """A cursor of another list, of another order, or made up gets 400."""
        for query in ("cursor=x", "cursor=MTp4", "sort=kind&cursor=MTpiZWd1bk1z", "sort=nothing"):
            answer = self.front.ask("GET", f"/jobs?{query}")
            self.assertEqual(answer.status, 400, query)


class TargetTests(FrontCase):
    """Which resource a request means."""

    def status(self, target: str, host: str = HOST, version: str = "1.1") -> int:
        """Ask for a target as it is; return the status."""
        head = f"GET {target} HTTP/{version}\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        return self.front.raw(head.encode()).status

    def test_slashes(self) -> None:
        """A path with more slashes is another path: a proxy's rules for paths are not passed by."""
        self.assertEqual(self.status("/api/v1/brokers"), 200)
        for target in ("//api/v1/brokers", "///api/v1/brokers", "/api//v1/brokers", "/api/v1/brokers/", "//metrics"):
            self.assertEqual(self.status(target), 404, target)
        for target in ("/api%2Fv1/brokers", "/api/v1%2fbrokers", "/%2fapi/v1/brokers", "/%2Fmetrics"):
            self.assertEqual(self.status(target), 404, target)

    def test_absolute(self) -> None:
        """A target may be absolute, as it is towards proxies; its host counts, and not the header's (RFC 9112)."""
        for target in (f"http://{HOST}/api/v1/brokers?limit=1", f"HTTP://{HOST}/metrics", f"http://{HOST}/"):
            self.assertEqual(self.status(target), 200, target)
            self.assertEqual(self.status(target, host="elsewhere.example"), 200, target)
        self.assertEqual(self.status("http://elsewhere.example/api/v1/brokers"), 403)
        self.assertEqual(self.status(f"http://{HOST}@elsewhere.example/api/v1/brokers"), 403)
        self.assertEqual(self.status(f"http://{HOST}//api/v1/brokers"), 404)
        self.assertEqual(self.status("ftp://elsewhere.example/api/v1/brokers"), 404)
        self.assertEqual(split_target(f"http://{HOST}?a=1".encode()), (HOST.encode(), b"/?a=1"))

    def test_old(self) -> None:
        """Who asks by HTTP/1.0 without a token may come through a proxy, and is not taken for local."""
        self.assertEqual(self.status("/api/v1/brokers", version="1.0"), 401)
        self.assertEqual(self.status("/api/v1/health", version="1.0"), 200)

    def test_null(self) -> None:
        """The word null is no value of a parameter that may be left out."""
        for place in ("/clients?role=null", "/jobs?state=null", "/jobs?state=NULL", "/history?beginMs=null"):
            answer = self.front.ask("GET", place)
            self.assertEqual((answer.status, answer.code), (400, "invalid-value"), place)
