"""Bytes of headers that nobody sends on purpose (reliability F25)."""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from tests.ops.front import HOST, Front, parsed

KNOWN: Final = (
    b"Accept", b"Accept-Encoding", b"Authorization", b"Connection", b"Content-Length", b"Content-Type", b"Cookie",
    b"Expect", b"Host", b"If-None-Match", b"Origin", b"Sec-Fetch-Dest", b"Sec-Fetch-Site", b"Transfer-Encoding",
    b"Upgrade", b"X-CSRF-Token", b"X-Forwarded-For",
)  # fmt: skip
WORDS: Final = (
    b"", b"*", b"Bearer ", b"Bearer \xff", b"Basic Og==", b"gzip;q=nan", b"gzip;q=0,*", b"smartgo_session=", b"=;;=",
    b'W/"', b"chunked", b"-1", b"99999999999999999999", b"application/json", b"[::1", b"127.0.0.1:x", b"100-continue",
    b"cross-site", b"\xe4\xb8\xad", b"null",
)  # fmt: skip
PATHS: Final = (b"/", b"/api/v1/topics", b"/api/v1/session", b"/openapi.json", b"/%ff", b"/api/v1/kv/a%2fb", b"//x")

raw: Final = st.binary(max_size=40).map(lambda some: some.replace(b"\r", b"").replace(b"\n", b""))
names: Final = st.one_of(st.sampled_from(KNOWN), raw)
values: Final = st.one_of(st.sampled_from(WORDS), raw)
headers: Final = st.lists(st.tuples(names, values), max_size=6)
lines: Final = st.tuples(
    st.sampled_from((b"GET", b"POST", b"DELETE", b"HEAD", b"PROPFIND")),
    st.one_of(st.sampled_from(PATHS), raw),
    st.sampled_from((b"HTTP/1.1", b"HTTP/1.0", b"HTTP/9.9", b"")),
)


class HeaderTests(SynchronousTestCase):
    """Requests of any bytes."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)
        self.token = self.front.admin()

    @settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(line=lines, more=headers, known=st.booleans())
    def check(self, line: tuple[bytes, bytes, bytes], more: list[tuple[bytes, bytes]], known: bool) -> None:
        """Ask, and look at what comes: an answer that is no fault of ours, or the end of the connection."""
        rows = [b" ".join(line), *(b"%s: %s" % one for one in more)]
        if known:
            rows += [b"Host: " + HOST.encode(), b"Authorization: Bearer " + self.token.encode()]
        connection = self.front.connect()
        transport = connection.transport
        assert transport is not None
        transport.write(b"\r\n".join(rows) + b"\r\n\r\n")
        self.front.cluster.pump(0.1)
        self.front.cluster.pump(31.0)  # one that waits for more of it is given up
        if connection.received:
            self.assertLess(parsed(connection.received).status, 500, rows)
        transport.loseConnection()
        self.front.cluster.pump()

    def test_any_bytes(self) -> None:
        """Whatever bytes stand in a request's line and headers, there is no 5xx, and nothing for the log."""
        self.check()
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(self.front.ask("GET", "/topics", token=self.token).status, 200)
