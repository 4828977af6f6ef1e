"""Groups that are moved: planned, done, undone."""

from __future__ import annotations

import errno
from typing import Any

from twisted.internet.defer import Deferred, fail
from zope.interface import implementer

from smartgo.errors import CallFailed
from smartgo.ops.reading.plans import DONE_MS, KEPT, PLANNED_MS
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import MessageQueue, ResetOffsetBody
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from tests.broker.fakecluster import BROKER, heartbeat
from tests.ops.front import Front
from tests.ops.resources.test_messages import MessageCase
from tests.remoting.doubles import sweeper_of


@implementer(IRequestProcessor)
class Member(Processor):
    """A connected member of a group: remembers what its broker tells it."""

    codes = frozenset({int(RequestCode.RESET_CONSUMER_CLIENT_OFFSET), int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)})

    def __init__(self) -> None:
        self.told: list[Command] = []

    def process(self, peer: IPeer, request: Command) -> Answer:
        """Remember it."""
        self.told.append(request)
        return request.answer()


FILE = "/store/ops/offset-plans.json"


class OffsetCase(MessageCase):
    """Group audit stands at 1 of queue 0 of Orders, and nowhere in queue 1; each has two messages."""

    def setUp(self) -> None:
        super().setUp()
        self.order("POST", "/groups", {"name": "audit"})
        self.commit(1)

    def commit(self, offset: int, queue_id: int = 0, topic: str = "Orders") -> None:
        """Let the group stand somewhere."""
        header = UpdateOffsetRequest(consumer_group="audit", topic=topic, queue_id=queue_id, commit_offset=offset)
        self.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def reset(self, to: str = "earliest", **more: Any) -> Any:
        """Move the group; return the plan."""
        status, plan = self.order("POST", "/offsets/reset", {"group": "audit", "topic": "Orders", "to": to, **more})
        self.assertEqual(status, 200, plan)
        return plan

    def stands(self) -> list[int | None]:
        """Return the group's offsets in both queues."""
        reader = ClusterQueueReader(self.front.ops.view)
        found: list[int | None] = []
        for number in (0, 1):
            asked = Deferred.fromCoroutine(reader.committed("audit", MessageQueue("Orders", "broker-a", number)))
            asked.addCallback(found.append)
            self.cluster.pump()
        return found


class ResetTests(OffsetCase):
    """Moves."""

    def test_dry(self) -> None:
        """A dry run tells queue by queue what would change, and changes nothing."""
        plan = self.reset("latest", dryRun=True)
        self.assertEqual((plan["state"], plan["members"], plan["queues"]), ("planned", 0, 2))
        self.assertEqual((plan["skipped"], plan["repeated"], plan["undoable"]), (3, 0, False))
        first = {"broker": "broker-a", "queueId": 0, "before": 1, "after": 2, "minimum": 0, "maximum": 2}
        self.assertEqual(plan["moves"][0], {**first, "skipped": 1, "repeated": 0})
        self.assertEqual(plan["moves"][1]["before"], None)
        self.assertEqual(self.stands(), [1, None])

    def test_applied(self) -> None:
        """A group without members is moved at once, and brought back by an undo."""
        plan = self.reset("earliest")
        self.assertEqual((plan["state"], plan["written"], plan["told"]), ("applied", ["broker-a"], []))
        self.assertEqual((plan["repeated"], plan["undoable"]), (1, True))
        self.assertEqual(self.stands(), [0, 0])
        status, plan = self.order("POST", f"/offsets/plans/{plan['id']}/undo")
        self.assertEqual((status, plan["state"], plan["undoable"]), (200, "undone", False))
        self.assertEqual(self.stands(), [1, 0])
        self.assertEqual(self.order("POST", f"/offsets/plans/{plan['id']}/undo")[1]["code"], "plan-state")

    def test_consumed_since(self) -> None:
        """An undo brings a group back from wherever it stands now; queues that were not moved are left alone."""
        self.commit(2, queue_id=1)
        plan = self.reset("latest")
        for queue_id in (0, 1):
            self.commit(0, queue_id)
        self.assertEqual(self.order("POST", f"/offsets/plans/{plan['id']}/undo")[0], 200)
        self.assertEqual(self.stands(), [1, 0])

    def test_unkept(self) -> None:
        """Where the plan cannot be written nothing is moved; where what became of it cannot be, the answer says so."""
        self.front.env.files.fail[FILE] = errno.ENOSPC
        body = {"group": "audit", "topic": "Orders", "to": "earliest"}
        status, problem = self.order("POST", "/offsets/reset", body)
        self.assertEqual((status, problem["code"]), (507, "not-kept"))
        self.assertIn("nothing was moved: offset-plans.json could not be written", problem["detail"])
        self.assertEqual((self.stands(), self.front.ops.plans.all()), ([1, None], []))
        self.front.env.files.fail.clear()
        plan = self.reset("earliest", dryRun=True)
        self.front.env.files.fail[FILE] = errno.ENOSPC
        path = f"/offsets/plans/{plan['id']}"
        self.assertEqual(self.order("DELETE", path)[0], 507)
        status, problem = self.order("POST", f"{path}/apply")
        self.assertEqual(status, 507)
        self.assertIn("is applied, which is known until the process ends alone", problem["detail"])
        self.assertEqual(self.stands(), [0, 0])
        self.assertEqual(self.front.ops.plans.get(plan["id"]).state, "applied")

    def test_later(self) -> None:
        """What was planned is done later, once, as it was shown."""
        plan = self.reset("latest", dryRun=True)
        self.send(4)
        self.cluster.pump(1.0)
        path = f"/offsets/plans/{plan['id']}"
        self.assertEqual(self.order("POST", f"{path}/undo")[1]["code"], "plan-state")
        status, done = self.order("POST", f"{path}/apply")
        self.assertEqual((status, done["state"], done["moves"]), (200, "applied", plan["moves"]))
        self.assertEqual(self.stands(), [2, 2])
        self.assertEqual(self.order("POST", f"{path}/apply")[1]["code"], "plan-state")

    def test_gone_on(self) -> None:
        """A group that went on after it was planned is moved from where it stands, and brought back there."""
        for queue_id in (0, 1):
            self.commit(0, queue_id)
        plan = self.reset("offset", value=0, dryRun=True)
        self.assertEqual(plan["queues"], 0)
        self.commit(2)
        self.commit(1, queue_id=1)
        path = f"/offsets/plans/{plan['id']}"
        status, done = self.order("POST", f"{path}/apply")
        self.assertEqual((status, done["queues"], done["repeated"]), (200, 2, 3))
        self.assertEqual([one["before"] for one in done["moves"]], [2, 1])
        self.assertEqual(self.stands(), [0, 0])
        self.assertEqual(self.order("POST", f"{path}/undo")[0], 200)
        self.assertEqual(self.stands(), [2, 1])

    def test_targets(self) -> None:
        """A group is moved to a time, an offset, by a number of messages, or queue by queue."""
        stored = self.at(0, 1)["storedMs"]
        for to, more, expected in (
            ("time", {"value": stored}, [1, 1]),
            ("offset", {"value": 1}, [1, 1]),
            ("offset", {"value": 99}, [2, 2]),
            ("shift", {"value": -1}, [0, 0]),
            ("shift", {"value": 1}, [2, 1]),
            ("latest", {"queues": [{"broker": "broker-a", "queueId": 1}]}, [1, 2]),
            ("explicit", {"queues": [{"broker": "broker-a", "queueId": 1, "offset": 1}]}, [1, 1]),
            ("explicit", {"queues": [{"broker": "broker-a", "queueId": 1, "offset": 77}]}, [1, 2]),
        ):
            self.commit(1)
            plan = self.reset(to, dryRun=True, **more)
            found = [1, 1]
            for move in plan["moves"]:
                found[move["queueId"]] = move["after"]
            self.assertEqual(found, expected, (to, more))

    def test_online(self) -> None:
        """The members of a group are told, by their broker, and nothing is written behind their backs."""
        member = Member()
        client = RemotingClient(self.front.env, sweeper_of(self.front.env.clock), Dispatcher([member]))
        client.ask(BROKER, Command.request(RequestCode.HEART_BEAT, body=heartbeat("audit", "Orders")), 3.0)
        self.cluster.pump()
        plan = self.reset("earliest", queues=[{"broker": "broker-a", "queueId": 0}])
        self.assertEqual((plan["members"], plan["told"], plan["written"]), (1, ["broker-a"], []))
        (command,) = [one for one in member.told if one.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
        self.assertEqual(ResetOffsetBody.decode(command.body).offset_table, {MessageQueue("Orders", "broker-a", 0): 0})
        client.stop()

    def test_refused(self) -> None:
        """An order that cannot be followed is refused before anything is planned."""
        queue = {"broker": "broker-a", "queueId": 0}
        for order, status, code in (
            ({"group": "other"}, 404, "group-not-found"),
            ({"topic": "Other"}, 404, "topic-not-found"),
            ({"queues": [{"broker": "broker-a", "queueId": 9}]}, 404, "queue-not-found"),
            ({"queues": [queue, queue]}, 400, "invalid-value"),
            ({"queues": [{**queue, "offset": 1}]}, 400, "invalid-value"),
            ({"to": "explicit"}, 400, "invalid-value"),
            ({"to": "explicit", "queues": [queue]}, 400, "invalid-value"),
            ({"to": "time", "value": -1}, 400, "invalid-value"),
            ({"to": "nowhere"}, 400, "invalid-value"),
        ):
            order = {"group": "audit", "topic": "Orders", "to": "earliest", **order}
            found = self.order("POST", "/offsets/reset", order)
            self.assertEqual((found[0], found[1]["code"]), (status, code), order)
        self.assertEqual(self.get("/offsets/plans")["total"], 0)

    def test_gone(self) -> None:
        """A plan for a queue that is there no more fails, and says so."""
        plan = self.reset("latest", dryRun=True)
        self.order("PUT", "/topics/Orders", {"readQueues": 1, "writeQueues": 1})
        self.cluster.pump(1.0)
        status, problem = self.order("POST", f"/offsets/plans/{plan['id']}/apply")
        self.assertEqual((status, problem["code"]), (409, "queue-gone"))
        plan = self.get(f"/offsets/plans/{plan['id']}")
        self.assertEqual((plan["state"], "queue 1" in plan["error"]), ("failed", True))

    def test_old_broker(self) -> None:
        """Where a broker cannot do it, as it is too old, that is said, and the plan has failed."""
        words = "broker broker-a cannot reset single queues of a group that has members"
        self.patch(self.front.ops.admin.positions, "apply", lambda plan: fail(CallFailed(words)))
        order = {"group": "audit", "topic": "Orders", "to": "latest"}
        status, problem = self.order("POST", "/offsets/reset", order)
        self.assertEqual((status, problem["code"], problem["detail"]), (409, "cannot-move", words))
        self.assertEqual(self.get("/offsets/plans")["items"][0]["error"], words)

    def test_nothing_before(self) -> None:
        """A group that had no position cannot be brought back."""
        plan = self.reset("latest", queues=[{"broker": "broker-a", "queueId": 1}])
        self.assertFalse(plan["undoable"])
        for _ in range(2):
            self.assertEqual(self.order("POST", f"/offsets/plans/{plan['id']}/undo")[1]["code"], "not-undoable")


class PlanTests(OffsetCase):
    """Plans that are kept."""

    def test_list(self) -> None:
        """Plans are listed, the newest first, and forgotten when asked to."""
        plans = [self.reset("latest", dryRun=True), self.reset("earliest")]
        page = self.get("/offsets/plans?sort=state&q=audit")
        self.assertEqual(
            [(one["state"], one["to"]) for one in page["items"]], [("applied", "earliest"), ("planned", "latest")]
        )
        self.assertEqual((page["items"][0]["who"], "moves" in page["items"][0]), ("boss", False))
        self.assertEqual(self.order("DELETE", f"/offsets/plans/{plans[0]['id']}")[0], 204)
        self.assertEqual(self.order("GET", f"/offsets/plans/{plans[0]['id']}")[1]["code"], "plan-not-found")
        self.assertEqual(self.get("/offsets/plans")["total"], 1)

    def test_kept(self) -> None:
        """Plans outlive the process."""
        plan = self.reset("earliest")
        other = Front(self.cluster, port=10914)
        self.addCleanup(self.stop_ops, other)
        other.ops.plans.load()
        token = other.ops.tokens.create("second", ["admin"])[1]
        self.cluster.pump()
        self.assertEqual(
            other.get(f"/offsets/plans/{plan['id']}", token=token, headers={"Host": "127.0.0.1:10914"}), plan
        )

    def stop_ops(self, front: Any) -> None:
        """Stop one API, and not its cluster."""
        front.ops.stopService()
        self.cluster.pump(1.0)

    def test_forgotten(self) -> None:
        """A plan is forgotten an hour after it was made, one that was done after seven days; the oldest ones first."""
        self.reset("latest", dryRun=True)
        done = self.reset("earliest")
        self.assertEqual(done["expiresMs"] - done["appliedMs"], DONE_MS)
        plans = self.front.ops.plans
        clock = self.front.env.clock
        self.patch(clock, "wall_ms", lambda: done["madeMs"] + PLANNED_MS + 1000)
        self.assertEqual([one.id for one in plans.all()], [done["id"]])
        self.patch(clock, "wall_ms", lambda: done["appliedMs"] + DONE_MS)
        self.assertEqual(plans.all(), [])

    def test_bounded(self) -> None:
        """No more than so many are kept."""
        kept = self.front.ops.plans
        self.reset("earliest")
        plan = kept.all()[0].plan
        for _ in range(KEPT + 5):
            Deferred.fromCoroutine(kept.add("boss", "earliest", 0, plan))
        self.assertEqual(len(kept.all()), KEPT)
