"""Tests of L{smartgo.ops.security.accounts}: accounts of access control as users of the API."""

from __future__ import annotations

import base64
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.connections import AccessControl
from smartgo.auth.needs import NEEDS, Role
from smartgo.auth.plainacl import read_plain_acl
from smartgo.node.accesscontrol import PERIOD
from smartgo.ops.security.accounts import ROUTES, AccountAccess, basic_credentials
from smartgo.ops.security.principals import READ, SCOPES
from smartgo.ops.security.requestguard import FAILURE_SECONDS, FAILURES, GuardSettings, RequestCredentials, RequestGuard
from smartgo.ops.security.sessions import SessionTable
from smartgo.ops.security.tokens import TokenTable
from smartgo.tablefile import TableFile
from tests.broker.fakecluster import send_command
from tests.fakes import FakeEnvironment
from tests.node.securedcluster import ADMIN, SecuredCluster, lay
from tests.ops.front import Answer, Front

RULES = """
accounts:
- {accessKey: an-admin, secretKey: an-admin-secret, admin: true}
- {accessKey: an-operator, secretKey: an-operator-secret, admin: true, topicPerms: [orders=PUB]}
- accessKey: billing
  secretKey: billing-secret
  certificate: CN=billing
  topicPerms: [orders=SUB, invoices=PUB]
  groupPerms: [billing=SUB]
"""


def basic(key: str, secret: str) -> dict[str, str]:
    """Return the header of an account."""
    return {"Authorization": f"Basic {base64.b64encode(f'{key}:{secret}'.encode()).decode()}"}


BILLING = basic("billing", "billing-secret")


class RouteTests(SynchronousTestCase):
    """The routes that accounts with limits may use."""

    def test_routes(self) -> None:
        """Each is a route of the API with a scope, and stands for a request that is no administrator's."""
        front = Front()
        self.addCleanup(front.stop)
        scopes = {(one.method, one.path): one.scope for one in front.ops.api.routes}
        for route, asked in ROUTES.items():
            self.assertIn(scopes[route], ("read", "publish"), route)
            self.assertIs(NEEDS[asked.code].role, Role.RESOURCE, route)
            self.assertTrue(asked.topic or asked.group, route)


class AccountAccessTests(SynchronousTestCase):
    """Who shows which account."""

    def setUp(self) -> None:
        self.control = AccessControl(read_plain_acl(RULES))
        self.accounts = AccountAccess(self.control)

    def shown(self, text: str | bytes) -> str | None:
        """Return the name of the principal of some credentials."""
        data = text if isinstance(text, bytes) else text.encode()
        principal = self.accounts.by_secret(*basic_credentials(base64.b64encode(data).decode()))
        return None if principal is None else principal.name

    def test_basic(self) -> None:
        """Key and secret have to be right; what is no Base64, or no text, is nobody's."""
        self.assertEqual(self.shown("billing:billing-secret"), "account billing")
        for wrong in ("billing:billing-secret2", "billing:", "billing", "", ":", "nobody:billing-secret", b"\xff:\xff",
                      "nobody:an unknown key costs as much time as a known one"):  # fmt: skip
            self.assertIsNone(self.shown(wrong), wrong)
        for text in ("?", "b", "äö"):
            self.assertEqual(basic_credentials(text), ("", b""))
        self.assertIsNone(AccountAccess(None).by_secret("billing", b"billing-secret"))

    def test_scopes(self) -> None:
        """An administrator without limits has all scopes, any other account has none."""
        for key, scopes in (("an-admin", set(SCOPES)), ("an-operator", set()), ("billing", set())):
            principal = self.accounts.by_secret(key, f"{key}-secret".encode())
            assert principal is not None
            self.assertEqual(set(principal.scopes), scopes)

    def test_certificate(self) -> None:
        """An account is shown by the certificate that it names, too."""
        found = self.accounts.by_certificate(("DNS:x", "CN=billing"))
        assert found is not None
        self.assertEqual(found.name, "account billing")
        for names in (("CN=x",), ()):
            self.assertIsNone(self.accounts.by_certificate(names))
        self.assertIsNone(AccountAccess(None).by_certificate(("CN=billing",)))

    def test_lasts(self) -> None:
        """A principal lasts while its account is the same, however often the files are read."""
        found = self.accounts.by_certificate(("CN=billing",))
        assert found is not None
        for before, after, lasts in (
            ("", "", True), ("an-operator", "another-operator", True), ("billing-secret", "other-secret", False),
            ("orders=SUB", "orders=DENY", False), ("CN=billing", "CN=former", False),
            ("accessKey: billing", "accessKey: former-one", False),
        ):  # fmt: skip
            self.control.replace(read_plain_acl(RULES.replace(before, after) if before else RULES))
            self.assertEqual(self.accounts.lasts(found), lasts, after)


class GuardTests(SynchronousTestCase):
    """Accounts among the other ways to show who one is."""

    def test_certificate(self) -> None:
        """A certificate that an account names is the account's; any other has the scope of certificates."""
        env = FakeEnvironment()
        tokens = TokenTable(env, TableFile(env, "/tokens.json"))
        accounts = AccountAccess(AccessControl(read_plain_acl(RULES)))
        settings = GuardSettings(certificate_scope=READ)
        guard = RequestGuard(env.clock.seconds, tokens, SessionTable(env, tokens), settings, accounts)
        headers = {"Host": "10.0.0.1:10913"}
        for names, found in ((("CN=billing",), "account billing"), (("CN=x",), "certificate x")):
            common = names[0].removeprefix("CN=")
            credentials = RequestCredentials(
                False, headers.get, None, "10.0.0.9", ("10.0.0.1", 10913), True, common, names
            )
            self.assertEqual(guard.principal(credentials).name, found)


class AskedTests(SynchronousTestCase):
    """Requests of accounts."""

    def setUp(self) -> None:
        self.cluster = SecuredCluster(None, RULES)
        self.front = Front(self.cluster, access=self.cluster.access)
        self.addCleanup(self.front.stop)
        for topic in ("orders", "invoices", "other"):
            self.assertEqual(self.cluster.signed(ADMIN, send_command(topic)), (0, ""))
        self.cluster.pump(1)

    def asked(self, headers: dict[str, str], method: str, path: str, body: Any = None) -> Answer:
        """Ask as an account."""
        return self.front.ask(method, path, body, headers)

    def status(self, *asked: Any) -> int:
        """Return the status of an answer."""
        return self.asked(*asked).status

    def test_limited(self) -> None:
        """An account reads topics and groups that it may subscribe to, sends where it may publish, and nothing else."""
        for path, status in (
            ("/topics/orders", 200), ("/topics/invoices", 200), ("/topics/other", 403), ("/topics/orders/queues", 200),
            ("/messages/newest?topic=orders", 200), ("/messages/newest?topic=invoices", 403),
            ("/messages?topic=other&key=k", 403), ("/groups/other", 403), ("/groups/billing", 404),
            ("/brokers", 403), ("/cluster", 403), ("/config", 403), ("/tokens", 403),
            ("/messages/anywhere?word=k", 403), ("/session", 200),
        ):  # fmt: skip
            self.assertEqual(self.status(BILLING, "GET", path), status, path)
        refused = self.asked(BILLING, "GET", "/messages/newest?topic=other")
        self.assertEqual(refused.code, "not-permitted")
        self.assertIn("No permission for topic other: SUB is needed", refused.json["detail"])
        self.assertEqual(self.asked(BILLING, "GET", "/brokers").code, "scope-missing")
        for topic, status in (("invoices", 200), ("orders", 403)):
            self.assertEqual(self.status(BILLING, "POST", "/send", {"topic": topic, "text": "x"}), status, topic)
        self.assertEqual(self.status(BILLING, "POST", "/topics", {"name": "mine"}), 403)
        entries = [(one.who, one.status) for one in self.front.ops.audit.entries()]
        self.assertIn(("account billing", 200), entries)

    def test_lists(self) -> None:
        """Lists of topics and groups are cut to those that the account may ask about, counts as well."""
        for name in ("billing", "shipping"):
            self.assertEqual(self.status(basic("an-admin", "an-admin-secret"), "POST", "/groups", {"name": name}), 201)
        kinds = "kind=normal&kind=system&kind=retry&kind=dead"
        for path, names in ((f"/topics?{kinds}", ["invoices", "orders"]), ("/groups?system=true", ["billing"])):
            page = self.asked(BILLING, "GET", path).json
            self.assertEqual(([one["name"] for one in page["items"]], page["total"]), (names, len(names)))
            everything = self.asked(basic("an-admin", "an-admin-secret"), "GET", path).json
            self.assertGreater(everything["total"], len(names))

    def test_rights(self) -> None:
        """An account is told what it may do with a topic or a group, and why not; others have scopes instead."""
        found = self.asked(BILLING, "GET", "/session/rights?topic=orders").json["items"]
        rights = {(one["method"], one["path"]): one for one in found}
        self.assertEqual(len(rights), 9)
        self.assertTrue(rights["GET", "/messages/newest"]["allowed"])
        refused = rights["POST", "/send"]
        self.assertFalse(refused["allowed"])
        self.assertIn("No permission for topic orders: PUB is needed", refused["reason"])
        groups = self.asked(BILLING, "GET", "/session/rights?group=shipping").json["items"]
        self.assertEqual({one["allowed"] for one in groups}, {False})
        for headers in ({}, basic("an-admin", "an-admin-secret")):
            self.assertEqual(self.asked(headers, "GET", "/session/rights?topic=orders").json, {"items": []})

    def test_administrator(self) -> None:
        """An administrator without limits may everything; one with a list is bound by it."""
        admin, operator = basic("an-admin", "an-admin-secret"), basic("an-operator", "an-operator-secret")
        for headers, statuses in ((admin, (200, 201, 200, 201)), (operator, (403, 403, 403, 403))):
            found = (
                self.status(headers, "GET", "/brokers"),
                self.status(headers, "POST", "/topics", {"name": f"New-{len(headers)}"}),
                self.status(headers, "GET", "/config"),
                self.status(headers, "POST", "/session/links"),
            )
            self.assertEqual(found[0], statuses[0])
            self.assertEqual((found[1] < 300, found[3]), (statuses[1] < 300, statuses[3]))
        self.assertEqual(self.status(operator, "POST", "/send", {"topic": "orders", "text": "x"}), 200)

    def test_anonymous(self) -> None:
        """Nobody reads without a token or an account, on the machine itself either, but what reveals nothing."""
        for route in self.front.ops.api.routes:
            if route.scope is None or route.method != "GET":
                continue
            path = route.path.replace("{", "").replace("}", "")
            self.assertEqual(self.status({}, "GET", path), 401, path)
            self.assertEqual(self.status({}, "HEAD", path), 401, path)
        refused = self.asked({}, "GET", "/messages/newest?topic=orders")
        self.assertEqual(refused.code, "login-needed")
        self.assertIn("key and secret of an account (HTTP Basic)", refused.json["detail"])
        self.assertTrue(refused.headers["www-authenticate"].startswith("Bearer"))  # browsers ask for nothing
        self.assertEqual(self.status({}, "GET", "//metrics"), 401)
        shown = self.asked({}, "GET", "/session").json
        self.assertEqual((shown["scopes"], shown["loginNeeded"], shown["version"]), ([], True, ""))
        for path in ("/health", "//health", "//openapi.json", "//docs", "//"):
            self.assertEqual(self.status({}, "GET", path), 200, path)
        self.assertIn(self.status({}, "GET", "/ready"), (200, 503))

    def test_first_token(self) -> None:
        """An administrator's account makes a first token for reading alone, as Prometheus needs."""
        admin = basic("an-admin", "an-admin-secret")
        made = self.asked(admin, "POST", "/tokens", {"name": "prometheus", "scopes": ["read"]})
        self.assertEqual(made.status, 201)
        bearer = {"Authorization": f"Bearer {made.json['token']}"}
        self.assertEqual((self.status(bearer, "GET", "//metrics"), self.status(bearer, "GET", "/tokens")), (200, 403))
        self.assertEqual(self.status(admin, "POST", "/tokens", {"name": "other", "scopes": ["publish"]}), 201)

    def test_wrong(self) -> None:
        """A wrong secret is answered 401, and soon 429; rules that change count at once."""
        wrong = basic("billing", "another-secret")
        self.assertEqual([self.status(wrong, "GET", "/topics/orders") for _ in range(6)], [401] * 5 + [429])
        self.assertEqual(self.status(BILLING, "GET", "/topics/orders"), 429)  # or one could go on guessing
        admin = basic("an-admin", "an-admin-secret")
        self.assertEqual(self.status(admin, "GET", "/topics/orders"), 200)  # others are not kept out
        self.cluster.pump(FAILURE_SECONDS / FAILURES + 1)
        self.assertEqual(self.status(BILLING, "GET", "/topics/orders"), 200)
        lay(self.cluster.env, RULES.replace("orders=SUB", "orders=DENY"))
        self.cluster.pump(3 * PERIOD)
        self.assertEqual(self.status(BILLING, "GET", "/topics/orders"), 403)
