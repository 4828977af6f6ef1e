"""Who gets in and who does not: one test at least for each rule of reliability X10 to X13."""

from __future__ import annotations

import errno
import hashlib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.settings import OpsConfig
from smartgo.errors import SettingError
from smartgo.ops.security.audit import COMMON, COMMON_SECONDS, KEPT, SIZE, AuditEntry, AuditLog, shown
from smartgo.ops.security.principals import ADMIN, LOCAL_READER, NOBODY, PUBLISH, READ, Principal
from smartgo.ops.security.rates import Allowance
from smartgo.ops.security.requestguard import GuardSettings, RequestCredentials, RequestGuard
from smartgo.ops.security.sessions import SESSION_SECONDS, SessionTable
from smartgo.ops.security.tokens import MOST, TokenTable, parse_configured
from smartgo.ops.service import check_place
from smartgo.ops.web.problems import Problem
from smartgo.ops.web.routes import route
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment
from tests.ops.front import HOST, Answer, Front

ORIGIN = f"http://{HOST}"
TOPIC = {"name": "Orders"}


class SecurityCase(SynchronousTestCase):
    """A front, and logins."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)

    def token(self, name: str, *scopes: str) -> str:
        """Make a token."""
        secret = self.front.ops.tokens.create(name, scopes)[1]
        self.front.cluster.pump()
        return secret

    def login(self, secret: str) -> tuple[str, str]:
        """Log in by a token; return the cookie and the CSRF token."""
        answer = self.front.ask("POST", "/session", {"token": secret})
        self.assertEqual(answer.status, 200, answer.content)
        return answer.headers["set-cookie"].split(";")[0], answer.json["csrfToken"]


class TokenTests(SecurityCase):
    """X10: bearer tokens."""

    def test_without(self) -> None:
        """While no token is configured anybody on this machine may read, and nobody may change anything."""
        self.assertEqual(self.front.ask("GET", "/topics").status, 200)
        for method, path, body in (
            ("POST", "/topics", TOPIC),
            ("PUT", "/topics/Orders", {}),
            ("DELETE", "/topics/Orders", None),
            ("POST", "/tokens", {"name": "a", "scopes": ["admin"]}),
            ("GET", "/config", None),
            ("GET", "/audit", None),
        ):
            answer = self.front.ask(method, path, body)
            self.assertEqual((answer.status, answer.code), (401, "login-needed"), path)
            self.assertIn("Bearer", answer.headers["www-authenticate"])

    def test_with(self) -> None:
        """Once there is a token nobody gets in without, on this machine neither."""
        boss = self.token("boss", ADMIN)
        self.assertEqual(self.front.ask("GET", "/topics").status, 401)
        self.assertEqual(self.front.ask("GET", "/topics", token=boss).status, 200)
        self.assertEqual(self.front.ask("GET", "/health").status, 200)

    def test_scopes(self) -> None:
        """A token is good for its scopes alone; admin holds the others."""
        boss, reader, sender = self.token("boss", ADMIN), self.token("reader", READ), self.token("sender", PUBLISH)
        for secret, got in ((boss, 200), (reader, 200), (sender, 403)):
            self.assertEqual(self.front.ask("GET", "/topics", token=secret).status, got)
        self.assertEqual(self.front.ask("POST", "/topics", TOPIC, token=reader).code, "scope-missing")
        self.assertEqual(self.front.ask("POST", "/topics", TOPIC, token=boss).status, 201)

    def test_wrong(self) -> None:
        """What is no token gets 401, whatever is wrong with it, also where none would be needed."""
        secret = self.token("boss", ADMIN)
        for header in ("Bearer x", f"Bearer {secret}x", f"Basic {secret}", "Bearer"):
            front = self.front.ask("GET", "/topics", headers={"Authorization": header})
            self.assertEqual((front.status, front.code), (401, "bad-token"), header)

    def test_failures(self) -> None:
        """After five wrong tokens in a minute an address gets 429 for the next; the right one is let in."""
        secret = self.token("boss", ADMIN)
        for _ in range(5):
            self.assertEqual(self.front.ask("GET", "/topics", token="wrong").status, 401)
        answer = self.front.ask("GET", "/topics", token="wrong")
        self.assertEqual(answer.status, 429)
        self.assertEqual(answer.headers["retry-after"], "12")
        self.assertEqual(self.front.ask("GET", "/topics", token=secret).status, 200)
        self.assertEqual(self.front.ask("POST", "/session", {"token": "wrong"}).status, 429)
        self.assertEqual(self.front.ask("POST", "/session", {"token": secret}).status, 200)
        self.front.cluster.pump(13.0)
        self.assertEqual(self.front.ask("GET", "/topics", token="wrong").status, 401)

    def test_crowd(self) -> None:
        """Whoever asks too often shuts out of his address nobody who shows a token, or has a session."""
        secret = self.token("boss", ADMIN)
        cookie = self.front.ask("POST", "/session", {"token": secret}).headers["set-cookie"].partition(";")[0]
        guard = self.front.ops._guard
        self.patch(guard, "_requests", Allowance(self.front.env.clock.seconds, 1.0, 2.0))
        statuses = [self.front.ask("GET", "/health").status for _ in range(3)]
        self.assertEqual(statuses, [200, 200, 429])
        self.assertEqual(self.front.ask("GET", "/metrics", token=secret).status, 200)
        self.assertEqual(self.front.ask("GET", "/topics", headers={"Cookie": cookie}).status, 200)
        self.assertEqual(self.front.ask("GET", "/topics", token="wrong").status, 429)

    def test_kept(self) -> None:
        """What is kept of a token is its hash, in a file for us alone; it has 256 bits of chance."""
        secret = self.token("boss", ADMIN)
        self.front.cluster.pump()
        content = bytes(self.front.env.files.files["/store/ops/tokens.json"].data)
        self.assertIn(hashlib.sha256(secret.encode()).hexdigest().encode(), content)
        self.assertNotIn(secret.encode(), content)
        self.assertGreaterEqual(len(secret), 43)

    def test_again(self) -> None:
        """Tokens are there again after a restart."""
        secret = self.token("boss", ADMIN)
        table = TokenTable(self.front.env, TableFile(self.front.env, "/store/ops/tokens.json"))
        table.load()
        found = table.find(secret)
        assert found is not None
        self.assertEqual(found.name, "boss")

    def test_end(self) -> None:
        """A token can end by time, and by hand."""
        boss = self.token("boss", ADMIN)
        made = self.front.ask("POST", "/tokens", {"name": "ci", "scopes": ["read"], "seconds": 60}, token=boss)
        self.assertEqual(made.status, 201)
        secret = made.json["token"]
        self.assertEqual(self.front.ask("GET", "/topics", token=secret).status, 200)
        self.front.cluster.pump(61.0, 5.0)
        self.assertEqual(self.front.ask("GET", "/topics", token=secret).status, 401)
        self.assertEqual(self.front.ask("DELETE", "/tokens/ci", token=boss).status, 204)
        self.assertEqual(self.front.ask("DELETE", "/tokens/ci", token=boss).status, 404)

    def test_list(self) -> None:
        """The list of tokens holds no token and no hash."""
        boss = self.token("boss", ADMIN)
        answer = self.front.ask("GET", "/tokens", token=boss)
        self.assertEqual(answer.json["items"][0]["name"], "boss")
        self.assertNotIn(boss.encode(), answer.content)
        self.assertNotIn(b"hash", answer.content)

    def test_first(self) -> None:
        """The first token is one for admin, or nobody could ever make another."""
        self.assertRaises(Problem, self.front.ops.tokens.create, "reader", [READ])

    def test_unsaved(self) -> None:
        """A token that cannot be saved is none: where it is the first, it keeps nobody out."""
        code = self.front.ops.sessions.new_code()
        answer = self.front.ask("POST", "/session", {"code": code})
        headers = {"Cookie": answer.headers["set-cookie"].split(";")[0], "X-CSRF-Token": answer.json["csrfToken"]}
        self.front.env.files.fail["/store/ops/tokens.json"] = errno.ENOSPC
        boss = {"name": "boss", "scopes": [ADMIN]}
        answer = self.front.ask("POST", "/tokens", boss, headers)
        self.assertEqual((answer.status, answer.code), (507, "not-kept"))
        self.assertEqual(answer.json["title"], "Insufficient Storage")
        self.assertIn("nothing was changed: tokens.json could not be written: fault", answer.json["detail"])
        self.assertEqual(self.front.ask("GET", "/topics").status, 200)
        self.front.env.files.fail.clear()
        self.assertEqual(self.front.ask("POST", "/tokens", boss, headers).status, 201)

    def test_unforgotten(self) -> None:
        """A token that the file still has after it was to be deleted holds on: a restart would bring it back."""
        boss = self.front.admin()
        eyes = self.front.ops.tokens.create("eyes", [READ])[1]
        self.front.cluster.pump()
        self.front.env.files.fail["/store/ops/tokens.json"] = errno.ENOSPC
        self.assertEqual(self.front.ask("DELETE", "/tokens/eyes", token=boss).status, 507)
        self.assertEqual(self.front.ask("GET", "/topics", token=eyes).status, 200)
        self.front.env.files.fail.clear()
        self.assertEqual(self.front.ask("DELETE", "/tokens/eyes", token=boss).status, 204)
        self.assertEqual(self.front.ask("GET", "/topics", token=eyes).status, 401)

    def test_limit(self) -> None:
        """No more than so many tokens are kept, and no two of one name."""
        for number in range(MOST):
            self.front.ops.tokens.create(f"t{number}", [ADMIN])
        self.assertRaises(Problem, self.front.ops.tokens.create, "more", [ADMIN])
        self.assertRaises(Problem, self.front.ops.tokens.create, "t0", [ADMIN])

    def test_names(self) -> None:
        """No token has a name that the audit log has for those who come without: nobody passes for nobody."""
        for name in ("anonymous", "login-link", "remoting"):
            self.assertEqual(self.assertRaises(Problem, self.front.ops.tokens.create, name, [ADMIN]).status, 400)
            entry = f"{name}:read:{hashlib.sha256(b'word').hexdigest()}"
            self.assertIn(name, str(self.assertRaises(SettingError, parse_configured, [entry])))

    def test_configured(self) -> None:
        """A token of the settings counts, and can be removed there alone."""
        digest = hashlib.sha256(b"word").hexdigest()
        (one,) = parse_configured([f"ci:read+publish:{digest}"])
        self.assertEqual((one.name, one.scopes, one.configured), ("ci", ("read", "publish"), True))
        env = FakeEnvironment()
        table = TokenTable(env, TableFile(env, "/tokens.json"), [one])
        self.assertEqual(table.find("word"), one)
        self.assertRaises(Problem, table.delete, "ci")
        for entry in ("ci", "ci:read", f"ci:all:{digest}", f"ci::{digest}", f"c i:read:{digest}", "ci:read:abc"):
            error = self.assertRaises(SettingError, parse_configured, [entry])
            self.assertNotIn(digest, str(error))

    def test_place(self) -> None:
        """The API is not served to a network without a token, nor without TLS unless that is allowed."""
        config = OpsConfig()
        check_place("127.0.0.1", False, False, config)
        check_place("::1", False, False, config)
        self.assertRaises(SettingError, check_place, "0.0.0.0", False, True, config)
        self.assertRaises(SettingError, check_place, "10.0.0.1", True, False, config)
        check_place("10.0.0.1", True, True, config)
        check_place("10.0.0.1", True, False, OpsConfig(ops_allow_insecure=True))


class SessionTests(SecurityCase):
    """X11: logins of people."""

    def test_cookie(self) -> None:
        """The cookie is HttpOnly and SameSite=Strict, and holds for eight hours."""
        answer = self.front.ask("POST", "/session", {"token": self.token("boss", ADMIN)})
        cookie = answer.headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"):
            self.assertIn(part, cookie)
        self.assertNotIn("Secure", cookie)

    def test_csrf(self) -> None:
        """A session changes nothing without its CSRF token; it reads without."""
        cookie, csrf = self.login(self.token("boss", ADMIN))
        self.assertEqual(self.front.ask("GET", "/topics", headers={"Cookie": cookie}).status, 200)
        for value in ("", "wrong", csrf + "x"):
            answer = self.front.ask("POST", "/topics", TOPIC, headers={"Cookie": cookie, "X-CSRF-Token": value})
            self.assertEqual((answer.status, answer.code), (403, "csrf"))
        right = {"Cookie": cookie, "X-CSRF-Token": csrf}
        self.assertEqual(self.front.ask("POST", "/topics", TOPIC, headers=right).status, 201)

    def test_type(self) -> None:
        """A form of another page, which cannot send JSON, gets nowhere."""
        cookie, csrf = self.login(self.token("boss", ADMIN))
        headers = {
            "Cookie": cookie,
            "X-CSRF-Token": csrf,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        self.assertEqual(self.front.ask("POST", "/topics", b"name=Orders", headers=headers).status, 415)

    def test_get_changes_nothing(self) -> None:
        """No GET is written to the audit log, as none changes anything."""
        for one in self.front.ops.api.routes:
            self.assertEqual(one.audit, one.method != "GET", one.path)
        self.assertRaises(ValueError, route, "GET", "/change", scope=None, body=dict)
        self.assertRaises(ValueError, route, "GET", "/change", scope=None, audit=True)

    def test_show(self) -> None:
        """A session is told who it is, and its CSRF token again."""
        cookie, csrf = self.login(self.token("boss", ADMIN))
        shown_session = self.front.ask("GET", "/session", headers={"Cookie": cookie}).json
        self.assertEqual((shown_session["name"], shown_session["scopes"]), ("boss", ["admin"]))
        self.assertEqual(shown_session["csrfToken"], csrf)
        nobody = self.front.ask("GET", "/session").json
        self.assertEqual((nobody["scopes"], nobody["loginNeeded"]), ([], True))

    def test_end(self) -> None:
        """A session ends by hand, by time, and with its token."""
        boss = self.token("boss", ADMIN)
        cookie, csrf = self.login(boss)
        left = self.front.ask("DELETE", "/session", headers={"Cookie": cookie, "X-CSRF-Token": csrf})
        self.assertEqual(left.status, 204)
        self.assertIn("Max-Age=0", left.headers["set-cookie"])
        self.assertEqual(self.front.ask("GET", "/topics", headers={"Cookie": cookie}).status, 401)
        cookie, _ = self.login(boss)
        self.front.env.clock.advance(SESSION_SECONDS + 1)
        self.assertEqual(self.front.ask("GET", "/topics", headers={"Cookie": cookie}).status, 401)
        other = self.token("other", READ)
        cookie, _ = self.login(other)
        self.front.ops.tokens.delete("other")
        self.assertEqual(self.front.ask("GET", "/topics", headers={"Cookie": cookie}).status, 401)

    def test_fixation(self) -> None:
        """A login gives a new session, and ends the one that came with it."""
        boss = self.token("boss", ADMIN)
        old, csrf = self.login(boss)
        headers = {"Cookie": old, "X-CSRF-Token": csrf}
        answer = self.front.ask("POST", "/session", {"token": boss}, headers=headers)
        self.assertNotIn(old, answer.headers["set-cookie"])
        self.assertEqual(self.front.ask("GET", "/topics", headers={"Cookie": old}).status, 401)

    def test_link(self) -> None:
        """A login link is good once, within an hour, for admin; its word stands behind the #, which is never sent."""
        url = self.front.ops.login_url()
        page, _, code = url.partition("#login=")
        self.assertEqual(page, f"{ORIGIN}/")
        answer = self.front.ask("POST", "/session", {"code": code})
        self.assertEqual((answer.status, answer.json["scopes"]), (200, ["admin"]))
        self.assertEqual(self.front.ask("POST", "/session", {"code": code}).status, 401)
        late = self.front.ops.sessions.new_code()
        self.front.env.clock.advance(3601)
        self.assertEqual(self.front.ask("POST", "/session", {"code": late}).status, 401)

    def test_wrong(self) -> None:
        """A wrong login gets 401, one that gives nothing or both 400; wrong ones count as wrong tokens."""
        for body, status in (
            ({}, 400),
            ({"token": "a", "code": "b"}, 400),
            ({"token": "a"}, 401),
            ({"code": "b"}, 401),
        ):
            self.assertEqual(self.front.ask("POST", "/session", body).status, status)
        for _ in range(3):
            self.front.ask("POST", "/session", {"code": "x"})
        self.assertEqual(self.front.ask("POST", "/session", {"code": "x"}).status, 429)

    def test_bounded(self) -> None:
        """There are no more than so many sessions."""
        table = SessionTable(self.front.env, self.front.ops.tokens)
        for _ in range(1000):
            table.begin(None)
        self.assertRaises(Problem, table.begin, None)
        self.front.env.clock.advance(SESSION_SECONDS + 1)
        table.begin(None)
        self.assertEqual(len(table), 1)


class PlaceTests(SecurityCase):
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


class GateTests(SynchronousTestCase):
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

    def test_bounded(self) -> None:
        """Addresses are forgotten, the longest unseen first, so that memory does not grow."""
        allowance = Allowance(self.env.clock.seconds, 1.0, 1.0)
        for number in range(5000):
            allowance.take(str(number))
        self.assertEqual(allowance.wait("0"), 0)
        self.assertGreater(allowance.wait("4999"), 0)


class AuditTests(SecurityCase):
    """What was changed, by whom, from where, and with what result."""

    def test_entries(self) -> None:
        """Each change is noted, done or not, with who asked; looking is not."""
        boss, reader = self.token("boss", ADMIN), self.token("reader", READ)
        self.front.ask("POST", "/topics", TOPIC, token=boss)
        self.front.ask("DELETE", "/topics/Nothing", token=boss)
        self.front.ask("POST", "/topics", TOPIC, token=reader)
        self.front.ask("GET", "/topics", token=boss)
        items = self.front.get("/audit", token=boss)["items"]
        self.assertEqual(
            [(one["who"], one["action"], one["status"], one["error"]) for one in items],
            [
                ("reader", "POST /topics", 403, "scope-missing"),
                ("boss", "DELETE /topics/{name}", 404, "topic-not-found"),
                ("boss", "POST /topics", 200 + 1, ""),
            ],
        )
        self.assertEqual(items[1]["subject"], {"name": "Nothing"})
        self.assertEqual((items[2]["address"], items[2]["detail"]["body"]["name"]), ("127.0.0.1", "Orders"))
        self.assertEqual(self.front.get("/audit?failed=false", token=boss)["total"], 1)

    def test_sorted(self) -> None:
        """Entries are sorted by time, by who it was, and by status: by what the console has at the heads of columns."""
        boss, reader = self.token("boss", ADMIN), self.token("reader", READ)
        self.front.ask("POST", "/topics", TOPIC, token=reader)
        self.front.ask("POST", "/topics", TOPIC, token=boss)
        for sort, wanted in (
            ("atMs", ["reader", "boss"]),
            ("who", ["boss", "reader"]),
            ("-status", ["reader", "boss"]),
        ):
            items = self.front.get(f"/audit?sort={sort}", token=boss)["items"]
            self.assertEqual([one["who"] for one in items], wanted, sort)

    def test_flood(self) -> None:
        """Whoever may do nothing cannot push out what was done; how many entries are missing is told."""
        boss, reader = self.token("boss", ADMIN), self.token("reader", READ)
        for token in ("", reader):
            for _ in range(COMMON + 5):
                self.front.ask("DELETE", "/topics/Nothing", token=token)
        self.front.ask("DELETE", "/topics/Nothing", token=boss)
        self.assertEqual(self.front.get("/audit", token=boss)["total"], 2 * COMMON + 1)
        self.front.env.clock.advance(COMMON_SECONDS)
        self.front.ask("DELETE", "/topics/Nothing")
        self.front.ask("DELETE", "/topics/Nothing", token=reader)
        items = self.front.get("/audit?limit=200", token=boss)["items"]
        self.assertEqual(
            [(one["who"], one["detail"]) for one in items[:2]], [("reader", {}), ("anonymous", {"leftOut": 5})]
        )
        self.assertEqual(sum(one["detail"].get("leftOut", 0) for one in items), 10)

    def test_before(self) -> None:
        """What was there before stands beside what came after (X7)."""
        boss = self.token("boss", ADMIN)
        self.front.ask("PUT", "/kv/N/k", {"value": "old"}, token=boss)
        self.front.ask("PUT", "/kv/N/k", {"value": "new"}, token=boss)
        newest = self.front.get("/audit", token=boss)["items"][0]
        self.assertEqual((newest["detail"]["before"], newest["detail"]["body"]["value"]), ("old", "new"))

    def test_secrets(self) -> None:
        """No token, code or password stands there."""
        boss = self.token("boss", ADMIN)
        self.front.ask("POST", "/session", {"token": boss})
        self.front.ask("POST", "/session", {"code": "hidden-word"})
        self.front.cluster.pump()
        written = bytes(self.front.env.files.files["/store/ops/audit.jsonl"].data)
        self.assertIn(b"POST /session", written)
        self.assertNotIn(boss.encode(), written)
        self.assertNotIn(b"hidden-word", written)

    def test_again(self) -> None:
        """The newest entries are there again after a restart; a broken line is left out."""
        self.front.ask("POST", "/topics", TOPIC, token=self.token("boss", ADMIN))
        self.front.cluster.pump()
        self.front.env.files.append("/store/ops/audit.jsonl", b"{broken\n")
        again = AuditLog(self.front.env, "/store/ops/audit.jsonl")
        again.load()
        self.assertEqual([one.action for one in again.entries()], ["POST /topics"])

    def test_bounded(self) -> None:
        """Two files at most are kept, each with an end, and so many entries in memory."""
        env = FakeEnvironment()
        env.files.make_directories("/ops")
        log = AuditLog(env, "/ops/audit.jsonl")
        entry = AuditEntry(1, "1", "a" * 4000, "", "", {}, {}, 200)
        for _ in range(3 * KEPT):
            log.add(entry)
        sizes = {path: len(file.data) for path, file in env.files.files.items()}
        self.assertEqual(set(sizes), {"/ops/audit.jsonl", "/ops/audit.jsonl.1"})
        self.assertLessEqual(max(sizes.values()), SIZE)
        self.assertEqual(len(log.entries()), KEPT)

    def test_unwritable(self) -> None:
        """A disk that is full does not keep anybody from changing anything; the log says that it is."""
        env = FakeEnvironment()
        log = AuditLog(env, "/nowhere/audit.jsonl")
        log.add(AuditEntry(1, "1", "boss", "", "", {}, {}, 200))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(len(log.entries()), 1)

    def test_cut(self) -> None:
        """Long values and names are cut, and what is secret by its name is hidden."""
        found = shown({"apiKey": "x", "text": "a" * 1000, "list": list(range(100)), "b" * 1000 + "token": "y"})
        self.assertEqual({name: one for name, one in found.items() if name[0] == "b"}, {
            "b" * 512 + "… (1005 characters)": "***",
        })  # fmt: skip
        self.assertEqual(found["apiKey"], "***")
        self.assertLess(len(found["text"]), 600)
        self.assertEqual(len(found["list"]), 32)


class ScriptTests(SecurityCase):
    """X12: names and words of others stay what they are."""

    def test_names(self) -> None:
        """Script text in a value comes back as JSON that no browser takes for a page."""
        boss = self.token("boss", ADMIN)
        text = "<script>alert(1)</script>"
        self.front.ask("PUT", "/kv/N/k", {"value": text}, token=boss)
        answer = self.front.ask("GET", "/kv/N/k", token=boss)
        self.assertEqual(answer.json["value"], text)
        self.assertEqual(answer.headers["content-type"], "application/json")
        problem = self.front.ask("GET", "//%3Cscript%3Ealert(1)%3C/script%3E")
        self.assertNotIn(b"<script>", problem.content)


class DebugTests(SecurityCase):
    """X13: what is for debugging."""

    def test_off(self) -> None:
        """There is nothing of it unless a setting says so."""
        token = self.token("boss", ADMIN)
        for path in ("/debug/stacks", "/debug/memory"):
            self.assertEqual(self.front.ask("GET", path, token=token).status, 404)

    def test_on(self) -> None:
        """Where it is on, admins on this machine are told, and nobody else."""
        self.front.stop_api()
        front = Front(self.front.cluster, opsDebug="true", opsTrustedProxies="127.0.0.1")
        self.addCleanup(front.stop_api)
        token = front.admin()
        frames = "\n".join(line for one in front.get("/debug/stacks", token=token) for line in one["lines"])
        self.assertIn("test_on", frames)
        self.assertGreater(front.get("/debug/memory", token=token)["blocks"], 1000)
        self.assertEqual(front.ask("GET", "/debug/stacks").status, 401)
        far = front.ask("GET", "/debug/stacks", token=token, headers={"X-Forwarded-For": "8.8.8.8"})
        self.assertEqual((far.status, far.code), (403, "not-local"))
