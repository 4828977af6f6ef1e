"""Definitions, out of a cluster and into it: what is told beforehand, what is done, what is refused."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from smartgo.client.administration import definitions as administration
from smartgo.client.administration.asking import Asking
from smartgo.client.administration.definitions import Definitions, Step
from smartgo.ops.resources import definitions
from smartgo.schema.bodies import BrokerData, ClusterInfo
from tests.ops.resources.test_cluster import ClusterCase


class DefinitionsCase(ClusterCase):
    """A topic, a group, an order topic's queues, and a value that is a secret."""

    def setUp(self) -> None:
        super().setUp()
        self.order("POST", "/topics", {"name": "Orders", "readQueues": 3, "writeQueues": 3, "perm": "read"})
        self.order("POST", "/groups", {"name": "audit", "retryMax": 2})
        self.order("PUT", "/kv/ORDER_TOPIC_CONFIG/Orders", {"value": "broker-a:3"})
        self.order("PUT", "/kv/mine/password", {"value": "hidden"})

    def bring(self, given: Any, **more: Any) -> tuple[Any, list[Any]]:
        """Bring definitions in; return the job once it has ended, and its rows."""
        status, job = self.order("POST", "/definitions/import", {"definitions": given, **more})
        self.assertEqual(status, 202, job)
        self.front.cluster.pump(1.0)
        return self.ended(job)

    def ended(self, job: Any) -> tuple[Any, list[Any]]:
        """A job and its rows."""
        return self.get(f"/jobs/{job['id']}"), self.get(f"/jobs/{job['id']}/rows?limit=200")["items"]

    def outcomes(self, rows: list[Any]) -> list[tuple[str, str, str]]:
        """Kind, name and outcome of each."""
        return [(one["kind"], one["name"], one["outcome"]) for one in rows]

    def topics(self) -> list[str]:
        """The names of topics that are applications'."""
        return [one["name"] for one in self.get("/topics?kind=normal")["items"]]


class ExportTests(DefinitionsCase):
    """Out."""

    def test_export(self) -> None:
        """What applications have made is written out as a file, values of the namespaces that are named with it."""
        answer = self.front.ask("GET", "/definitions?namespace=mine", token=self.token)
        self.assertEqual(answer.headers["content-disposition"], 'attachment; filename="definitions.json"')
        found = answer.json
        self.assertEqual(list(found), ["version", "topics", "groups", "order", "kv"])
        self.assertEqual(list(found["topics"]), ["Orders"])
        topic = found["topics"]["Orders"]["broker-a"]
        self.assertEqual((topic["readQueueNums"], topic["perm"]), (3, 4))
        self.assertEqual(found["groups"]["audit"]["broker-a"]["retryMaxTimes"], 2)
        self.assertEqual((found["order"], found["kv"]), ({"Orders": "broker-a:3"}, {"mine": {"password": "hidden"}}))
        self.assertEqual(self.get("/definitions")["kv"], {})
        part = self.get("/definitions?q=aud")
        self.assertEqual((part["topics"], list(part["groups"]), part["order"]), ({}, ["audit"], {}))

    def test_scope(self) -> None:
        """Nobody but an admin writes definitions out, secrets among them, or brings any in."""
        reader = self.front.ops.tokens.create("eyes", ["read", "publish"])[1]
        self.front.cluster.pump()
        self.assertEqual(self.front.ask("GET", "/definitions", token=reader).status, 403)
        body = {"definitions": {}, "dryRun": True}
        self.assertEqual(self.front.ask("POST", "/definitions/import", body, token=reader).status, 403)


class ImportTests(DefinitionsCase):
    """In."""

    def test_there_and_back(self) -> None:
        """What was written out is the same while it is there, and made again where it is gone."""
        given = self.get("/definitions?namespace=mine")
        names = [("topic", "Orders"), ("group", "audit"), ("order", "Orders"), ("kv", "mine/password")]
        job, rows = self.bring(given)
        self.assertEqual((job["state"], job["result"]["counts"]), ("done", {"same": 4}))
        self.assertEqual(self.outcomes(rows), [(*one, "same") for one in names])
        self.order("DELETE", "/topics/Orders")
        self.order("DELETE", "/groups/audit")
        self.order("DELETE", "/kv/ORDER_TOPIC_CONFIG/Orders")
        self.order("DELETE", "/kv/mine/password")
        job, rows = self.bring(given)
        self.assertEqual(job["result"], {"dryRun": False, "counts": {"created": 4}})
        self.assertEqual(self.outcomes(rows), [(*one, "created") for one in names])
        self.assertEqual(self.get("/definitions?namespace=mine"), given)

    def test_dry_run(self) -> None:
        """A dry run tells of each what would become of it, a change member by member, and does nothing."""
        given = self.get("/definitions")
        given["topics"]["Orders"]["broker-a"]["readQueueNums"] = 5
        given["topics"]["New"] = {"broker-a": {}}
        given["topics"]["Far"] = {"broker-z": {}}
        job, rows = self.bring(given, dryRun=True)
        self.assertEqual(job["result"]["counts"], {"change": 1, "create": 1, "refused": 1, "same": 2})
        changed, created, refused = rows[:3]
        self.assertEqual((changed["outcome"], changed["changes"]), ("change", {"readQueueNums": [3, 5]}))
        self.assertEqual((created["outcome"], created["broker"]), ("create", "broker-a"))
        self.assertEqual(
            (refused["outcome"], refused["reason"]), ("refused", "there is no broker broker-z with a master here")
        )
        self.assertEqual(self.topics(), ["Orders"])

    def test_merge(self) -> None:
        """What is not among the definitions is left alone; what is gets their settings, with turns for others."""
        turns: list[float] = []

        def turn(clock: Any, delay: float) -> Deferred[None]:
            turns.append(delay)
            return deferLater(clock, delay)

        self.patch(administration, "_TURN", 1)
        self.patch(administration, "deferLater", turn)
        self.bring({"topics": {"Orders": {"broker-a": {"readQueueNums": 7, "writeQueueNums": 7}}, "New": {"b": {}}}},
                   brokers=["broker-a"])  # fmt: skip
        self.assertEqual(turns, [0] * 4)  # two are read, and compared
        self.assertEqual(self.topics(), ["New", "Orders"])
        self.assertEqual(self.get("/topics/Orders")["readQueues"], 7)
        self.assertEqual(self.get("/groups/audit")["retryMax"], 2)
        self.assertEqual(self.get("/kv/mine")["total"], 1)

    def test_refused(self) -> None:
        """Where some are refused nothing is done, and the answer says to which; unless the rest is asked for."""
        given: Any = {
            "topics": {
                "New": {"broker-a": {}},
                "Far": {"broker-z": {}},
                "%RETRY%audit": {"broker-a": {}},
                "TBW102": {"broker-a": {}},
            },
            "groups": {"TOOLS_CONSUMER": {"broker-a": {}}},
        }
        job, rows = self.bring(given)
        self.assertEqual((job["state"], job["code"], job["result"]), ("failed", "items-refused", None))
        self.assertIn("nothing was done, as 4 of 5 are refused, such as topic Far at broker-z", job["error"])
        self.assertEqual([one["outcome"] for one in rows], ["left", *["refused"] * 4])
        self.assertEqual(self.topics(), ["Orders"])
        job, rows = self.bring(given, skipRefused=True)
        self.assertEqual(job["result"]["counts"], {"created": 1, "refused": 4})
        self.assertEqual(self.topics(), ["New", "Orders"])

    def test_attributes(self) -> None:
        """What a topic has that no request carries is left out, and its row says so."""
        _, (row,) = self.bring({"topics": {"New": {"broker-a": {"attributes": {"+a": "b"}}}}})
        self.assertEqual((row["outcome"], row["reason"]), (
            "created", "its attributes are left out: no request carries them",
        ))  # fmt: skip

    def test_no_master(self) -> None:
        """A broker of which a slave alone is there takes nothing, and what it would have got is refused."""
        known = Asking.cluster

        async def slave(asking: Asking) -> ClusterInfo:
            info = await known(asking)
            info.broker_addr_table["broker-s"] = BrokerData("DefaultCluster", "broker-s", {1: "127.0.0.1:1"})
            return info

        def at_masters(asking: Asking, cluster: str | None = None) -> Any:
            return asking.masters(["broker-a"])

        self.patch(Asking, "readable", at_masters)
        self.patch(Asking, "cluster", slave)
        _, (row,) = self.bring({"topics": {"New": {"broker-s": {}}}})
        self.assertEqual((row["outcome"], row["reason"]), ("refused", "there is no broker broker-s with a master here"))

    def test_order(self) -> None:
        """Where an order setting names queues to which nobody could send it is refused, unless it is there already."""
        self.order("PUT", "/kv/ORDER_TOPIC_CONFIG/Old", {"value": "broker-z:4"})
        given = {
            "Old": "broker-z:4", "New": "broker-a:4;", "None": "", "Far": "broker-a:1;broker-z:4", "Bad": "broker-a",
            "Many": "broker-a:1000000", "Hole": "broker-a:1;;broker-a:1",
        }  # fmt: skip
        _, rows = self.bring({"order": given}, skipRefused=True)
        self.assertEqual([(one["name"], one["outcome"], one["reason"]) for one in rows], [
            ("Old", "same", ""),
            ("New", "created", ""),
            ("None", "created", ""),
            ("Far", "refused", "there is no broker broker-z with a master here"),
            ("Bad", "refused", "'broker-a' is not BROKER:QUEUES"),
            ("Many", "refused", "'broker-a:1000000' is not BROKER:QUEUES"),
            ("Hole", "refused", "'' is not BROKER:QUEUES"),
        ])  # fmt: skip
        self.assertEqual(self.get("/kv/ORDER_TOPIC_CONFIG?q=Far")["total"], 0)

    def test_order_moved(self) -> None:
        """Where one broker is chosen it takes the place of the one that an order setting names, and the row says so."""
        self.order("PUT", "/kv/ORDER_TOPIC_CONFIG/Lost", {"value": "broker-z:4"})
        given = {
            "Orders": "broker-a:3", "New": "broker-z:8;", "Lost": "broker-z:4", "Two": "broker-a:1;broker-z:4",
            "Bad": "broker-z",
        }  # fmt: skip
        _, rows = self.bring({"order": given}, brokers=["broker-a"], skipRefused=True)
        moved = "broker-a stands there in place of broker-z"
        self.assertEqual([(one["name"], one["outcome"], one["reason"]) for one in rows], [
            ("Orders", "same", ""),
            ("New", "created", moved),
            ("Lost", "changed", moved),
            ("Two", "refused", "it names broker-z, not among the brokers that are chosen"),
            ("Bad", "refused", "'broker-z' is not BROKER:QUEUES"),
        ])  # fmt: skip
        found = self.get("/definitions")["order"]
        self.assertEqual(found, {"Orders": "broker-a:3", "New": "broker-a:8", "Lost": "broker-a:4"})
        _, rows = self.bring({"order": {"New": "broker-z:8;"}}, brokers=["broker-a"])
        self.assertEqual([(one["outcome"], one["reason"]) for one in rows], [("same", moved)])

    def test_order_chosen(self) -> None:
        """An order setting of another broker is refused where several are chosen, or the chosen one is not here."""
        given = {"order": {"New": "broker-z:8"}}
        for brokers, reason in (
            (["broker-b", "broker-a"], "it names broker-z, not among the brokers that are chosen"),
            (["broker-b"], "there is no broker broker-b with a master here"),
        ):
            _, (row,) = self.bring(given, brokers=brokers)
            self.assertEqual((row["outcome"], row["reason"]), ("refused", reason))

    def test_order_there(self) -> None:
        """An order setting that the registries have stays where its broker is here, whatever broker is chosen."""
        _, (row,) = self.bring({"order": {"Orders": "broker-a:3"}}, brokers=["broker-b"])
        self.assertEqual((row["outcome"], row["reason"]), ("same", ""))

    def test_order_mark(self) -> None:
        """Where registries say which topics are ordered a topic's own mark is left as it is, and is no change."""
        given: Any = {"topics": {"Orders": {"broker-a": {**self.topic(), "order": not self.topic()["order"]}}}}
        _, (row,) = self.bring(given)
        self.assertEqual((row["outcome"], row["changes"]), ("same", {}))
        mark = self.topic()["order"]
        given["topics"]["Orders"]["broker-a"] |= {"readQueueNums": 5, "order": not mark}
        _, (row,) = self.bring(given)
        self.assertEqual((row["outcome"], row["changes"]), ("changed", {"readQueueNums": [3, 5]}))
        self.assertEqual(self.topic()["order"], mark)

    def test_order_mark_alone(self) -> None:
        """Where registries say nothing of order, a topic's mark is changed as any setting; a file that does counts."""
        self.order("DELETE", "/kv/ORDER_TOPIC_CONFIG/Orders")
        mark = self.topic()["order"]
        given: Any = {"topics": {"Orders": {"broker-a": {**self.topic(), "order": not mark}}}}
        _, rows = self.bring({**given, "order": {"Orders": "broker-a:3"}}, dryRun=True)
        self.assertEqual([(one["kind"], one["outcome"]) for one in rows], [("topic", "same"), ("order", "create")])
        _, (row,) = self.bring(given, dryRun=True)
        self.assertEqual((row["outcome"], row["changes"]), ("change", {"order": [mark, not mark]}))

    def topic(self) -> Any:
        """The settings of a topic as a file has them."""
        return self.get("/definitions")["topics"]["Orders"]["broker-a"]

    def test_secret(self) -> None:
        """Rows are there for all who may read: of a value that is a secret they say that it changes, not what it is."""
        _, rows = self.bring({"kv": {"mine": {"password": "other", "a": "b"}}, "order": {"Orders": "broker-a:2"}})
        self.assertEqual([(one["outcome"], one["changes"]) for one in rows], [
            ("changed", {"value": ["broker-a:3", "broker-a:2"]}), ("changed", {"value": ["***", "***"]}),
            ("created", {}),
        ])  # fmt: skip
        self.assertEqual(self.get("/kv/mine/password")["value"], "other")

    def test_bad(self) -> None:
        """A file that is wrong anywhere is refused whole, with the name of the item."""
        ok: Any = {"broker-a": {}}
        for given, said in (
            ({"topics": {"New": ok, "T": {"broker-a": {"readQueueNums": "many"}}}}, "topic T at broker-a: Expected"),
            ({"topics": {"T": {"broker-a": {"readQueueNum": 1}}}}, "at broker-a: there is no setting 'readQueueNum'"),
            ({"topics": {"T": {"broker-a": {"readQueueNums": -1}}}}, "topic T at broker-a: readQueueNums is -1"),
            ({"topics": {"T": {"broker-a": {"perm": 8}}}}, "topic T at broker-a: perm is 8"),
            (
                {"topics": {"T": {"broker-a": {"topicName": "U"}}}},
                "topic T at broker-a: topicName is another name, 'U'",
            ),
            ({"topics": {"a b": ok}}, "topic a b: The specified topic contains illegal characters"),
            ({"topics": {"T": {}}}, "topic T: no broker is listed"),
            ({"topics": {"T": 7}}, "topic T: not a JSON object"),
            ({"topics": []}, "topics: not a JSON object"),
            ({"groups": {"g": {"broker-a": {"retryMaxTimes": -2}}}}, "group g at broker-a: retryQueueNums is negative"),
            ({"groups": {"a b": ok}}, "group a b: "),
            ({"order": {"T": 1}}, "order T: not a text"),
            ({"kv": {"n": {"k": "x" * 32_769}}}, "kv n/k: not a text of at most 32768 characters"),
            ({"kv": {"n/m": {}}}, "namespace 'n/m': not a valid name"),
            ({"kv": {"n": {"a/b": ""}}}, "kv n 'a/b': not a valid name"),
            ({"kv": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:1"}}}, "of this namespace belong under 'order'"),
            ({"topics": {"T": {"broker-a": {"topicFilterType": "X"}}}}, "neither SINGLE_TAG nor MULTI_TAG"),
            ({"version": 2}, "definitions of version 2 are not supported, only of version 1"),
            ({"queues": {}}, "'queues' is not a member of definitions"),
        ):
            status, problem = self.order("POST", "/definitions/import", {"definitions": given})
            self.assertEqual(status, 400, given)
            self.assertIn(said, problem["detail"])
        self.assertEqual(self.order("POST", "/definitions/import", {"definitions": []})[0], 400)
        self.assertEqual((self.topics(), self.get("/jobs")["total"]), (["Orders"], 0))

    def test_limit(self) -> None:
        """No more than so many settings at once, counted at each broker; no more than so many bytes."""
        self.patch(definitions, "ITEMS", 3)
        topics: Any = {f"T{number}": {"b": {}} for number in range(2)}
        self.bring({"topics": topics, "kv": {"n": {"k": "v"}}}, dryRun=True)
        for body in (
            {"definitions": {"topics": topics, "order": {"a": "", "b": ""}}},
            {"definitions": {"topics": topics}, "brokers": ["a", "b"]},
        ):
            status, problem = self.order("POST", "/definitions/import", body)
            self.assertEqual((status, problem["code"]), (400, "too-many-items"))
        long = {"definitions": {"kv": {"n": {str(number): "x" * 32_000 for number in range(140)}}}}
        self.assertEqual(self.order("POST", "/definitions/import", long)[0], 413)

    def test_failed(self) -> None:
        """One that the broker declines fails with its words, and does not keep the others."""
        _, rows = self.bring({"topics": {
            "Wide": {"broker-a": {"readQueueNums": 60_000, "writeQueueNums": 60_000}}, "New": {"broker-a": {}},
        }})  # fmt: skip
        self.assertEqual([one["outcome"] for one in rows], ["failed", "created"])
        self.assertEqual(rows[0]["reason"], "broker broker-a: readQueueNums 60000 of topic[Wide] is outside 0..1024")

    def test_cancelled(self) -> None:
        """Where it is cancelled the rows tell what was done, what may have been, and what was left."""
        writes: list[str] = []
        write = Definitions.write

        def some(self: Definitions, step: Step) -> Deferred[None]:
            writes.append(step.item.name)
            return write(self, step) if len(writes) == 1 else Deferred()

        self.patch(Definitions, "write", some)
        topics: Any = {name: {"broker-a": {}} for name in ("A", "B", "C")}
        _, job = self.order("POST", "/definitions/import", {"definitions": {"topics": topics}})
        self.front.cluster.pump(1.0)
        self.assertEqual(self.get(f"/jobs/{job['id']}")["doing"], "topic B at broker-a")
        self.order("DELETE", f"/jobs/{job['id']}")
        job, rows = self.ended(job)
        self.assertEqual(job["state"], "cancelled")
        self.assertEqual([one["outcome"] for one in rows], ["created", "failed", "left"])
        self.assertIn("it may have been written anyway", rows[1]["reason"])

    def test_audit(self) -> None:
        """The audit log has who brought in what, by name, with nothing secret."""
        self.bring({"topics": {"New": {"broker-a": {}}}, "kv": {"mine": {"password": "hidden"}}})
        entry = self.get("/audit")["items"][0]
        self.assertEqual((entry["action"], entry["who"]), ("POST /definitions/import", "boss"))
        given = entry["detail"]["body"]["definitions"]
        self.assertEqual(given, {"topics": {"New": "…"}, "kv": {"mine": "…"}})
