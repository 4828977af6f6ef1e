"""A real broker's store, searched over REST."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from posixpath import dirname
from typing import Any
from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.message import TRANSACTION_MASK
from tests import golden_store
from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment
from tests.ops.front import Front

LEAST = 32
"""Messages of one key, or of one unique key, that a broker gives at once."""
SYSTEM = {"RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"}


class GoldenTests(SynchronousTestCase):
    """Messages that RocketMQ stored, at an address that nobody has any more."""

    def setUp(self) -> None:
        store = golden_store.read("store-a")
        env = FakeEnvironment()
        for path, content in store.files.items():
            env.files.make_directories(dirname(f"/store/{path}"))
            env.files.create(f"/store/{path}", content)
        settings = {"maxHashSlotNum": str(golden_store.INDEX_SLOTS), "maxIndexNum": str(golden_store.INDEX_ENTRIES)}
        self.front = Front(Cluster(env, **settings))
        self.addCleanup(self.front.stop)
        self.messages: list[Any] = store.manifest["messages"]

    def wanted(self, keys_of: Callable[[Any], Iterable[str]]) -> dict[tuple[str, str], set[str]]:
        """The ids of the messages that have each key, by topic and key."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for message in self.messages:
            if message["sysFlag"] & TRANSACTION_MASK != TRANSACTION_MASK and message["topic"] not in SYSTEM:
                for key in keys_of(message):
                    found[message["topic"], key].add(message["msgId"])
        return found

    def ids(self, topic: str, name: str, key: str) -> set[str]:
        """The offset ids of what is found."""
        page = self.front.get(f"/messages?topic={quote(topic)}&{name}={quote(key)}")
        return {one["offsetId"] for one in page["items"]}

    def test_keys(self) -> None:
        """Every key and unique key is found."""
        by_key = self.wanted(lambda message: (message["keys"] or "").split())
        by_unique = self.wanted(lambda message: [message["uniqKey"]] if message["uniqKey"] else [])
        self.assertGreater(len(by_key), 400)
        self.assertGreater(len(by_unique), 500)
        for name, wanted in (("key", by_key), ("uniqueKey", by_unique)):
            for (topic, key), ids in wanted.items():
                found = self.ids(topic, name, key)
                if len(ids) <= LEAST:
                    self.assertLessEqual(ids, found, (topic, key))
                else:
                    self.assertGreaterEqual(len(found), LEAST, (topic, key))

    def test_ids(self) -> None:
        """Messages are found by their offset ids, though these name another address, and are told as they are."""
        for message in self.messages[::25]:
            one = self.front.get(f"/messages/{message['msgId']}")
            named = ("topic", "queueId", "queueOffset", "flag", "sysFlag", "bornHost", "storeHost", "properties")
            self.assertEqual({name: one[name] for name in named}, {name: message[name] for name in named})
            self.assertEqual((one["storedMs"], one["bornMs"]), (message["storeTimestamp"], message["bornTimestamp"]))
            self.assertEqual((one["logOffset"], one["recordBytes"]), (message["physicalOffset"], message["storeSize"]))
            self.assertEqual(one["body"]["sizeBytes"], message["bodyLength"])
            self.assertEqual(one["body"]["storedBytes"], message["storedBodyLength"])
