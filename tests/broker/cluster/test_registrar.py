"""Registration with registries."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.cluster.registrar import Registrar
from smartgo.broker.cluster.registration import Identity
from smartgo.broker.cluster.registrystate import Registered
from smartgo.broker.tables.topics import TopicTable
from smartgo.errors import CallTimedOut, NotConnected
from smartgo.remoting.interfaces import IConnectionListener
from smartgo.schema.bodies import RegisterBrokerBody, TopicConfig
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from tests.broker import doubles
from tests.broker.doubles import FakePeer
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


class RegistrarCase(SynchronousTestCase):
    """A registrar with registries that answer when told."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.topics = TopicTable(self.clock)
        for name in "AB":
            self.topics.update(TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=2))
        self.asked: list[Asked] = []
        self.all: list[Asked] = []
        self.registrars: list[Registrar] = []
        self.settings = doubles.current()
        self.given: dict[str, object] = {}
        self.set(namesrv_addr=("r1:9876", "r2:9876"))
        self.heard: list[Registered] = []
        self.chance = 0.0
        self.reasons: list[str | None] = []

    def ask(self, address: str, command: Command, timeout: float) -> Deferred[Command]:
        """Remember the call."""
        self.asked.append(Asked(address, command, timeout))
        self.all.append(self.asked[-1])
        return self.asked[-1].answer

    def set(self, **settings: object) -> None:
        """Put settings in force, beside those that were put in force before."""
        self.given |= settings
        doubles.change(self.settings, **self.given)

    @property
    def addresses(self) -> list[str]:
        """The registries."""
        return list(self.settings.broker.namesrv_addr)

    def registrar(self, identity: Identity = ME, **settings: object) -> Registrar:
        """One that has not started."""
        self.set(**settings)
        registrar = Registrar(self.clock, self.ask, self.topics, identity, self.settings, lambda: self.chance)
        registrar.registered.add(self.heard.append)
        registrar.lease_changed.add(self.reasons.append)
        self.registrars.append(registrar)
        return registrar

    def tearDown(self) -> None:
        """Nothing is left waiting."""
        for registrar in self.registrars:
            if registrar.running:
                registrar.stopService()
        for one in self.all:  # answers may bring about more
            if not one.answer.called:
                one.answer.errback(NotConnected("the test is over"))

    def started(self, **settings: Any) -> Registrar:
        """One that registered with both."""
        registrar = self.registrar(**settings)
        registrar.startService()
        for one in self.take():
            one.reply()
        self.assertEqual(self.successResultOf(registrar.first_round), 2)
        self.heard.clear()
        return registrar

    def take(self) -> list[Asked]:
        """The calls since the last time."""
        asked, self.asked = self.asked, []
        return asked


class RoundTests(RegistrarCase):
    """Full registrations."""

    def test_at_start(self) -> None:
        """At start every registry gets all topics, with a checksum, and is waited for 6 s at most."""
        registrar = self.registrar(force_register=False)
        registrar.startService()
        asked = self.take()
        self.assertEqual([one.address for one in asked], self.addresses)
        for one in asked:
            self.assertEqual((one.code, one.timeout), (RequestCode.REGISTER_BROKER, 6.0))
            self.assertEqual(
                one.command.fields,
                {
                    "brokerName": "broker-a", "brokerAddr": "192.0.2.1:10911", "clusterName": "C",
                    "haServerAddr": "192.0.2.1:10912", "brokerId": "0", "compressed": "false",
                    "bodyCrc32": str(zlib.crc32(one.command.body) & 0x7FFFFFFF), "smartgoLease": "",
                },
            )  # fmt: skip
            self.assertEqual(sorted(one.topics), ["A", "B"])
            self.assertEqual(one.topics["A"]["readQueueNums"], 2)
            self.assertEqual(one.version, {"counter": 2, "timestamp": self.clock.wall_ms()})
            self.assertEqual(msgspec.json.decode(one.command.body)["filterServerList"], [])
        self.assertNoResult(registrar.first_round)
        asked[1].reply()
        self.assertNoResult(registrar.first_round)
        asked[0].answer.errback(NotConnected("r1:9876"))
        self.assertEqual(self.successResultOf(registrar.first_round), 1)

    def test_rhythm(self) -> None:
        """It registers again 10 s after the start, then each period, held within 10 to 60 s."""
        for period, wanted in (30.0, 30.0), (1.0, 10.0), (600.0, 60.0):
            registrar = self.started(register_name_server_period=period)
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
            self.unregister(registrar)

    def unregister(self, registrar: Registrar) -> None:
        """Stop it."""
        stopped = registrar.stopService()
        for one in self.take():
            one.reply()
        self.successResultOf(stopped)

    def test_addresses_may_change(self) -> None:
        """The list of registries is read each time; one that is named twice is asked once."""
        self.started()
        self.set(
            namesrv_addr=(
                "r3:9876",
                "r2:9876",
                "r3:9876",
            )
        )
        self.clock.advance(10)
        self.assertEqual([one.address for one in self.take()], ["r3:9876", "r2:9876"])

    def test_no_registries(self) -> None:
        """Without registries the first round is over at once."""
        self.set(namesrv_addr=())
        registrar = self.registrar()
        registrar.startService()
        self.assertEqual(self.successResultOf(registrar.first_round), 0)
        self.assertIsNone(self.successResultOf(registrar.stopService()))

    def test_slow_registry(self) -> None:
        """A registry that is still being waited for gets the next table after it has answered, and not two at once."""
        registrar = self.registrar()
        registrar.startService()
        one, two = self.take()
        two.reply()
        self.clock.advance(10)
        self.assertEqual([one.address for one in self.take()], ["r2:9876"])
        one.answer.errback(CallTimedOut("r1:9876", 6))
        self.assertEqual([one.address for one in self.take()], ["r1:9876"])

    def test_refusal(self) -> None:
        """A registry that refuses does not count, and is asked again next time."""
        registrar = self.registrar()
        registrar.startService()
        one, two = self.take()
        one.reply(1)
        two.reply()
        self.assertEqual(self.successResultOf(registrar.first_round), 1)
        self.clock.advance(10)
        self.assertEqual(len(self.take()), 2)

    def test_first_answer_wins(self) -> None:
        """The first answer of a round that names a master counts; that there is none is known when all have spoken."""
        registrar = self.registrar()
        registrar.startService()
        one, two = self.take()
        two.reply(masterAddr="m:1", haServerAddr="m:2")
        one.reply(masterAddr="x:1", haServerAddr="x:2")
        self.assertEqual(self.heard, [Registered("m:1", "m:2")])
        self.clock.advance(10)
        one, two = self.take()
        one.reply()
        two.reply(masterAddr="m:1", haServerAddr="m:2")
        self.assertEqual(self.heard[1:], [Registered("m:1", "m:2")])
        self.clock.advance(30)
        one, two = self.take()
        one.reply()
        self.assertEqual(self.heard[2:], [])
        two.answer.errback(NotConnected("r2"))
        self.assertEqual(self.heard[2:], [Registered(None, None)])

    def test_order_topics(self) -> None:
        """Topics of the answer's table become ordered, all others not; an answer without a table changes nothing."""
        self.topics.update(TopicConfig(topic_name="B", order=True))
        registrar = self.registrar()
        registrar.startService()
        self.take()[0].reply()
        self.assertEqual([one and one.order for one in map(self.topics.get, "AB")], [False, True])
        self.clock.advance(10)
        one = self.take()[0]
        self.assertEqual(one.address, "r1:9876")
        one.reply(body=b'{"table":{"A":"broker-a:2","nowhere":"x:1"}}')
        self.assertEqual([one and one.order for one in map(self.topics.get, "AB")], [True, False])

    def test_unreadable_answer(self) -> None:
        """An answer that cannot be read does not stop anything; the next one counts."""
        registrar = self.registrar()
        registrar.startService()
        one, two = self.take()
        one.reply(body=b"nonsense")
        two.reply(masterAddr="m:1")
        self.assertEqual(self.successResultOf(registrar.first_round), 2)
        self.assertEqual(self.heard, [Registered("m:1", None)])

    def test_permission(self) -> None:
        """A broker that may not be written, or read, announces every topic so."""
        self.set(broker_permission=4)
        self.registrar().startService()
        self.assertEqual({one["perm"] for one in self.take()[0].topics.values()}, {4})
        config = self.topics.get("A")
        assert config is not None
        self.assertEqual(config.perm, 6)

    def test_advertised(self) -> None:
        """Other addresses go along with every table, in fields of our own."""
        registrar = self.registrar(ME._replace(advertised="10.0.0.0/8=a:1", ha_advertised="10.0.0.0/8=b:2"))
        registrar.startService()
        for one in self.take():
            self.assertEqual(one.command.fields["smartgoAdvertised"], "10.0.0.0/8=a:1")
            self.assertEqual(one.command.fields["smartgoAdvertisedHa"], "10.0.0.0/8=b:2")

    def test_compressed(self) -> None:
        """A compressed table is announced as such, and its checksum is of the compressed bytes."""
        self.registrar(compressed_register=True).startService()
        one = self.take()[0]
        self.assertEqual(one.command.fields["compressed"], "true")
        self.assertEqual(one.command.fields["bodyCrc32"], str(zlib.crc32(one.command.body) & 0x7FFFFFFF))
        body = RegisterBrokerBody.decode(one.command.body, True)
        self.assertEqual(sorted(body.topic_config_serialize_wrapper.topic_config_table), ["A", "B"])


class ChangeTests(RegistrarCase):
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
        registrar = self.registrar()
        self.topics.create_for_group("X", 1)
        self.assertEqual(self.take(), [])
        registrar.startService()
        waiting, _ = self.take()
        self.topics.create_for_group("Y", 1)
        registrar.stopService()
        self.assertEqual([one.code for one in self.take()], [RequestCode.UNREGISTER_BROKER] * 2)
        waiting.reply()
        self.topics.create_for_group("Z", 1)
        self.assertEqual(self.take(), [])


class AskFirstTests(RegistrarCase):
    """C{forceRegister} off."""

    def test_unchanged(self) -> None:
        """It asks each registry about its version, and does not register while all have it."""
        self.started(force_register=False)
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
        """It registers with one that says changed, has another version or fails to answer, and with that one alone."""
        other = b'{"counter":1,"timestamp":2}'
        for trouble in ("changed", "other", "failed", "refused", "unreadable"):
            registrar = self.started(force_register=False)
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
            wanted = [(one.address, RequestCode.REGISTER_BROKER)]
            self.assertEqual([(each.address, each.code) for each in self.take()], wanted, trouble)
            registrar.stopService()
            self.take()


class InformedTests(RegistrarCase):
    """Waiting for the registries to hear of a change."""

    def change(self, topic: str) -> None:
        """A topic is made or changed."""
        self.topics.update(TopicConfig(topic_name=topic, read_queue_nums=3))

    def told(self, registrar: Registrar) -> Deferred[None]:
        """The wait, which there is."""
        told = registrar.informed()
        assert told is not None
        return told

    def test_all(self) -> None:
        """It is over when the last registry has answered, whether it took it or not."""
        registrar = self.started()
        self.assertIsNone(registrar.informed())
        self.change("A")
        told = self.told(registrar)
        one, two = self.take()
        one.reply()
        self.assertNoResult(told)
        two.reply(1)
        self.successResultOf(told)
        self.assertIsNone(registrar.informed())

    def test_behind_others(self) -> None:
        """A change that waits for the one before it to be answered has its own registration awaited."""
        self.set(namesrv_addr=("r1:9876",))
        registrar = self.registrar()
        registrar.startService()
        self.take()[0].reply()
        self.change("A")
        (first,) = self.take()
        self.change("B")
        told = self.told(registrar)
        first.reply()
        self.assertNoResult(told)
        (second,) = self.take()
        self.assertEqual(set(second.topics), {"B"})
        second.reply()
        self.successResultOf(told)

    def test_silent(self) -> None:
        """It is over after two seconds even so; one that did not take the last registration is not waited for."""
        registrar = self.started()
        self.change("A")
        told = self.told(registrar)
        one, two = self.take()
        one.reply()
        self.clock.advance(1.9)
        self.assertNoResult(told)
        self.clock.advance(0.1)
        self.successResultOf(told)
        two.answer.errback(NotConnected("r2"))
        self.change("B")
        told = self.told(registrar)
        for asked in self.take():
            if asked.address == "r1:9876":
                asked.reply()
        self.successResultOf(told)


class TroubleTests(RegistrarCase):
    """Registries that are down, slow, empty or wrong (F18)."""

    def wait(self, seconds: float) -> list[Asked]:
        """Return the requests after exactly so many seconds, and check that there are none before."""
        self.clock.advance(seconds - 0.001)
        self.assertEqual(self.take(), [])
        self.clock.advance(0.002)
        return self.take()

    def test_asked_again(self) -> None:
        """One that fails is asked again after 1, 2, 4, 8, 10 and 10 s, with all topics, whatever the others do."""
        registrar = self.registrar(register_name_server_period=60.0)
        registrar.startService()
        one, two = self.take()
        two.reply()
        one.answer.errback(NotConnected("r1"))
        for seconds in (1.0, 2.0, 4.0):
            (one,) = self.wait(seconds)
            self.assertEqual((one.address, sorted(one.topics)), ("r1:9876", ["A", "B"]))
            one.answer.errback(CallTimedOut("r1", 6.0))
        self.clock.advance(3.0)  # the second round of all
        one, two = self.take()
        two.reply()
        one.reply(1)
        for _ in range(3):
            (one,) = self.wait(10.0)
            one.answer.errback(NotConnected("r1"))
        (one,) = self.wait(10.0)
        one.reply()
        self.clock.advance(15.0)
        self.assertEqual(self.take(), [])

    def test_by_chance(self) -> None:
        """The pauses are shorter by up to a half, so that not all brokers come at once."""
        self.chance = 0.999
        self.registrar().startService()
        one, _ = self.take()
        one.answer.errback(NotConnected("r1"))
        self.clock.advance(0.51)
        self.assertEqual([one.address for one in self.take()], ["r1:9876"])

    def test_slow(self) -> None:
        """One that is slow, asked first or not, keeps no other from its rounds and changes."""
        for force in (True, False):
            registrar = self.started(force_register=force)
            self.clock.advance(10)
            for _ in range(3):
                asked = [one for one in self.take() if one.address == "r2:9876"]
                self.assertEqual(len(asked), 1)
                asked[0].reply(changed="true")
                if not force:
                    (registration,) = self.take()
                    registration.reply()
                self.clock.advance(30)
            registrar.stopService()
            self.take()

    def test_said_once(self) -> None:
        """That a registry does not have us, and that it has us again, is logged once each."""
        with capturedLogs() as events:
            registrar = self.registrar()
            registrar.startService()
            one, two = self.take()
            two.reply()
            for _ in range(5):
                one.answer.errback(NotConnected("no way"))
                self.clock.advance(10)
                one, *others = sorted(self.take(), key=lambda one: one.address)
                for other in others:
                    other.reply()
            one.reply()
            self.clock.advance(30)
            for each in self.take():
                each.reply()
        texts = [formatEvent(event) for event in events]
        self.assertEqual(
            texts,
            [
                "registered with r2:9876",
                "registry r1:9876 did not accept our registration: no way",
                "registered with r1:9876",
            ],
        )

    def test_unreadable_once(self) -> None:
        """That what a registry answers cannot be read is logged once, until it can be again."""
        self.started()
        with capturedLogs() as events:
            self.clock.advance(10)
            for body in (b"nonsense", b"nonsense", b"", b"nonsense"):
                one, two = self.take()
                one.reply(body=body)
                two.reply()
                self.clock.advance(30)
        self.assertEqual([event["address"] for event in events], ["r1:9876"] * 2)

    def test_connection_lost(self) -> None:
        """A registry whose connection ended gets all topics a second later at most: it may have begun anew."""
        registrar = self.started()
        registrar._lost("elsewhere:1")
        registrar._lost("r2:9876")
        registrar._lost("r2:9876")
        (two,) = self.wait(1.0)
        self.assertEqual((two.address, sorted(two.topics)), ("r2:9876", ["A", "B"]))

    def test_listener(self) -> None:
        """It hears of connections that end, and of nothing else."""
        self.set(namesrv_addr=("192.0.2.5:9876", *self.addresses[1:]))
        registrar = self.started()
        self.assertTrue(verifyObject(IConnectionListener, registrar.listener))
        peer = FakePeer("192.0.2.5:9876")
        registrar.listener.connected(peer)
        registrar.listener.first_frame(peer)
        registrar.listener.idle(peer, 1.0)
        registrar.listener.failed(peer, Failure(NotConnected("r1")))
        self.clock.advance(1)
        self.assertEqual(self.take(), [])
        registrar.listener.disconnected(peer, Failure(NotConnected("r1")))
        self.clock.advance(1)
        self.take()[0].reply()
        registrar.listener.closed(peer)
        self.clock.advance(1)
        self.assertEqual([one.address for one in self.take()], ["192.0.2.5:9876"])

    def test_removed(self) -> None:
        """A registry that is no longer named is not asked again."""
        self.registrar().startService()
        one, two = self.take()
        two.reply()
        one.answer.errback(NotConnected("r1"))
        self.set(namesrv_addr=("r2:9876",))
        self.clock.advance(0.5)
        self.take()
        self.clock.advance(9.5)
        self.assertEqual({one.address for one in self.take()}, {"r1:9876", "r2:9876"})
        self.clock.advance(30)
        self.assertEqual([one.address for one in self.take()], [])

    def test_stop(self) -> None:
        """A stop leaves no timer for registries that failed."""
        registrar = self.registrar()
        registrar.startService()
        for one in self.take():
            one.answer.errback(NotConnected("no way"))
        stopped = registrar.stopService()
        for one in self.take():
            one.answer.errback(NotConnected("no way"))
        self.successResultOf(stopped)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class RivalTests(RegistrarCase):
    """Another broker has our name (H6)."""

    def refuse(self, asked: Asked) -> None:
        """Let a registry say so."""
        asked.reply(1, smartgoNameTaken="192.0.2.9:10911")

    def test_newcomer(self) -> None:
        """A broker whose name is taken at one registry takes no messages, and leaves the registry that took it."""
        registrar = self.registrar()
        registrar.startService()
        one, two = self.take()
        two.reply()
        self.assertIsNotNone(registrar.refusal)
        self.refuse(one)
        (unregistered,) = self.take()
        self.assertEqual((unregistered.address, unregistered.code), ("r2:9876", RequestCode.UNREGISTER_BROKER))
        unregistered.reply()
        self.assertEqual(registrar.refusal, "registry r1:9876 does not let this broker be a master: no")
        self.assertEqual(self.reasons[-1], registrar.refusal)

    def leases(self) -> dict[str, str | None]:
        """Return the lease in each registration that is under way, by registry."""
        return {one.address: one.command.fields.get("smartgoLease") for one in self.asked}

    def test_lease(self) -> None:
        """Each registry is shown the lease of its own last answer, with increments too."""
        self.started()
        self.clock.advance(10)
        self.assertEqual(self.leases(), dict.fromkeys(self.addresses, ""))
        for number, one in enumerate(self.take()):
            one.reply(smartgoLease=f"lease-{number}")
        self.topics.create_for_group("%RETRY%G", 1)
        self.assertEqual(self.leases(), {"r1:9876": "lease-0", "r2:9876": "lease-1"})
        one, two = self.take()
        one.reply(smartgoLease="newer")
        two.answer.errback(NotConnected("r2:9876"))
        self.clock.advance(30)
        self.assertEqual(self.leases(), {"r1:9876": "newer", "r2:9876": "lease-1"})

    def test_lease_given_up(self) -> None:
        """Whoever is refused, or stands back, takes no name back."""
        self.started()
        self.clock.advance(10)
        one, two = self.take()
        one.reply(smartgoLease="one")
        two.reply(smartgoLease="two")
        self.clock.advance(30)
        one, two = self.take()
        one.answer.errback(NotConnected("r1:9876"))
        self.refuse(two)  # the other one had us last, a while ago: we go on for now
        self.assertEqual(self.leases(), {})
        self.clock.advance(1)
        self.assertEqual(self.leases(), {"r1:9876": "one", "r2:9876": ""})
        one, two = self.take()
        one.answer.errback(NotConnected("r1:9876"))
        self.refuse(two)
        while self.reasons[-1] is None:
            self.clock.advance(1)
            for each in self.take():
                if each.address == "r2:9876":
                    self.refuse(each)
                else:
                    each.answer.errback(NotConnected("r1:9876"))
        for _ in range(200):  # seconds, until nobody refuses us any more and all are asked
            self.clock.advance(1)
            for each in self.asked:
                self.assertIn(each.command.fields.get("smartgoLease", ""), ("",))
            for each in self.take():
                each.answer.errback(NotConnected(each.address))

    def test_lease_after_standstill(self) -> None:
        """Who stands back after a standstill shows no lease afterwards, not to a registry that was down meanwhile."""
        registrar = self.started()
        self.clock.advance(10)
        for one in self.take():
            one.reply(smartgoLease="lease")
        self.clock.advance(30)
        one, two = self.take()
        one.reply(smartgoLease="lease")
        self.refuse(two)
        self.assertIsNone(registrar.refusal)
        registrar.stood_still(5.0)
        one, two = self.take()
        one.answer.errback(NotConnected("r1:9876"))
        self.refuse(two)
        self.assertIsNotNone(registrar.refusal)
        self.clock.advance(10)
        (two,) = self.take()
        two.reply(smartgoLease="newer")
        self.assertEqual(self.leases(), {"r1:9876": "", "r2:9876": "newer"})

    def test_keeps_asking(self) -> None:
        """It asks the registry that refuses it alone, and is master everywhere when that takes it."""
        registrar = self.registrar()
        registrar.startService()
        one, two = self.take()
        self.refuse(one)
        two.reply()
        (unregistered,) = self.take()
        unregistered.reply()
        for _ in range(8):
            self.topics.create_for_group(f"%RETRY%{len(self.topics)}", 1)
            self.clock.advance(10)
            (one,) = self.take()
            self.assertEqual((one.address, one.code), ("r1:9876", RequestCode.REGISTER_BROKER))
            self.refuse(one)
        self.clock.advance(10)
        (one,) = self.take()
        one.reply()
        asked = self.take()
        self.assertEqual({each.address for each in asked}, set(self.addresses))
        self.assertIsNotNone(registrar.refusal)
        for each in asked:
            each.reply()
        self.assertEqual((registrar.refusal, self.reasons[-1]), (None, None))

    def test_holder(self) -> None:
        """A master that one registry refuses goes on for 10 s at least, then yields; if it is taken again, it stays."""
        registrar = self.started()
        for yields in (False, True):
            self.clock.advance(10 if not yields else 30)
            one, two = self.take()
            two.reply()
            self.refuse(one)
            self.assertIsNone(registrar.refusal)
            self.clock.advance(9)
            (one,) = self.take()
            if yields:
                self.refuse(one)
                self.assertIsNone(registrar.refusal)
                self.clock.advance(2)
                (one,) = self.take()
                self.refuse(one)
                self.assertIsNotNone(registrar.refusal)
                self.assertEqual([each.code for each in self.take()], [RequestCode.UNREGISTER_BROKER])
            else:
                one.reply()

    def test_other_refusals(self) -> None:
        """A registry that refuses for another reason, or takes everybody, leaves a master in its place."""
        registrar = self.registrar()
        registrar.startService()
        one, two = self.take()
        one.reply(1)
        two.reply()
        self.assertIsNone(registrar.refusal)

    def test_slave(self) -> None:
        """A slave claims no name: what registries say to it says nothing about messages."""
        registrar = self.registrar(ME._replace(broker_id=1))
        registrar.startService()
        one, two = self.take()
        self.refuse(one)
        two.reply()
        registrar.stood_still(500.0)
        self.assertEqual((registrar.refusal, self.reasons, self.take()), (None, [], []))

    def test_said(self) -> None:
        """That no messages are accepted is logged as an error once, and that they are again."""
        with capturedLogs() as events:
            self.registrar().startService()
            one, two = self.take()
            self.refuse(one)
            two.reply()
            self.take()[0].reply()
            self.clock.advance(1)
            self.refuse(self.take()[0])
            self.clock.advance(2)
            self.take()[0].reply()
            for each in self.take():
                each.reply()
        said = [event["log_level"].name for event in events if "messages are accepted" in event["log_format"]]
        self.assertEqual(said, ["error", "info"])

    def test_stood_still(self) -> None:
        """After a standstill longer than registries wait, messages are taken when one of them has confirmed us."""
        registrar = self.started()
        self.clock.rightNow += 119.0
        registrar.stood_still(119.0)
        self.assertEqual((registrar.refusal, self.take()), (None, []))
        self.clock.rightNow += 60.0
        registrar.stood_still(60.0)
        self.assertIn("stood still for 60 s", registrar.refusal or "")
        one, two = self.take()
        one.answer.errback(NotConnected("r1"))
        two.answer.errback(NotConnected("r2"))
        self.assertIsNotNone(registrar.refusal)
        self.clock.advance(1)
        (one, two) = sorted(self.take(), key=lambda one: one.address)[:2]
        one.reply()
        two.reply()
        self.assertIsNone(registrar.refusal)


class UnregistrationTests(RegistrarCase):
    """The end."""

    def test_unregisters(self) -> None:
        """At stop every registry is told (104); the stop waits for them and leaves no timer."""
        registrar = self.started()
        stopped = registrar.stopService()
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
        registrar = self.registrar()

        def broken(address: str, command: Command, timeout: float) -> Deferred[Command]:
            raise ZeroDivisionError

        registrar._ask = broken
        registrar.startService()
        self.assertEqual(self.successResultOf(registrar.first_round), 0)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        registrar._ask = self.ask
        self.clock.advance(10)
        self.assertEqual(len(self.take()), 2)
