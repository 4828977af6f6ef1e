"""Who gets in and who does not: one test at least for each rule of reliability X10 to X13."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.problems import Problem
from smartgo.ops.security.principals import ADMIN, LOCAL_READER, NOBODY, PUBLISH, READ, Principal
from smartgo.ops.security.requestguard import GuardSettings, RequestCredentials, RequestGuard
from smartgo.ops.security.sessions import SessionTable
from smartgo.ops.security.tokens import TokenTable
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment
from tests.ops.front import HOST, Answer, Front
from tests.ops.security.case import ORIGIN, TOPIC, SecurityCase


class OriginTests(SecurityCase):
    """X11: host and origin."""

    def asked(self, **headers: str) -> Answer:
        """Ask with other headers."""
        return self.front.ask("GET", "/topics", headers={name.replace("_", "-"): one for name, one in headers.items()})

    def test_host(self) -> None:
        """A foreign name that points at us gets 403 (DNS rebinding), on every path; our own names get in."""
        for host in (
            "evil.example",
            "evil.example:10913",
            "127.0.0.1:80",
            "localhost",
            f"{HOST}.evil.example",
            "[::1]:10913",
        ):
            answer = self.asked(Host=host)
            self.assertEqual((answer.status, answer.code), (403, "host-not-allowed"), host)
        self.assertEqual(self.front.ask("GET", "//docs", headers={"Host": "evil.example"}).status, 403)
        self.assertEqual(self.asked(Host="localhost:10913").status, 200)
        self.assertEqual(self.asked(Host="").status, 400)

    def test_two_hosts(self) -> None:
        """A request with two Host headers is refused, whichever they name: a proxy may have looked at the other."""
        for hosts in ((HOST, HOST), (HOST, "evil.example"), ("evil.example", HOST)):
            lines = "".join(f"Host: {one}\r\n" for one in hosts)
            answer = self.front.raw(f"GET /api/v1/topics HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
            self.assertEqual(answer.status, 400, hosts)

    def test_hosts(self) -> None:
        """Names of the settings get in, with any port or with theirs."""
        front = Front(self.front.cluster, port=10914, opsHosts="ops.example;console.example:8443", opsPath="/other")
        self.addCleanup(front.stop_api)
        for host, status in (("ops.example:1", 200), ("console.example:8443", 200), ("console.example", 403)):
            self.assertEqual(front.ask("GET", "/session", headers={"Host": host}).status, status, host)
        # Somebody on this machine has no need of such a name: a proxy passes it on.
        self.assertEqual(front.ask("GET", "/topics", headers={"Host": "ops.example:1"}).status, 401)

    def test_origin(self) -> None:
        """A request of another origin's page gets 403."""
        for origin in ("http://evil.example", "null", f"https://{HOST}", "http://127.0.0.1:1"):
            answer = self.asked(Origin=origin)
            self.assertEqual((answer.status, answer.code), (403, "origin-not-allowed"), origin)
        self.assertEqual(self.asked(Origin=ORIGIN).status, 200)

    def test_other_site(self) -> None:
        """What a browser calls cross-site changes nothing."""
        token = self.token("boss", ADMIN)
        answer = self.front.ask("POST", "/topics", TOPIC, {"Sec-Fetch-Site": "cross-site"}, token=token)
        self.assertEqual((answer.status, answer.code), (403, "origin-not-allowed"))

    def test_linked(self) -> None:
        """Another site's page can link to us, and can have nothing else: no image, frame or script of it asks."""
        for name in ("cross-site", "same-site"):
            for kind, status in (("document", 200), ("image", 403), ("iframe", 403), ("empty", 403)):
                answer = self.asked(Sec_Fetch_Site=name, Sec_Fetch_Dest=kind)
                self.assertEqual(answer.status, status, f"{name} {kind}")
        for name in ("same-origin", "none"):
            self.assertEqual(self.asked(Sec_Fetch_Site=name, Sec_Fetch_Dest="image").status, 200)

    def test_no_cors(self) -> None:
        """No page of another origin is told that it may read."""
        answer = self.front.ask(
            "OPTIONS", "/topics", headers={"Origin": ORIGIN, "Access-Control-Request-Method": "GET"}
        )
        self.assertEqual(answer.status, 405)
        self.assertEqual([name for name in answer.headers if name.startswith("access-control")], [])


class GuardTests(SynchronousTestCase):
    """The guard by itself, for peers that are not on this machine."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.tokens = TokenTable(self.env, TableFile(self.env, "/tokens.json"))
        self.sessions = SessionTable(self.env, self.tokens)

    def guard(self, **settings: Any) -> RequestGuard:
        """A guard with these settings."""
        return RequestGuard(self.env.clock.seconds, self.tokens, self.sessions, GuardSettings(**settings))

    def credentials(self, **more: Any) -> RequestCredentials:
        """A GET from 10.0.0.9."""
        headers = more.pop("headers", {})
        values: dict[str, Any] = {
            "changes": False,
            "header": {"Host": "10.0.0.1:10913", **headers}.get,
            "cookie": None,
            "peer": "10.0.0.9",
            "local": ("10.0.0.1", 10913),
            "secure": False,
        }
        return RequestCredentials(**{**values, **more})

    def test_far(self) -> None:
        """Without a token nobody from another machine gets in, not to read either (X10)."""
        guard = self.guard()
        principal = guard.principal(self.credentials())
        self.assertIs(principal, NOBODY)
        self.assertRaises(Problem, guard.check_scope, principal, READ)
        for peer in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "127.8.9.1"):
            near = self.credentials(peer=peer, headers={"Host": "localhost:10913"})
            self.assertIs(guard.principal(near), LOCAL_READER, peer)

    def test_forwarded(self) -> None:
        """X-Forwarded-For is believed of trusted proxies alone (X13)."""
        headers = {"X-Forwarded-For": "8.8.8.8, 127.0.0.1"}
        self.assertEqual(self.guard().address(self.credentials(headers=headers)), "10.0.0.9")
        guard = self.guard(trusted_proxies=("10.0.0.9", "127.0.0.1"))
        self.assertEqual(guard.address(self.credentials(headers=headers)), "8.8.8.8")
        self.assertEqual(guard.address(self.credentials(headers={"X-Forwarded-For": "nonsense"})), "10.0.0.9")
        self.assertEqual(guard.address(self.credentials()), "10.0.0.9")

    def test_forwarded_loopback(self) -> None:
        """Nobody becomes local by saying so: neither by a header, nor behind a proxy on this machine."""
        claims = {"X-Forwarded-For": "127.0.0.1"}
        self.assertIs(self.guard().principal(self.credentials(headers=claims)), NOBODY)
        for guard in self.guard(trusted_proxies=("127.0.0.1",)), self.guard():
            for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
                headers = {"Host": "127.0.0.1:10913", name: "8.8.8.8"}
                self.assertIs(guard.principal(self.credentials(peer="127.0.0.1", headers=headers)), NOBODY)

    def test_quiet_proxy(self) -> None:
        """A proxy on this machine that adds no header is known by HTTP/1.0, or by the name that it passes on."""
        guard = self.guard(hosts=("console.example",))
        for host in ("127.0.0.1:10913", "localhost:10913", "[::1]:10913", "127.0.0.1"):
            near = self.credentials(peer="127.0.0.1", headers={"Host": host})
            self.assertIs(guard.principal(near), LOCAL_READER, host)
            self.assertIs(guard.principal(near._replace(old=True)), NOBODY, host)
        for host in ("console.example", "10.0.0.1:10913", "", "127.0.0.1.example"):
            self.assertIs(guard.principal(self.credentials(peer="127.0.0.1", headers={"Host": host})), NOBODY, host)

    def test_failures_by_address(self) -> None:
        """Wrong tokens count by address, so that one who is wrong does not shut the others out."""
        self.tokens.create("boss", [ADMIN])
        guard = self.guard()
        wrong = self.credentials(headers={"Authorization": "Bearer x"})
        for _ in range(5):
            self.assertEqual(self.assertRaises(Problem, guard.principal, wrong).status, 401)
        self.assertEqual(self.assertRaises(Problem, guard.principal, wrong).status, 429)
        other = wrong._replace(peer="10.0.0.8")
        self.assertEqual(self.assertRaises(Problem, guard.principal, other).status, 401)

    def test_rate(self) -> None:
        """Requests beyond the rate of an address get 429 until time has passed."""
        guard = self.guard(per_second=2)
        for _ in range(10):
            guard.check_place(self.credentials())
        problem = self.assertRaises(Problem, guard.check_place, self.credentials())
        self.assertEqual((problem.status, problem.headers["Retry-After"]), (429, "1"))
        guard.check_place(self.credentials(peer="10.0.0.8"))
        self.env.clock.advance(0.5)
        guard.check_place(self.credentials())

    def test_networks(self) -> None:
        """An IPv6 network of 64 bits counts as one address, for requests and for being wrong; IPv4 ones do not."""
        self.tokens.create("boss", [ADMIN])
        guard = self.guard(per_second=2)
        wrong = {"Authorization": "Bearer x"}
        for number in range(10):
            guard.check_place(self.credentials(peer=f"2001:db8:1:2:{number:x}::1"))
        for number in range(5):
            credentials = self.credentials(peer=f"2001:db8:1:2:{number:x}::2%eth0", headers=wrong)
            self.assertEqual(self.assertRaises(Problem, guard.principal, credentials).status, 401)
        same, other = "2001:db8:1:2:ffff::", "2001:db8:1:3::"
        self.assertEqual(self.assertRaises(Problem, guard.check_place, self.credentials(peer=same)).status, 429)
        guard.check_place(self.credentials(peer=other))
        for peer, status in ((same, 429), (other, 401), ("::ffff:10.0.0.9", 401)):
            credentials = self.credentials(peer=peer, headers=wrong)
            self.assertEqual(self.assertRaises(Problem, guard.principal, credentials).status, status, peer)

    def test_certificate(self) -> None:
        """A client certificate that TLS verified is good for what the settings say, and for nothing by default."""
        shown_name = self.credentials(secure=True, certificate="ci")
        self.assertIs(self.guard().principal(shown_name), NOBODY)
        self.assertEqual(
            self.guard(certificate_scope=READ).principal(shown_name), Principal("certificate ci", frozenset({READ}))
        )
        self.assertTrue(self.guard(certificate_scope=ADMIN).principal(shown_name).may(PUBLISH))

    def test_https(self) -> None:
        """Over TLS the page's origin begins with https, and the port may be left out where it is 443."""
        guard = self.guard()
        host = {"Host": "10.0.0.1", "Origin": "https://10.0.0.1"}
        guard.check_place(self.credentials(secure=True, local=("10.0.0.1", 443), headers=host))
        plain = {"Host": "10.0.0.1", "Origin": "http://10.0.0.1"}
        credentials = self.credentials(secure=True, local=("10.0.0.1", 443), headers=plain)
        self.assertEqual(self.assertRaises(Problem, guard.check_place, credentials).code, "origin-not-allowed")
