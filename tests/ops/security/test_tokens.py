"""Tokens: who gets in by one, and what it allows (reliability X10 to X12)."""

from __future__ import annotations

import errno
import hashlib

from smartgo.config.settings import OpsConfig
from smartgo.errors import SettingError
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.ops.problems import Problem
from smartgo.ops.security.principals import ADMIN, PUBLISH, READ
from smartgo.ops.security.tokens import MOST, TokenTable, parse_configured
from smartgo.ops.service import check_place
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment
from tests.ops.security.case import TOPIC, SecurityCase


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
        self.patch(guard, "_requests", TokenBuckets(1.0, 2.0))
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
