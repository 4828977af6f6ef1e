"""The explanation why a message did, or did not, reach a group."""

from __future__ import annotations

from typing import Any, get_args

from smartgo.ops.reading.explain import Verdict
from smartgo.ops.reading.explaintexts import TEXTS
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendBackRequest
from tests.ops.resources.test_offsets import OffsetCase


class ExplainTests(OffsetCase):
    """Explanations, of the message at 1 of queue 0."""

    def explain(self, group: str = "audit", message_id: str = "") -> tuple[str, dict[str, Any]]:
        """The verdict, and the checks by name."""
        self.front.ops.view.forget()
        message_id = message_id or self.at(0, 1)["offsetId"]
        found = self.get(f"/messages/{message_id}/explain?group={group}&topic=Orders")
        self.assertEqual(found["summary"], TEXTS[f"verdict.{found['verdict']}"].format(**found["values"]))
        for one in found["checks"]:
            self.assertEqual(one["detail"], TEXTS[one["code"]].format(**one["values"]))
            self.assertEqual(one["code"].partition(".")[0], one["name"])
        return found["verdict"], {check["name"]: check for check in found["checks"]}

    def give_back(self, delay_level: int) -> None:
        """Give it back; the level is -1 for never again."""
        header = SendBackRequest(
            offset=self.at(0, 1)["logOffset"], group="audit", delay_level=delay_level, origin_topic="Orders"
        )
        self.assertEqual(self.cluster.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code, 0)

    def test_nothing(self) -> None:
        """There is no such message, or no such group."""
        verdict, checks = self.explain(message_id="nothing")
        self.assertEqual((verdict, list(checks), checks["message"]["outcome"]), ("no-message", ["message"], "bad"))
        verdict, checks = self.explain("other")
        self.assertEqual((verdict, list(checks)), ("no-group", ["message", "permission", "group"]))

    def test_sentences(self) -> None:
        """There is a sentence for each verdict."""
        verdicts = {key.removeprefix("verdict.") for key in TEXTS if key.startswith("verdict.")}
        self.assertEqual(verdicts, {*get_args(Verdict)})

    def test_order(self) -> None:
        """The checks come in the order in which a message has its way."""
        self.cluster.heartbeat("audit", "Orders")
        self.assertEqual(self.explain()[1]["members"]["detail"], "1 member is connected.")
        names = "message permission group enabled members subscription filter position retry dead"
        self.assertEqual(list(self.explain()[1]), names.split())

    def test_position(self) -> None:
        """A group that has it before it has not come to it; one that is past it has consumed it."""
        self.cluster.heartbeat("audit", "Orders")
        self.commit(0)
        verdict, checks = self.explain()
        self.assertEqual((verdict, checks["position"]["facts"]["ahead"]), ("waiting", 1))
        self.commit(2)
        verdict, checks = self.explain()
        self.assertEqual((verdict, checks["position"]["outcome"]), ("consumed", "well"))

    def test_offline(self) -> None:
        """A group without members gets nothing; what it had before they went, it had."""
        self.assertEqual(self.explain()[0], "offline")
        self.commit(2)
        self.assertEqual(self.explain()[0], "consumed")

    def test_subscription(self) -> None:
        """Who subscribes to other topics, or other tags, does not get it."""
        self.cluster.heartbeat("audit", "Payments")
        verdict, checks = self.explain()
        self.assertEqual((verdict, checks["subscription"]["facts"]["topics"]), ("not-subscribed", ["Payments"]))
        self.cluster.heartbeat("audit", "Orders", tags="odd", version=2)
        verdict, checks = self.explain()
        self.assertEqual((verdict, checks["filter"]["outcome"]), ("filtered", "bad"))
        self.assertEqual(checks["filter"]["detail"], "The subscription expects odd; the message has tag even.")
        self.cluster.heartbeat("audit", "Orders", tags="odd||even", version=3)
        self.assertEqual(self.explain()[0], "waiting")

    def test_forbidden(self) -> None:
        """A topic that cannot be read, or a group that may not consume, keeps it back."""
        self.cluster.heartbeat("audit", "Orders")
        self.order("PUT", "/groups/audit", {"consumeEnabled": False})
        self.assertEqual(self.explain()[0], "disabled")
        message_id = self.at(0, 1)["offsetId"]
        self.order("PUT", "/topics/Orders", {"readQueues": 2, "writeQueues": 2, "perm": "write"})
        self.assertEqual(self.explain(message_id=message_id)[0], "no-permission")

    def test_given_back(self) -> None:
        """What was given back will come again, until it is consumed, or put aside for good."""
        self.cluster.heartbeat("audit", "Orders", "%RETRY%audit")
        self.commit(2)
        self.give_back(1)
        self.cluster.pump(0.5)
        verdict, checks = self.explain()
        self.assertEqual((verdict, checks["retry"]["facts"]["topic"]), ("retrying", "SCHEDULE_TOPIC_XXXX"))
        self.cluster.pump(3.0)
        verdict, checks = self.explain()
        self.assertEqual((verdict, checks["retry"]["facts"]["topic"]), ("retrying", "%RETRY%audit"))
        self.assertEqual(checks["retry"]["facts"]["times"], 1)
        self.commit(1, topic="%RETRY%audit")
        self.assertEqual(self.explain()[0], "consumed")
        self.give_back(-1)
        self.cluster.pump(1.0)
        verdict, checks = self.explain()
        self.assertEqual((verdict, checks["dead"]["outcome"]), ("dead", "bad"))
        self.order("POST", f"/dlq/audit/messages/{checks['dead']['facts']['offsetId']}/resend", {})
        self.cluster.pump(1.0)
        self.assertEqual(self.explain()[0], "retrying")

    def test_skipped(self) -> None:
        """Where the group was moved past it, the plan that did so is named."""
        plan = self.reset("latest")
        verdict, checks = self.explain()
        self.assertEqual((verdict, checks["position"]["facts"]["plan"]), ("skipped", plan["id"]))
