"""Access over the API: login links."""

from __future__ import annotations

from smartgo.env.product import product_version
from smartgo.ops.security.principals import ADMIN, READ
from tests.ops.security.case import SecurityCase


class LoginLinkTests(SecurityCase):
    def test_link(self) -> None:
        """An admin gets a link whose code begins one session, within an hour."""
        boss = self.token("boss", ADMIN)
        made = self.front.ask("POST", "/session/links", token=boss)
        self.assertEqual(made.status, 201)
        self.assertEqual(made.json["path"], f"#login={made.json['code']}")
        self.assertEqual(made.json["expiresMs"], self.front.env.clock.wall_ms() + 3_600_000)
        answer = self.front.ask("POST", "/session", {"code": made.json["code"]})
        self.assertEqual((answer.status, answer.json["name"], answer.json["scopes"]), (200, "boss", ["admin"]))
        self.assertEqual(self.front.ask("POST", "/session", {"code": made.json["code"]}).status, 401)

    def test_ends_with_token(self) -> None:
        """The session of a link ends with the token of who asked for it, and so does an unused link."""
        self.token("other", ADMIN)
        boss = self.token("boss", ADMIN)
        used, unused = (self.front.ask("POST", "/session/links", token=boss).json["code"] for _ in range(2))
        cookie = self.front.ask("POST", "/session", {"code": used}).headers["set-cookie"].split(";")[0]
        self.assertEqual(self.front.ask("GET", "/topics", headers={"Cookie": cookie}).status, 200)
        self.front.ops.tokens.delete("boss")
        self.assertEqual(self.front.ask("GET", "/topics", headers={"Cookie": cookie}).status, 401)
        self.assertEqual(self.front.ask("POST", "/session", {"code": unused}).status, 401)

    def test_scope(self) -> None:
        """Nobody else gets one: neither a reader, nor somebody without a token."""
        self.assertEqual(self.front.ask("POST", "/session/links").status, 401)
        self.token("boss", ADMIN)
        reader = self.token("reader", READ)
        self.assertEqual(self.front.ask("POST", "/session/links", token=reader).status, 403)

    def test_audit(self) -> None:
        """That a link was made is in the audit log, and its code is not."""
        boss = self.token("boss", ADMIN)
        code = self.front.ask("POST", "/session/links", token=boss).json["code"]
        found = self.front.ask("GET", "/audit", token=boss)
        self.assertIn(b"/session/links", found.content)
        self.assertNotIn(code.encode(), found.content)


class SessionTests(SecurityCase):
    def test_version(self) -> None:
        """Who may read is shown the version of smartgo; others are not."""
        self.assertEqual(self.front.ask("GET", "/session").json["version"], product_version())
        boss = self.token("boss", ADMIN)
        self.assertEqual(self.front.ask("GET", "/session").json["version"], "")
        begun = self.front.ask("POST", "/session", {"token": boss})
        self.assertEqual(begun.json["version"], product_version())


class LocalTokenTests(SecurityCase):
    def test_local(self) -> None:
        """The token of the process is good for everything; others go on reading without one, and it is not listed."""
        secret = self.front.ops.tokens.make_local()
        self.assertEqual(self.front.ask("GET", "/topics").status, 200)
        self.assertEqual(self.front.ask("GET", "/session", token=secret).json["name"], "local token")
        listed = self.front.ask("GET", "/tokens", token=secret)
        self.assertEqual((listed.status, listed.json["items"]), (200, []))
        self.assertEqual(self.front.ask("DELETE", "/tokens/local%20token", token=secret).status, 400)
        code = self.front.ask("POST", "/session/links", token=secret).json["code"]
        self.assertEqual(self.front.ask("POST", "/session", {"code": code}).status, 200)
        again = self.front.ops.tokens.make_local("/data/cli-10913.token")
        refused = self.front.ask("DELETE", "/brokers/broker-a")
        self.assertEqual(refused.status, 401)
        self.assertIn("smartgo dev left a token in /data/cli-10913.token", refused.json["detail"])
        self.assertEqual(self.front.ask("GET", "/tokens", token=secret).status, 401)
        self.assertEqual(self.front.ask("GET", "/tokens", token=again).status, 200)
