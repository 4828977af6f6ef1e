"""The table of subscription groups."""

from __future__ import annotations

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.tables.groups import BUILT_IN, GroupTable
from smartgo.errors import BadName, BrokenTable, GroupNotExist, RequestRefused
from smartgo.schema.bodies import SubscriptionGroupConfig
from smartgo.tablefile import TableFile
from tests.broker.doubles import FakePeer, current
from tests.fakes import EPOCH_MS, FakeEnvironment

PATH = "/store/config/subscriptionGroup.json"


class GroupTableTests(SynchronousTestCase):
    """Groups on files in memory."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def table(self, **settings: object) -> GroupTable:
        """A table of our file, loaded, with its built-in groups."""
        sync = bool(settings.pop("sync", False))
        table = GroupTable(self.env.clock, TableFile(self.env, PATH), current(**settings), sync=sync)
        table.load()
        table.create_built_in()
        return table

    def test_built_in(self) -> None:
        """A new broker has RocketMQ's own groups, with its defaults."""
        table = self.table()
        self.assertEqual(table.names(), sorted(BUILT_IN))
        self.assertEqual(
            msgspec.json.decode(table.wrapper().encode())["subscriptionGroupTable"]["TOOLS_CONSUMER"],
            {
                "groupName": "TOOLS_CONSUMER", "consumeEnable": True, "consumeFromMinEnable": True,
                "consumeBroadcastEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0,
                "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True,
            },
        )  # fmt: skip

    def test_found(self) -> None:
        """A group comes into being when it is first used, once."""
        table = self.table()
        counter = table.version.counter
        config = table.find("g")
        self.assertIs(table.find("g"), config)
        self.assertIs(table.get("g"), config)
        self.assertEqual(table.version.counter, counter + 1)
        self.assertIsNone(table.get("h"))

    def test_not_found(self) -> None:
        """With auto-creation off an unknown group is refused with 26, save the broker's own."""
        table = self.table(auto_create_subscription_group=False)
        with self.assertRaises(GroupNotExist) as caught:
            table.find("g")
        self.assertEqual(caught.exception.code, 26)
        table.find("TOOLS_CONSUMER")
        table.find("CID_RMQ_SYS_TRANS")
        table.update(SubscriptionGroupConfig(group_name="g"))
        table.find("g")

    def test_names(self) -> None:
        """No name that is not allowed becomes a group: 1."""
        table = self.table()
        for name in ("", "a/b", "..", "x" * 256, "a b", "\uff47"):
            with self.assertRaises(BadName):
                table.find(name)
            with self.assertRaises(BadName):
                table.update(SubscriptionGroupConfig(group_name=name))
        table.find("x" * 255)

    def test_limit(self) -> None:
        """There is a limit; known groups can still be changed at it, and a deleted one makes room."""
        table = self.table(max_groups=len(BUILT_IN) + 1)
        table.find("g")
        for create in (table.find, lambda name: table.update(SubscriptionGroupConfig(group_name=name))):
            with self.assertRaises(RequestRefused) as caught:
                create("h")
            self.assertEqual(caught.exception.code, 1)
        table.update(SubscriptionGroupConfig(group_name="g", retry_max_times=3))
        table.delete("g")
        table.find("h")

    def test_shared(self) -> None:
        """By using groups one address brings about half of those that may be at most; others find room."""
        table = self.table(max_groups=100)
        local, other = FakePeer("127.0.0.1:5"), FakePeer("127.0.0.2:5")

        def fill(peer: FakePeer, name: str) -> int:
            for number in range(100):
                try:
                    table.find(f"{name}{number}", peer)
                except RequestRefused:
                    return number
            return 100

        self.assertEqual((fill(local, "a"), fill(other, "b")), (47, 23))
        table.update(SubscriptionGroupConfig(group_name="wanted"), local)
        table.delete("a0")
        table.update(SubscriptionGroupConfig(group_name="a1"), local)
        self.assertRaises(RequestRefused, table.find, "again", local)
        for number in range(10, 30):
            table.delete(f"a{number}")
        table.find("again", local)

    def test_pace(self) -> None:
        """One address may use a hundred new groups at once, then ten a second; known ones always."""
        table = self.table()
        peer = FakePeer()
        for number in range(100):
            table.find(f"g{number}", peer)
        with self.assertRaises(RequestRefused) as caught:
            table.find("x", peer)
        self.assertEqual(caught.exception.code, 1)
        table.find("g5", peer)
        table.find("y", FakePeer("192.0.2.8:1"))
        self.env.clock.advance(0.11)
        table.find("x", peer)
        for number in range(2000):
            table.find(f"h{number}", FakePeer("127.0.0.1:5"))

    def test_few_lines(self) -> None:
        """However many groups come into being, the log has few lines of it."""
        table = self.table()
        with capturedLogs() as logged:
            for number in range(1000):
                table.find(f"g{number}", FakePeer("127.0.0.1:5"))
        self.assertEqual(len(logged), 100)

    def test_administrators(self) -> None:
        """Administrators elsewhere create a thousand groups at once and leave a tenth of the room."""
        table = self.table(max_groups=2000)
        peer, local = FakePeer(), FakePeer("127.0.0.1:5")
        for number in range(1000):
            table.update(SubscriptionGroupConfig(group_name=f"g{number}"), peer)
        self.assertRaises(RequestRefused, table.update, SubscriptionGroupConfig(group_name="x"), peer)
        table.update(SubscriptionGroupConfig(group_name="g5", retry_max_times=3), peer)
        for number in range(800):
            table.update(SubscriptionGroupConfig(group_name=f"h{number}"), local)
        self.env.clock.advance(1.0)
        self.assertRaises(RequestRefused, table.update, SubscriptionGroupConfig(group_name="x"), peer)
        table.update(SubscriptionGroupConfig(group_name="x"), local)

    def test_list(self) -> None:
        """A list of groups is done whole or not at all, and keeps its room while others come."""
        table = self.table(max_groups=2000)
        local = FakePeer("127.0.0.1:5")
        version = table.version
        configs = [SubscriptionGroupConfig(group_name=f"g{number}") for number in range(1200)]
        bad_name = SubscriptionGroupConfig(group_name="a/b")
        for bad in (bad_name, SubscriptionGroupConfig(group_name="x", retry_queue_nums=-1)):
            done = Deferred.fromCoroutine(table.update_all([*configs, bad], local))
            self.env.clock.advance(0)
            self.assertIsInstance(self.failureResultOf(done).value, RequestRefused)
        self.assertEqual(table.version, version)
        first = Deferred.fromCoroutine(table.update_all(configs, local))
        others = [SubscriptionGroupConfig(group_name=f"h{number}") for number in range(1200)]
        second = Deferred.fromCoroutine(table.update_all(others, local))
        self.env.clock.advance(0)
        self.successResultOf(first)
        self.failureResultOf(second, RequestRefused)
        self.assertEqual(len(table), 1200 + len(BUILT_IN))

    def test_unused_are_remembered(self) -> None:
        """A restart remembers which groups came into being by their use alone."""
        table = self.table()
        for name in ("used", "unused", "wanted", "deleted"):
            table.find(name)
        table.keep("used")
        table.update(SubscriptionGroupConfig(group_name="wanted"))
        table.delete("deleted")
        self.successResultOf(table.stop())
        again = self.table()
        self.assertEqual((list(again.unused), len(again)), (["unused"], 3 + len(BUILT_IN)))

    def test_update(self) -> None:
        """An update replaces all settings; an impossible number of retry queues is refused."""
        table = self.table()
        table.update(SubscriptionGroupConfig(group_name="g", retry_max_times=3, consume_enable=False))
        table.update(SubscriptionGroupConfig(group_name="g", retry_queue_nums=2))
        self.assertEqual(table.get("g"), SubscriptionGroupConfig(group_name="g", retry_queue_nums=2))
        for wrong in (-1, 1025):
            with self.assertRaises(RequestRefused):
                table.update(SubscriptionGroupConfig(group_name="g", retry_queue_nums=wrong))

    def test_disable(self) -> None:
        """A group can be stopped and let go on; an unknown one is not created by that."""
        table = self.table()
        table.find("g")
        table.set_consume_enabled("g", False)
        config = table.get("g")
        assert config is not None
        self.assertFalse(config.consume_enable)
        counter = table.version.counter
        table.set_consume_enabled("g", False)
        table.set_consume_enabled("h", False)
        self.assertEqual(table.version.counter, counter)
        self.assertNotIn("h", table)

    def test_delete(self) -> None:
        """A deleted group is gone; deleting what is not there says so."""
        table = self.table()
        table.find("g")
        self.assertTrue(table.delete("g"))
        self.assertFalse(table.delete("g"))

    def test_saved(self) -> None:
        """A change is on disk within a second, in RocketMQ's shape, and read again with its version."""
        table = self.table()
        table.find("g")
        self.env.clock.advance(1)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        saved = msgspec.json.decode(self.env.files.read(PATH))
        self.assertEqual(saved["dataVersion"], {"timestamp": EPOCH_MS, "counter": table.version.counter})
        self.assertEqual(saved["subscriptionGroupTable"]["g"]["groupName"], "g")
        again = self.table()
        self.assertEqual((again.names(), again.version), (table.names(), table.version))

    def test_sync(self) -> None:
        """Under SYNC_FLUSH a change can be waited for, under ASYNC_FLUSH it cannot."""
        self.assertIsNone(self.table().durable())
        table = self.table(sync=True)
        self.assertIsNone(table.durable())
        self.env.threads.held.add("tables")
        table.find("g")
        waiting = table.durable()
        assert waiting is not None
        self.assertNoResult(waiting)
        self.env.threads.release("tables")
        self.assertIsNone(self.successResultOf(waiting))

    def test_foreign_file(self) -> None:
        """A file of 5.x is read, members that we lack ignored; a bad name is left out."""
        self.env.files.make_directories("/store/config")
        self.env.files.create(
            PATH,
            b'{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":3},"forbiddenTable":{},"subscriptionGroupTable":{'
            b'"g":{"attributes":{},"brokerId":0,"consumeTimeoutMinute":15,"groupName":"g","retryMaxTimes":4,'
            b'"groupRetryPolicy":{"type":"CUSTOMIZED"}},"a/b":{"groupName":"a/b"}}}',
        )
        table = self.table()
        config = table.get("g")
        assert config is not None
        self.assertEqual((config.retry_max_times, config.consume_enable), (4, True))
        self.assertNotIn("a/b", table)

    def test_broken(self) -> None:
        """A file that cannot be read stops the start."""
        self.env.files.make_directories("/store/config")
        self.env.files.create(PATH, b"\x00\x00")
        with self.assertRaises(BrokenTable):
            self.table()

    def test_replace_all(self) -> None:
        """A slave takes over its master's table and version."""
        master = self.table()
        master.find("g")
        slave = GroupTable(self.env.clock)
        slave.find("gone")
        wrapper = master.wrapper()
        slave.replace_all(wrapper.data_version, wrapper.subscription_group_table)
        self.assertEqual((slave.names(), slave.version), (master.names(), master.version))
