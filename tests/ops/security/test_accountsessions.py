"""Sessions of accounts of access control (reliability X11)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.node.accesscontrol import PERIOD
from smartgo.ops.security.requestguard import FAILURE_SECONDS, FAILURES
from tests.broker.fakecluster import send_command
from tests.node.securedcluster import ADMIN, SecuredCluster, lay
from tests.ops.front import Answer, Front
from tests.ops.security.test_accounts import RULES, basic

ORDERS = "/messages/newest?topic=orders"


class AccountSessionTests(SynchronousTestCase):
    """Logins by access key and secret."""

    def setUp(self) -> None:
        self.cluster = SecuredCluster(None, RULES)
        self.front = Front(self.cluster, access=self.cluster.access)
        self.addCleanup(self.front.stop)
        for topic in ("orders", "invoices"):
            self.assertEqual(self.cluster.signed(ADMIN, send_command(topic)), (0, ""))
        self.cluster.pump(1)

    def try_login(self, key: str, secret: str, **headers: str) -> Answer:
        """Try to log in."""
        return self.front.ask("POST", "/session", {"accessKey": key, "secretKey": secret}, headers)

    def login(self, key: str) -> dict[str, str]:
        """Log in; return the headers of the session."""
        answer = self.try_login(key, f"{key}-secret")
        self.assertEqual(answer.status, 200, answer.content)
        return {"Cookie": answer.headers["set-cookie"].split(";")[0], "X-CSRF-Token": answer.json["csrfToken"]}

    def status(self, headers: dict[str, str], method: str, path: str, body: object = None) -> int:
        """Return the status of an answer."""
        return self.front.ask(method, path, body, headers).status

    def test_rights(self) -> None:
        """A session has the rights of its account, the reason where it lacks one, its name in the audit log."""
        answer = self.try_login("billing", "billing-secret")
        for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"):
            self.assertIn(part, answer.headers["set-cookie"])
        shown = answer.json
        self.assertEqual((shown["name"], shown["scopes"], shown["limited"]), ("account billing", [], True))
        billing = self.login("billing")
        again = self.front.ask("GET", "/session", None, billing).json
        self.assertEqual((again["name"], again["csrfToken"]), ("account billing", billing["X-CSRF-Token"]))
        self.assertEqual(self.status(billing, "GET", ORDERS), 200)
        refused = self.front.ask("GET", "/messages/newest?topic=invoices", None, billing)
        self.assertEqual((refused.status, refused.code), (403, "not-permitted"))
        self.assertIn("No permission for topic invoices: SUB is needed", refused.json["detail"])
        self.assertEqual(self.status(billing, "GET", "/tokens"), 403)
        self.assertEqual(self.status(billing, "POST", "/send", {"topic": "invoices", "text": "x"}), 200)
        self.assertEqual(self.status(billing, "POST", "/send", {"topic": "orders", "text": "x"}), 403)
        admin = self.login("an-admin")
        self.assertEqual(self.status(admin, "POST", "/topics", {"name": "New"}), 201)
        entries = [(one.who, one.action, one.status) for one in self.front.ops.audit.entries()]
        self.assertIn(("account an-admin", "POST /topics", 201), entries)
        self.assertIn(("account billing", "POST /send", 403), entries)

    def test_csrf(self) -> None:
        """A session changes nothing without its CSRF token, nor with that of another."""
        admin, billing = self.login("an-admin"), self.login("billing")
        for value in ("", billing["X-CSRF-Token"]):
            headers = {"Cookie": admin["Cookie"], "X-CSRF-Token": value}
            answer = self.front.ask("POST", "/topics", {"name": "New"}, headers)
            self.assertEqual((answer.status, answer.code), (403, "csrf"))

    def test_logout(self) -> None:
        """A session ends by hand."""
        billing = self.login("billing")
        self.assertEqual(self.status(billing, "DELETE", "/session"), 204)
        self.assertEqual(self.status(billing, "GET", ORDERS), 401)

    def test_account_ends(self) -> None:
        """A session ends with its account: removed, with another secret or other rights; others go on."""
        for change in (("accessKey: billing", "accessKey: former-one"), ("billing-secret", "other-secret"),
                       ("orders=SUB", "orders=PUB|SUB")):  # fmt: skip
            billing, admin = self.login("billing"), self.login("an-admin")
            lay(self.cluster.env, RULES.replace(*change))
            self.cluster.pump(3 * PERIOD)
            self.assertEqual(self.status(billing, "GET", ORDERS), 401, change)
            self.assertEqual(self.status(admin, "GET", ORDERS), 200)
            lay(self.cluster.env, RULES)
            self.cluster.pump(3 * PERIOD)

    def test_unusable_file(self) -> None:
        """A session goes on while the file cannot be used, as its rules stay in force."""
        billing = self.login("billing")
        lay(self.cluster.env, "accounts: [")
        self.cluster.pump(3 * PERIOD)
        self.assertEqual(self.status(billing, "GET", ORDERS), 200)

    def test_wrong(self) -> None:
        """Wrong keys and secrets look alike; what is not exactly one kind of credentials is 400."""
        wrong = [self.try_login(key, "a-wrong-secret") for key in ("billing", "nobody-at-all")]
        self.assertEqual([(one.status, one.json["detail"]) for one in wrong], [(401, wrong[0].json["detail"])] * 2)
        for body in ({"accessKey": "billing"}, {"secretKey": "x"},
                     {"accessKey": "billing", "secretKey": "billing-secret", "token": "t"}):  # fmt: skip
            self.assertEqual(self.front.ask("POST", "/session", body).status, 400, body)

    def test_guessing(self) -> None:
        """After five wrong secrets of an account a right one is refused for a while too, by HTTP Basic as well."""
        begun = self.login("billing")
        for _ in range(FAILURES):
            self.assertEqual(self.try_login("billing", "a-wrong-secret").status, 401)
        self.assertEqual(self.try_login("billing", "billing-secret").status, 429)
        self.assertEqual(self.status(basic("billing", "billing-secret"), "GET", ORDERS), 429)
        self.assertEqual(self.status(begun, "GET", ORDERS), 200)  # a session goes on
        self.assertEqual(self.try_login("an-admin", "an-admin-secret").status, 200)
        waited = self.try_login("billing", "billing-secret")
        seconds = float(waited.headers["retry-after"])
        self.assertLessEqual(seconds, FAILURE_SECONDS / FAILURES + 1)
        self.cluster.pump(seconds + 1)
        self.assertEqual(self.try_login("billing", "billing-secret").status, 200)

    def test_secrets_unseen(self) -> None:
        """Neither an answer nor the audit log has a secret."""
        self.try_login("billing", "a-wrong-secret")
        answer = self.try_login("an-admin", "an-admin-secret")
        headers = {"Cookie": answer.headers["set-cookie"].split(";")[0]}
        found = answer.content + self.front.ask("GET", "/audit", None, headers).content
        self.assertIn(b"account an-admin", found)
        for secret in (b"a-wrong-secret", b"an-admin-secret"):
            self.assertNotIn(secret, found)

    def test_link(self) -> None:
        """The session of a login link, and an unused link, end with the account that asked for it."""
        admin = self.login("an-admin")
        used, unused = (self.front.ask("POST", "/session/links", None, admin).json["code"] for _ in range(2))
        begun = self.front.ask("POST", "/session", {"code": used})
        self.assertEqual((begun.status, begun.json["name"]), (200, "account an-admin"))
        headers = {"Cookie": begun.headers["set-cookie"].split(";")[0]}
        self.assertEqual(self.status(headers, "GET", "/tokens"), 200)
        lay(self.cluster.env, RULES.replace("an-admin-secret", "another-secret"))
        self.cluster.pump(3 * PERIOD)
        self.assertEqual(self.status(headers, "GET", "/tokens"), 401)
        self.assertEqual(self.front.ask("POST", "/session", {"code": unused}).status, 401)

    def test_fixation(self) -> None:
        """A login gives a new session, and ends the one that came with it."""
        old = self.login("billing")
        answer = self.try_login("an-admin", "an-admin-secret", **old)
        self.assertNotIn(old["Cookie"], answer.headers["set-cookie"])
        self.assertEqual(self.status(old, "GET", ORDERS), 401)

    def test_off(self) -> None:
        """Without access control nobody logs in by a key."""
        front = Front()
        self.addCleanup(front.stop)
        answer = front.ask("POST", "/session", {"accessKey": "billing", "secretKey": "billing-secret"})
        self.assertEqual(answer.status, 401)
        self.assertFalse(front.get("/session")["accounts"])
