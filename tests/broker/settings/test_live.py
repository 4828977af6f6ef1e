"""Settings that are changed while a broker runs: kept over restarts, remembered, taken back."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.settings.changes import KEPT, Change, Changes, Who, read_changes, written
from smartgo.broker.settings.live import LiveSettings
from smartgo.config.loading import Configuration
from smartgo.config.settings import BrokerConfig
from smartgo.config.sources import Origin
from smartgo.errors import BadBody, BrokenTable, RequestRefused
from smartgo.tablefile import TableFile
from tests.broker.fakecluster import BROKER, Cluster, pull_command
from tests.fakes import FakeEnvironment

PATH = "/store/config/changedSettings.json"
BOSS = Who("boss", "192.0.2.7")
NAME = "brokerPermission"


class LiveSettingsTests(SynchronousTestCase):
    """Settings of a broker that is started again and again."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.taken: list[Any] = []
        self.settings = self.start()

    def start(self, origin: str = "default", **given: Any) -> LiveSettings:
        """Begin anew, with what the file says."""
        configuration = Configuration(broker=BrokerConfig(**given), origins={("broker", NAME): Origin(origin, "x")})
        settings = LiveSettings(self.env.clock, configuration, file=TableFile(self.env, PATH))
        settings.follow(NAME, self.taken.append)
        settings.follow("traceOn", self.taken.append)
        settings.follow("shortPollingTimeMills", self.taken.append)
        settings.load()
        settings.begin()
        return settings

    def change(self, value: str, keep: bool = False, who: Who = BOSS) -> list[Change]:
        """Change the permission."""
        return self.successResultOf(self.settings.change([(NAME, value)], who, keep))

    def undo(self, number: int) -> list[Change]:
        """Take a change back."""
        change = next(one for one in self.settings.history if one.id == number)
        return self.successResultOf(self.settings.undo(change, Who("other", "192.0.2.8")))

    def state(self) -> tuple[int, str]:
        """Return the permission in effect, and its source."""
        configuration = self.settings.configuration
        return configuration.broker.broker_permission, configuration.origins["broker", NAME].source

    def test_for_now(self) -> None:
        """A change holds until the next start, unless it is to be kept; it is remembered all the same."""
        self.change("4")
        self.assertEqual((self.state(), self.taken), ((4, "request"), [4]))
        self.assertEqual(
            self.settings.configuration.origins["broker", NAME].detail,
            f"by boss, 192.0.2.7, at {written(self.env.clock.wall_ms())}",
        )
        self.settings = self.start()
        self.assertEqual(self.state(), (6, "default"))
        (one,) = self.settings.history
        self.assertEqual((one.before, one.after, one.who, one.address), ("6", "4", "boss", "192.0.2.7"))
        self.assertEqual((one.at_ms, one.kept_after), (self.env.clock.wall_ms(), None))

    def test_kept(self) -> None:
        """A change that is kept wins over default, environment and file at the next start; who follows is told."""
        self.change("4", keep=True)
        self.assertEqual(self.state(), (4, "kept"))
        for origin in ("default", "environment", "file"):
            self.taken.clear()
            self.settings = self.start(origin, broker_permission=2)
            self.assertEqual((self.state(), self.taken), ((4, "kept"), [4]), origin)

    def test_flag(self) -> None:
        """A flag of the command line wins over what was kept; under one nothing can be kept, but changed for now."""
        self.change("4", keep=True)
        self.settings = self.start("flag", broker_permission=2)
        self.assertEqual(self.state(), (2, "flag"))
        self.assertIn("the command line", str(self.assertRaises(RequestRefused, self.change, "6", True)))
        self.change("6")
        self.assertEqual(self.state(), (6, "request"))
        self.settings = self.start("file", broker_permission=2)
        self.assertEqual(self.state(), (4, "kept"))

    def test_over_kept(self) -> None:
        """A change for now over one that is kept leaves the kept one for the next start."""
        self.change("4", keep=True)
        self.change("2")
        self.assertEqual(self.state(), (2, "request"))
        self.settings = self.start()
        self.assertEqual(self.state(), (4, "kept"))

    def test_nothing(self) -> None:
        """A change to what is in force is none, unless it is kept from then on."""
        self.assertEqual(self.change("6"), [])
        self.assertEqual(self.settings.version.counter, 0)
        self.change("4")
        self.assertEqual(len(self.change("4", keep=True)), 1)
        self.assertEqual(self.change("4", keep=True), [])
        self.assertEqual(self.state(), (4, "kept"))

    def test_undo(self) -> None:
        """What is taken back is as it was before, kept over restarts or not; taking that back makes it again."""
        self.change("4", keep=True)
        self.change("2", keep=True)
        (undone,) = self.undo(2)
        self.assertEqual((self.state(), undone.undoes, undone.who), ((4, "kept"), 2, "other"))
        self.settings = self.start()
        self.assertEqual(self.state(), (4, "kept"))
        self.undo(3)
        self.assertEqual(self.state(), (2, "kept"))
        self.undo(4)
        self.undo(1)
        self.assertEqual(self.state(), (6, "default"))
        self.settings = self.start(broker_permission=2)
        self.assertEqual(self.state(), (2, "default"))

    def test_part_of_a_unit(self) -> None:
        """A time that is no whole number of its unit is kept, and taken back, as it was."""
        name = "shortPollingTimeMills"

        def held() -> float:
            return self.settings.configuration.broker.short_polling_time_mills

        for value in ("100.5ms", "2s"):
            self.successResultOf(self.settings.change([(name, value)], BOSS, keep=True))
        self.undo(2)
        self.assertAlmostEqual(held(), 0.1005)
        self.settings = self.start()
        self.assertAlmostEqual(held(), 0.1005)

    def test_undo_refused(self) -> None:
        """A change that another came after is not taken back before that one."""
        self.change("4")
        self.change("2")
        refused = self.assertRaises(RequestRefused, self.undo, 1)
        self.assertIn("brokerPermission is 2 by now", str(refused))
        self.undo(2)
        self.undo(1)
        self.assertEqual(self.state(), (6, "default"))

    def test_undo_twice(self) -> None:
        """A change that was undone is not undone again, and the refusal names the change that undid it."""
        self.change("4")
        self.undo(1)
        refused = self.assertRaises(RequestRefused, self.undo, 1)
        self.assertEqual(str(refused), "change 1 was undone already, by change 2")
        self.change("2")
        self.change("4")
        refused = self.assertRaises(RequestRefused, self.undo, 3)
        self.assertEqual(str(refused), "brokerPermission is 4 by now, not 2; undo change 4 first")

    def test_undo_for_now(self) -> None:
        """Taking back a change for now leaves what was kept since."""
        self.change("4")
        self.change("4", keep=True)
        self.undo(1)
        self.assertEqual(self.state(), (6, "default"))
        self.settings = self.start()
        self.assertEqual(self.state(), (4, "kept"))

    def test_plan(self) -> None:
        """A plan says what would be, and does nothing."""
        (planned,) = self.settings.plan([(NAME, "04")], True)
        self.assertEqual((planned.before, planned.after), ("6", "4"))
        self.assertRaises(BadBody, self.settings.plan, [(NAME, "8")])
        self.assertEqual((self.state(), self.taken, self.settings.history), ((6, "default"), [], []))

    def test_full_disk_twice(self) -> None:
        """Two changes that are asked for at once, and neither can be written, leave kept what the file has."""
        self.change("2", keep=True)
        writing: list[Deferred[None]] = []

        def save(file: TableFile, value: object) -> Deferred[None]:
            writing.append(Deferred())
            return writing[-1]

        patched = self.patch(TableFile, "save", save)
        for value in ("4", "6"):
            self.settings.change([(NAME, value)], BOSS, keep=True).addErrback(lambda failure: None)
        for one in writing:
            one.errback(OSError("no space"))
        patched.restore()
        self.successResultOf(self.settings.change([("traceOn", "false")], BOSS))
        self.assertEqual(self.state(), (6, "request"))
        self.settings = self.start()
        self.assertEqual(self.state(), (2, "kept"))

    def test_full_disk(self) -> None:
        """
        Where the disk takes nothing a change is in force all the same, for a broker may have to be taken out of use
        just then; one that was to be kept says that it is not.
        """

        def refuse(path: str, data: bytes, backup: bool = True) -> None:
            raise OSError("no space")

        self.patch(self.env.files, "replace", refuse)
        self.change("2")
        self.assertEqual(self.state(), (2, "request"))
        failure = self.failureResultOf(self.settings.change([(NAME, "4")], BOSS, True), RequestRefused)
        self.assertIn("only until the next start", str(failure.value))
        self.assertEqual(self.state(), (4, "request"))
        self.assertIs(self.settings.history[-1].kept_after, None)

    def test_unfit(self) -> None:
        """What was kept and is not allowed any more, or not changeable, is left out and stays in the file."""
        self.change("4", keep=True)
        raw: Any = msgspec.json.decode(self.env.files.read(PATH))
        raw["kept"]["broker.brokerPermission"]["value"] = "8"
        raw["kept"]["broker.listenPort"] = raw["kept"]["broker.brokerPermission"]
        raw["kept"]["broker.traceOn"] = {**raw["kept"]["broker.brokerPermission"], "value": "false"}
        self.env.files.replace(PATH, msgspec.json.encode(raw), False)
        self.settings = self.start()
        self.assertEqual(self.state(), (6, "default"))
        self.assertFalse(self.settings.configuration.broker.trace_on)
        self.change("4")
        self.assertIn("broker.listenPort", read_changes(self.env.files.read(PATH)).kept)

    def test_broken(self) -> None:
        """A file that cannot be read refuses the start, as every table."""
        self.env.files.make_directories("/store/config")
        self.env.files.replace(PATH, b'{"nothing": 1}', False)
        self.assertRaises(BrokenTable, self.start)

    def test_bounded(self) -> None:
        """The oldest changes are forgotten; numbers go on."""
        for number in range(KEPT + 3):
            self.change("42"[number % 2])
        history = self.settings.history
        self.assertEqual((len(history), history[0].id, history[-1].id), (KEPT, 4, KEPT + 3))

    def test_twice(self) -> None:
        """Of two values for one setting in one request the later counts."""
        made = self.successResultOf(self.settings.change([(NAME, "2"), (NAME, "4")], BOSS))
        self.assertEqual([(one.before, one.after) for one in made], [("6", "4")])


class KeptPermissionTests(SynchronousTestCase):
    """A broker that is started again."""

    def test_restart(self) -> None:
        """A permission and a template that were changed for good are so from the first moment after the restart."""
        cluster = Cluster()
        changed = [("brokerPermission", "2"), ("autoCreateTopicEnable", "false")]
        done: Deferred[list[Change]] = cluster.broker.settings.change(changed, BOSS, True)
        cluster.pump()
        self.assertEqual(len(self.successResultOf(done)), 2)
        cluster.stop()
        again = Cluster(cluster.env)
        self.addCleanup(again.stop)
        self.assertEqual(again.send("Unknown").code, 17)
        self.assertEqual(again.pull("TBW102")[0].code, 16)


class FollowedTests(SynchronousTestCase):
    """Settings that a broker follows."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)

    def change(self, **changes: str) -> None:
        """Change some."""
        self.cluster.broker.settings.change(changes.items(), BOSS)

    def test_topics(self) -> None:
        """No more topics, and queues of one, are made than the limits of now allow."""
        self.cluster.send("First")
        self.change(maxTopics="1", maxQueuesPerTopic="2")
        self.assertIn("there are 1 topics already", self.cluster.send("Second").remark or "")
        self.change(maxTopics="100")
        self.assertEqual(self.cluster.send("Second").code, 0)
        config = self.cluster.broker.topics.get("Second")
        assert config is not None
        self.assertEqual(config.write_queue_nums, 2)

    def test_polling(self) -> None:
        """Without long polling a pull that finds nothing is held for the short time of now."""
        self.cluster.send("T")
        self.change(longPollingEnable="false", shortPollingTimeMills="3000")
        held: list[object] = []
        self.cluster.client.ask(BROKER, pull_command("T", 1, 0, sys_flag=6), 30.0).addBoth(held.append)
        self.cluster.pump(2.5)
        self.assertEqual(held, [])
        self.cluster.pump(1.5)
        self.assertEqual(len(held), 1)

    def test_held(self) -> None:
        """Pulls past the limits of now are answered after a second, and all at the end of the longest time of now."""
        self.cluster.send("T")
        self.change(maxHeldPulls="1")
        held: list[object] = []
        for queue in (1, 2):
            self.cluster.client.ask(BROKER, pull_command("T", queue, 0, sys_flag=6), 30.0).addBoth(held.append)
        self.cluster.pump(2.0)
        self.assertEqual(len(held), 1)
        self.change(maxHeldPulls="1000", maxHeldPullsPerConnection="1")
        self.cluster.client.ask(BROKER, pull_command("T", 2, 0, sys_flag=6), 30.0).addBoth(held.append)
        self.cluster.pump(2.0)
        self.assertEqual(len(held), 2)
        self.change(maxHeldPullsPerConnection="10", longPollingMaxTimeMills="3000", shortPollingTimeMills="1500")
        self.cluster.client.ask(BROKER, pull_command("T", 2, 0, sys_flag=6), 30.0).addBoth(held.append)
        self.cluster.pump(2.5)
        self.assertEqual(len(held), 2)
        self.cluster.pump(1.5)
        self.assertEqual(len(held), 3)

    def test_traces(self) -> None:
        """Producers are told whether traces are wanted now."""
        self.assertEqual(self.cluster.send("T").fields["TRACE_ON"], "true")
        self.change(traceOn="false")
        self.assertEqual(self.cluster.send("T").fields["TRACE_ON"], "false")


class ChangesTests(SynchronousTestCase):
    """The file's content."""

    def test_round(self) -> None:
        """What is written is read back."""
        changes = Changes({}, [])
        changes.add(Change(1, 5, "a", "b", "broker", NAME, "6", "4"))
        self.assertEqual(read_changes(msgspec.json.encode(changes)), changes)
        self.assertRaises(BadBody, read_changes, b"[]")
