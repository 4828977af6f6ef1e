"""Tests of L{smartgo.auth.policies}, and of the decisions that are made by them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import AccessAccount, AccessRules, Permission, Rights
from smartgo.auth.connections import AccessControl
from smartgo.auth.decisions import authorize, explain
from smartgo.auth.needs import NEEDS, Role
from smartgo.auth.policies import (
    ACTIONS,
    BadPolicy,
    PolicyEntry,
    PolicyRights,
    Resource,
    ResourceKind,
    read_entry,
    read_resource,
)
from smartgo.auth.policyneeds import actions_for, admin_actions
from smartgo.schema.codes import RequestCode
from smartgo.schema.signature import AccessKey
from smartgo.schema.topics import TRACE_TOPIC, retry_topic

PUB, SUB, ANY = Permission.PUB, Permission.SUB, Permission.ANY
CLUSTER = "DefaultCluster"


def entry(text: str) -> PolicyEntry:
    """Return an entry: its resource, actions, C{Allow} or C{Deny}, and then its sources and C{Default}, if any."""
    resource, actions, decision, *more = text.split()
    kind = "Default" if "Default" in more else "Custom"
    return read_entry(resource, actions.split(","), [one for one in more if one != kind], decision, kind)


def user(*entries: str) -> AccessAccount:
    """Return a normal user."""
    policies = PolicyRights(map(entry, entries), CLUSTER)
    return AccessAccount(AccessKey("alice", "secret-1"), Rights(), policies=policies)


class ResourceTests(SynchronousTestCase):
    """Resources and patterns of them."""

    def test_read(self) -> None:
        """A resource is read from its text, and written as it was."""
        for text in ("*", "Topic:orders", "Topic:ord*", "Topic:*", "Group:g", "Cluster:c*"):
            self.assertEqual(read_resource(text).key, text)
        self.assertEqual(read_resource("topic:T"), Resource(ResourceKind.TOPIC, "T"))
        for text in ("", "Topic", "Topic:", "Namespace:x", "orders", "*:x"):
            self.assertRaises(BadPolicy, read_resource, text)

    def test_matches(self) -> None:
        """A pattern stands for its own kind alone."""
        orders = Resource(ResourceKind.TOPIC, "orders")
        for text, matches in (
            ("*", True), ("Topic:*", True), ("Topic:ord*", True), ("Topic:orders", True), ("Topic:order", False),
            ("Topic:orders2", False), ("Topic:x*", False), ("Group:orders", False), ("Group:*", False),
        ):  # fmt: skip
            self.assertEqual(read_resource(text).matches(orders), matches, text)


class EntryTests(SynchronousTestCase):
    """Entries of policies."""

    def test_wrong(self) -> None:
        """An entry without a meaning is refused in RocketMQ's words."""
        good = ("Topic:T", ["Pub"], ["10.0.0.1", "10.1.0.0/16", "::1"], "Allow", "Custom")
        self.assertEqual(read_entry(*good).words, "the policy for Topic:T allows Pub from 10.0.0.1, 10.1.0.0/16, ::1")
        for at, value, said in (
            (0, None, "The resource is null."),
            (0, "x", "The resource is null."),
            (1, [], "The actions is empty."),
            (1, ["Any"], "The actions are All, Pub"),
            (2, [" "], "The source ip is empty."),
            (2, ["10.0.0"], "The source ip is invalid."),
            (2, ["*"], "The source ip is invalid."),
            (3, None, "The decision is null or illegal."),
            (3, "Maybe", "The decision is null or illegal."),
            (4, "Other", "The policy type is null or illegal."),
        ):
            wrong = [value if one == at else part for one, part in enumerate(good)]
            self.assertIn(said, str(self.assertRaises(BadPolicy, read_entry, *wrong)))

    def test_order(self) -> None:
        """The most definite resource decides; custom before default, and a denial before what allows the same."""
        orders = Resource(ResourceKind.TOPIC, "orders")
        for entries, allowed in (
            ((), False),
            (("Topic:* Pub Allow",), True),
            (("Topic:* Pub Allow", "Topic:orders Pub Deny"), False),
            (("Topic:* Pub Deny", "Topic:orders Pub Allow"), True),
            (("Topic:or* Pub Deny", "Topic:orde* Pub Allow"), True),
            (("Topic:orders Pub Allow", "Topic:orders All Deny"), False),
            (("Topic:orders All Deny", "Topic:orders Pub Allow"), False),
            (("* All Allow", "Topic:* Pub Deny"), False),
            (("* All Allow", "Topic:* Sub Deny"), True),
            (("* All Deny", "Topic:* All Allow"), True),
            (("Topic:orders Pub Allow Default", "Topic:* Pub Deny"), False),
            (("Topic:orders Pub Allow Default",), True),
        ):
            for order in (entries, entries[::-1]):
                found, _ = PolicyRights(map(entry, order)).decide(orders, ("Pub",), "10.0.0.1")
                self.assertEqual(found, allowed, order)

    def test_sources(self) -> None:
        """An entry with addresses holds for requests from there alone."""
        rights = PolicyRights([entry("Topic:T Pub Allow 10.0.0.1 10.1.0.0/16"), entry("Topic:* Pub Deny 10.1.2.3")])
        topic = Resource(ResourceKind.TOPIC, "T")
        for ip, allowed in (("10.0.0.1", True), ("10.1.9.9", True), ("10.0.0.2", False), ("", False), ("x", False)):
            self.assertEqual(rights.decide(topic, ("Pub",), ip)[0], allowed, ip)
        self.assertTrue(rights.by_address)
        self.assertFalse(PolicyRights([entry("* All Allow")]).by_address)


class DecisionTests(SynchronousTestCase):
    """Requests of users."""

    def test_every_code(self) -> None:
        """
        Of every code: a user without policies may not, one with all may, and so may one with just what is needed.

        None of them may change accounts of 4.x, which may have more rights.
        """
        nobody, everything = user(), user("* All Allow")
        needs = [("T", PUB), (retry_topic("G"), SUB)]
        for code, need in NEEDS.items():
            wanted = [] if need.role in (Role.HEALTH, Role.ADMIN) else needs
            self.assertEqual(authorize(nobody, code, wanted).allowed, need.role is Role.HEALTH, code)
            self.assertEqual(authorize(everything, code, wanted).allowed, code not in (50, 51, 53), code)
            if code in (50, 51, 53):
                self.assertFalse(authorize(user(f"Cluster:{CLUSTER} All Allow"), code, ()).allowed, code)
                continue
            if need.role is Role.ADMIN:
                (action,) = admin_actions(code)
                for one in ACTIONS[1:]:
                    found = authorize(user(f"Cluster:{CLUSTER} {one} Allow"), code, ())
                    self.assertEqual(found.allowed, one == action, (code, one))
                self.assertFalse(authorize(user(f"Cluster:other {action} Allow"), code, ()).allowed, code)
                self.assertFalse(authorize(user("Topic:* All Allow", "Group:* All Allow"), code, ()).allowed, code)
        self.assertFalse(authorize(everything, 12345, ()).allowed)

    def test_actions(self) -> None:
        """Each permission is one of some actions; topics and groups are their own resources."""
        for permission, code, enough in (
            (PUB, 310, {"Pub"}),
            (SUB, 11, {"Sub"}),
            (SUB, int(RequestCode.QUERY_CONSUMER_OFFSET), {"Sub", "Get"}),
            (ANY, int(RequestCode.GET_MAX_OFFSET), {"Pub", "Sub", "Get"}),
        ):
            self.assertEqual(set(actions_for(code, permission)), enough)
            for name, kind, other in (("T", "Topic", "Group"), (retry_topic("T"), "Group", "Topic")):
                for action in ACTIONS[1:]:
                    allowed = authorize(user(f"{kind}:T {action} Allow"), code, [(name, permission)]).allowed
                    self.assertEqual(allowed, action in enough, (code, name, action))
                self.assertFalse(authorize(user(f"{other}:T All Allow"), code, [(name, permission)]).allowed)

    def test_administration(self) -> None:
        """A user may have topics of its own to create, change and delete."""
        maker = user("Topic:mine* Create,Delete Allow")
        for code, topic, allowed in (
            (17, "mine-1", True),
            (17, "other", False),
            (215, "mine-1", True),
            (323, "mine-1", False),
        ):
            self.assertEqual(authorize(maker, code, [(topic, ANY)]).allowed, allowed, (code, topic))
        self.assertFalse(authorize(maker, 17, []).allowed)

    def test_transactions(self) -> None:
        """To list transactions, which changes nothing, is to get; to resume the check of one is to update."""
        for action, listed, resumed in (("Get", True, False), ("Update", False, True)):
            reader = user(f"Cluster:{CLUSTER} {action} Allow")
            for code, allowed in ((RequestCode.LIST_TRANSACTIONS, listed),
                                  (RequestCode.RESUME_CHECK_HALF_MESSAGE, resumed)):  # fmt: skip
                self.assertEqual(authorize(reader, int(code), []).allowed, allowed, (action, code))

    def test_traces(self) -> None:
        """Every user may write traces; commits without a topic need some topic to publish to."""
        self.assertTrue(authorize(user(), 310, [(TRACE_TOPIC, PUB)]).allowed)
        self.assertFalse(authorize(user(), 11, [(TRACE_TOPIC, SUB)]).allowed)
        commit = int(RequestCode.END_TRANSACTION)
        self.assertFalse(authorize(user("Topic:T Sub Allow", "Group:G Pub Allow"), commit, []).allowed)
        self.assertTrue(authorize(user("Topic:T Pub Allow"), commit, []).allowed)

    def test_reasons(self) -> None:
        """A decision names the entry that made it, also for a request that nobody has sent."""
        rules = AccessRules([user("Topic:T Pub Allow 10.0.0.0/8", "Topic:U Pub Deny")])
        for topic, ip, allowed, reason in (
            ("T", "10.0.0.1", True, "the policy for Topic:T allows Pub from 10.0.0.0/8"),
            ("T", "", False, "User:alice has no permission to access Topic:T, no policy for Topic:T has Pub"),
            ("U", "", False, "User:alice has no permission to access Topic:U, the policy for Topic:U denies Pub"),
        ):
            decision, signature = explain(rules, "alice", 310, topic, None, ip)
            self.assertEqual((decision, signature), ((allowed, reason), "needed"))

    def test_grants(self) -> None:
        """The core is granted what depends on no address."""
        for text, secret in (
            ("Topic:T Pub Allow", b"secret-1"),
            ("Topic:T Pub Allow 10.0.0.1", None),
            ("Topic:T Sub Allow", None),
        ):
            self.assertEqual(AccessControl(AccessRules([user(text)])).grant("alice", 310, "T", ""), secret)
