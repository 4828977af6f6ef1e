"""Sessions of people who logged in (reliability X11)."""

from __future__ import annotations

from smartgo.ops.problems import Problem
from smartgo.ops.security.principals import ADMIN, READ
from smartgo.ops.security.sessions import SESSION_SECONDS, SessionTable
from smartgo.ops.web.routes import route
from tests.ops.security.case import ORIGIN, TOPIC, SecurityCase


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
