"""Registration with registries."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.announce import Announcer, Identity, Registered
from smartgo.broker.topics import TopicTable
from smartgo.errors import CallTimedOut, NotConnected
from smartgo.schema.bodies import RegisterBrokerBody, TopicConfig
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from tests.fakes import FakeClock

ME = Identity("C", "broker-a", 0, "192.0.2.1:10911", "192.0.2.1:10912")


class Asked:
    """One call that was made, and its answer to be given."""

    def __init__(self, address: str, command: Command, timeout: float) -> None:
        self.address = address
        self.command = decode(encode(command)[4:])
        self.timeout = timeout
        self.answer: Deferred[Command] = Deferred()

    @property
    def code(self) -> int:
        """The request code."""
        return self.command.code

    @property
    def topics(self) -> dict[str, Any]:
        """The topics of a registration."""
        return dict(msgspec.json.decode(self.command.body)["topicConfigSerializeWrapper"]["topicConfigTable"])

    @property
    def version(self) -> dict[str, int]:
        """The data version of a registration."""
        return dict(msgspec.json.decode(self.command.body)["topicConfigSerializeWrapper"]["dataVersion"])

    def reply(self, code: int = 0, body: bytes = b"", **fields: str) -> None:
        """Answer, as it comes off the wire."""
        sent = self.command.answer(code, "no" if code else None, None, body, fields)
        self.answer.callback(decode(encode(sent)[4:]))


class AnnouncerCase(SynchronousTestCase):
    """An announcer with registries that answer when told."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.topics = TopicTable(self.clock)
        for name in "AB":
            self.topics.update(TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=2))
        self.asked: list[Asked] = []
        self.addresses = ["r1:9876", "r2:9876"]
        self.heard: list[Registered] = []
        self.permission = 6

    def ask(self, address: str, command: Command, timeout: float) -> Deferred[Command]:
        """Remember the call."""
        self.asked.append(Asked(address, command, timeout))
        return self.asked[-1].answer

    def announcer(self, **settings: Any) -> Announcer:
        """One that has not started."""
        return Announcer(
            self.clock,
            self.ask,
            self.topics,
            lambda: self.addresses,
            ME,
            permission=lambda: self.permission,
            on_registered=self.heard.append,
            **settings,
        )

    def started(self, **settings: Any) -> Announcer:
        """One that registered with both."""
        announcer = self.announcer(**settings)
        announcer.startService()
        for one in self.take():
            one.reply()
        self.assertEqual(self.successResultOf(announcer.first_round), 2)
        self.heard.clear()
        return announcer

    def take(self) -> list[Asked]:
        """The calls since the last time."""
        asked, self.asked = self.asked, []
        return asked


class RoundTests(AnnouncerCase):
    """Full registrations."""

    def test_at_start(self) -> None:
        """At start every registry gets all topics, with a checksum, and is waited for 6 s at most."""
        announcer = self.announcer(force=False)
        announcer.startService()
        asked = self.take()
        self.assertEqual([one.address for one in asked], self.addresses)
        for one in asked:
            self.assertEqual((one.code, one.timeout), (RequestCode.REGISTER_BROKER, 6.0))
            self.assertEqual(
                one.command.fields,
                {
                    "brokerName": "broker-a", "brokerAddr": "192.0.2.1:10911", "clusterName": "C",
                    "haServerAddr": "192.0.2.1:10912", "brokerId": "0", "compressed": "false",
                    "bodyCrc32": str(zlib.crc32(one.command.body) & 0x7FFFFFFF),
                },
            )  # fmt: skip
            self.assertEqual(sorted(one.topics), ["A", "B"])
            self.assertEqual(one.topics["A"]["readQueueNums"], 2)
            self.assertEqual(one.version, {"counter": 2, "timestamp": self.clock.wall_ms()})
            self.assertEqual(msgspec.json.decode(one.command.body)["filterServerList"], [])
        self.assertNoResult(announcer.first_round)
        asked[1].reply()
        self.assertNoResult(announcer.first_round)
        asked[0].answer.errback(NotConnected("r1:9876"))
        self.assertEqual(self.successResultOf(announcer.first_round), 1)

    def test_rhythm(self) -> None:
        """It registers again 10 s after the start, then each period, held within 10 to 60 s."""
        for period, wanted in (30.0, 30.0), (1.0, 10.0), (600.0, 60.0):
            announcer = self.started(period=period)
            self.clock.advance(9.5)
            self.assertEqual(self.take(), [])
            self.clock.advance(0.5)
            for _ in range(2):
                asked = self.take()
                self.assertEqual([one.code for one in asked], [RequestCode.REGISTER_BROKER] * 2)
                for one in asked:
                    one.reply()
                self.clock.advance(wanted - 1)
                self.assertEqual(self.take(), [])
                self.clock.advance(1)
            for one in self.take():
                one.reply()
            self.farewell(announcer)

    def farewell(self, announcer: Announcer) -> None:
        """Stop it."""
        stopped = announcer.stopService()
        for one in self.take():
            one.reply()
        self.successResultOf(stopped)

    def test_addresses_may_change(self) -> None:
        """The list of registries is read each time; one that is named twice is asked once."""
        self.started()
        self.addresses = ["r3:9876", "r2:9876", "r3:9876"]
        self.clock.advance(10)
        self.assertEqual([one.address for one in self.take()], ["r3:9876", "r2:9876"])

    def test_no_registries(self) -> None:
        """Without registries the first round is over at once."""
        self.addresses = []
        announcer = self.announcer()
        announcer.startService()
        self.assertEqual(self.successResultOf(announcer.first_round), 0)
        self.assertIsNone(self.successResultOf(announcer.stopService()))

    def test_slow_registry(self) -> None:
        """A registry that is still being waited for gets the next table after it has answered, and not two at once."""
        announcer = self.announcer()
        announcer.startService()
        one, two = self.take()
        two.reply()
        self.clock.advance(10)
        self.assertEqual([one.address for one in self.take()], ["r2:9876"])
        one.answer.errback(CallTimedOut("r1:9876", 6))
        self.assertEqual([one.address for one in self.take()], ["r1:9876"])

    def test_refusal(self) -> None:
        """A registry that refuses does not count, and is asked again next time."""
        announcer = self.announcer()
        announcer.startService()
        one, two = self.take()
        one.reply(1)
        two.reply()
        self.assertEqual(self.successResultOf(announcer.first_round), 1)
        self.clock.advance(10)
        self.assertEqual(len(self.take()), 2)

    def test_first_answer_wins(self) -> None:
        """What the first answer of a round says about the master counts, the others are not looked at."""
        announcer = self.announcer()
        announcer.startService()
        one, two = self.take()
        two.reply(masterAddr="m:1", haServerAddr="m:2")
        one.reply(masterAddr="x:1", haServerAddr="x:2")
        self.assertEqual(self.heard, [Registered("m:1", "m:2")])
        self.clock.advance(10)
        self.take()[0].reply()
        self.assertEqual(self.heard[1:], [Registered(None, None)])

    def test_order_topics(self) -> None:
        """Topics of the answer's table become ordered, all others not; an answer without a table changes nothing."""
        self.topics.update(TopicConfig(topic_name="B", order=True))
        announcer = self.announcer()
        announcer.startService()
        self.take()[0].reply()
        self.assertEqual([one and one.order for one in map(self.topics.get, "AB")], [False, True])
        self.clock.advance(10)
        one = self.take()[0]
        self.assertEqual(one.address, "r1:9876")
        one.reply(body=b'{"table":{"A":"broker-a:2","nowhere":"x:1"}}')
        self.assertEqual([one and one.order for one in map(self.topics.get, "AB")], [True, False])

    def test_unreadable_answer(self) -> None:
        """An answer that cannot be read does not stop anything; the next one counts."""
        announcer = self.announcer()
        announcer.startService()
        one, two = self.take()
        one.reply(body=b"nonsense")
        two.reply(masterAddr="m:1")
        self.assertEqual(self.successResultOf(announcer.first_round), 2)
        self.assertEqual(self.heard, [Registered("m:1", None)])

    def test_permission(self) -> None:
        """A broker that may not be written, or read, announces every topic so."""
        self.permission = 4
        self.announcer().startService()
        self.assertEqual({one["perm"] for one in self.take()[0].topics.values()}, {4})
        config = self.topics.get("A")
        assert config is not None
        self.assertEqual(config.perm, 6)

    def test_compressed(self) -> None:
        """A compressed table is announced as such, and its checksum is of the compressed bytes."""
        self.announcer(compressed=True).startService()
        one = self.take()[0]
        self.assertEqual(one.command.fields["compressed"], "true")
        self.assertEqual(one.command.fields["bodyCrc32"], str(zlib.crc32(one.command.body) & 0x7FFFFFFF))
        body = RegisterBrokerBody.decode(one.command.body, True)
        self.assertEqual(sorted(body.topic_config_serialize_wrapper.topic_config_table), ["A", "B"])


class ChangeTests(AnnouncerCase):
    """Increments."""

    def test_at_once(self) -> None:
        """A topic that is created or changed is announced at once, alone."""
        self.started()
        self.topics.create_for_group("%RETRY%g", 1)
        asked = self.take()
        self.assertEqual([one.address for one in asked], self.addresses)
        for one in asked:
            self.assertEqual((one.code, list(one.topics)), (RequestCode.REGISTER_BROKER, ["%RETRY%g"]))

    def test_version_is_not_the_tables(self) -> None:
        """An increment's version is never that of a full table, else a registry would not take the next full one."""
        self.started()
        self.topics.create_for_group("%RETRY%g", 1)
        increment, other = self.take()
        increment.reply()
        other.reply()
        self.clock.advance(10)
        full, _ = self.take()
        self.assertEqual(sorted(full.topics), ["%RETRY%g", "A", "B"])
        self.assertNotEqual(increment.version, full.version)

    def test_gathered(self) -> None:
        """What changes while a registry is being waited for goes out together, after its answer."""
        self.started()
        for name in "XYZ":
            self.topics.create_for_group(name, 1)
        first, other = self.take()
        self.assertEqual(list(first.topics), ["X"])
        first.reply()
        (second,) = self.take()
        self.assertEqual((second.address, sorted(second.topics)), (first.address, ["Y", "Z"]))
        other.reply()
        self.assertEqual([sorted(one.topics) for one in self.take()], [["Y", "Z"]])
        second.reply()
        self.assertEqual(self.take(), [])

    def test_full_takes_them_along(self) -> None:
        """What waits is part of the full table that goes out before it, and not sent again."""
        self.started()
        self.topics.create_for_group("X", 1)
        first, _ = self.take()
        self.clock.advance(10)
        self.topics.create_for_group("Y", 1)
        first.reply()
        (full,) = self.take()
        self.assertEqual(sorted(full.topics), ["A", "B", "X", "Y"])
        full.reply()
        self.assertEqual([one for one in self.take() if one.address == full.address], [])

    def test_deleted(self) -> None:
        """A deleted topic is not announced: registries forget it by 216."""
        self.started()
        self.topics.delete("A")
        self.assertEqual(self.take(), [])

    def test_not_running(self) -> None:
        """Before the start and after the stop changes are not announced."""
        announcer = self.announcer()
        self.topics.create_for_group("X", 1)
        self.assertEqual(self.take(), [])
        announcer.startService()
        waiting, _ = self.take()
        self.topics.create_for_group("Y", 1)
        announcer.stopService()
        self.assertEqual([one.code for one in self.take()], [RequestCode.UNREGISTER_BROKER] * 2)
        waiting.reply()
        self.topics.create_for_group("Z", 1)
        self.assertEqual(self.take(), [])


class AskFirstTests(AnnouncerCase):
    """C{forceRegister} off."""

    def test_unchanged(self) -> None:
        """It asks each registry about its version, and does not register while all have it."""
        self.started(force=False)
        version = self.topics.version
        self.clock.advance(10)
        asked = self.take()
        self.assertEqual([one.code for one in asked], [RequestCode.QUERY_DATA_VERSION] * 2)
        self.assertEqual(
            asked[0].command.fields,
            {"brokerName": "broker-a", "brokerAddr": "192.0.2.1:10911", "clusterName": "C", "brokerId": "0"},
        )
        self.assertEqual(
            msgspec.json.decode(asked[0].command.body), {"counter": version.counter, "timestamp": version.timestamp}
        )
        asked[0].reply(changed="false", body=asked[0].command.body)
        asked[1].reply(changed="false")
        self.assertEqual(self.take(), [])

    def test_changed(self) -> None:
        """It registers with all when one says changed, has another version, fails or does not answer."""
        other = b'{"counter":1,"timestamp":2}'
        for trouble in ("changed", "other", "failed", "refused", "unreadable"):
            announcer = self.started(force=False)
            self.clock.advance(10)
            one, two = self.take()
            two.reply(changed="false")
            if trouble == "changed":
                one.reply(changed="true")
            elif trouble == "other":
                one.reply(changed="false", body=other)
            elif trouble == "failed":
                one.answer.errback(NotConnected("r1"))
            elif trouble == "refused":
                one.reply(1)
            else:
                one.reply(changed="false", body=b"[")
            self.assertEqual([one.code for one in self.take()], [RequestCode.REGISTER_BROKER] * 2, trouble)
            announcer.stopService()
            self.take()


class FarewellTests(AnnouncerCase):
    """The end."""

    def test_unregisters(self) -> None:
        """At stop every registry is told (104); the stop waits for them and leaves no timer."""
        announcer = self.started()
        stopped = announcer.stopService()
        one, two = self.take()
        self.assertEqual((one.code, one.timeout), (RequestCode.UNREGISTER_BROKER, 3.0))
        self.assertEqual(
            one.command.fields,
            {"brokerName": "broker-a", "brokerAddr": "192.0.2.1:10911", "clusterName": "C", "brokerId": "0"},
        )
        self.assertNoResult(stopped)
        one.reply()
        two.answer.errback(NotConnected("r2"))
        self.assertIsNone(self.successResultOf(stopped))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_bug_is_logged(self) -> None:
        """What nobody expected is logged, and rounds go on."""
        announcer = self.announcer()

        def broken(address: str, command: Command, timeout: float) -> Deferred[Command]:
            raise ZeroDivisionError

        announcer._ask = broken
        announcer.startService()
        self.assertEqual(self.successResultOf(announcer.first_round), 0)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        announcer._ask = self.ask
        self.clock.advance(10)
        self.assertEqual(len(self.take()), 2)
