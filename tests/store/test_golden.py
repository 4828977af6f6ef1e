"""Stores written by a real RocketMQ 4.9.7 broker, opened as they are."""

from __future__ import annotations

from hashlib import sha256

from smartgo.schema.record import decode
from smartgo.store.settings import StoreSettings
from tests import golden_store
from tests.store.stores import StoreTestCase, content, with_golden

FILES = ("commitlog", "consumequeue", "index", "config")


class GoldenTests(StoreTestCase):
    """The store after a clean stop, and the same store copied from under the running broker."""

    def test_units(self) -> None:
        """Every queue has just the units that the official reader found."""
        for name in golden_store.NAMES:
            store = self.opened(with_golden(name), StoreSettings())
            queues = golden_store.read(name).manifest["consumeQueues"]
            self.assertEqual(sorted(store.queues()), sorted((one["topic"], one["queueId"]) for one in queues))
            for one in queues:
                units = store.units(one["topic"], one["queueId"], 0, 100_000)
                self.assertEqual([list(unit) for unit in units], one["units"], one["topic"])

    def test_messages(self) -> None:
        """Every message is read back, by its queue and by its offset, with the body that was stored."""
        for name in golden_store.NAMES:
            store = self.opened(with_golden(name), StoreSettings(memory_count=10_000, memory_size=1 << 30))
            read = {}
            for topic, queue_id in store.queues():
                for one in self.read_all(store, topic, queue_id):
                    read[one.physical_offset] = sha256(one.body).hexdigest()
            for one in golden_store.read(name).manifest["messages"]:
                offset, digest = one["physicalOffset"], one["storedBodySha256"]
                self.assertEqual(read.pop(offset), digest)
                self.assertEqual(sha256(decode(self.now(store.at(offset))).body).hexdigest(), digest)
            self.assertEqual(read, {})

    def test_unchanged(self) -> None:
        """Opening and stopping changes no file of the store, and leaves nothing where RocketMQ would look at it."""
        for name in golden_store.NAMES:
            env = with_golden(name)
            before = content(env, *FILES)
            checkpoint = bytes(env.files.files["/store/checkpoint"].data)
            store = self.opened(env, StoreSettings())
            self.stopped(store)
            self.same(content(env, *FILES), before)
            self.assertEqual(bytes(env.files.files["/store/checkpoint"].data), checkpoint)
            self.assertNotIn("/store/abort", env.files.files)

    def test_goes_on(self) -> None:
        """New messages follow the old ones, in the log and in their queues, and all is there after another start."""
        for name in golden_store.NAMES:
            env = with_golden(name)
            store = self.opened(env, StoreSettings())
            bounds = {key: store.bounds(*key) for key in store.queues()}
            _, end = store.log_bounds()
            sent = self.fill(store, 100, "Plain", 4)
            self.assertEqual(store.log_bounds()[0], 0)
            self.assertGreater(store.log_bounds()[1], end)
            self.stopped(store)
            store = self.opened(env, StoreSettings(memory_count=10_000))
            for (topic, queue_id), (low, high) in bounds.items():
                more = 25 if topic == "Plain" else 0
                self.assertEqual(store.bounds(topic, queue_id), (low, high + more))
            for queue_id in range(4):
                self.assertEqual(self.bodies(store, "Plain", queue_id)[-25:], sent[queue_id::4])
