"""mqadmin of either generation; what it prints is what the broker and the registry answered."""

from __future__ import annotations

import os
import re
import time

from tests.interop.case import InteropCase, driver
from tests.interop.driver import Driver
from tests.interop.peers import ROCKETMQ


class MqadminTests(InteropCase):
    """The commands an operator lives by."""

    def _shown(self, client: Driver, command: str, words: str) -> str:
        """Return what a command prints when that holds some words: registries may hear of a topic a moment later."""
        patience = time.monotonic() + 60
        while words not in (text := client.mqadmin(command)[0]):
            self.assertLess(time.monotonic(), patience, text)
        return text

    def _commands(self, generation: str) -> None:
        running = self.shared()
        client, where = driver(generation), {"namesrv": running.namesrv}
        address = running.broker.address
        topic, made = self.name("admin"), self.name("made")
        client.ask("topic", topic=topic, queues=3, address=address, **where)
        sent = client.start("send", topic=topic, count=9, keys="adm", tags=["TagA"], **where).all_of("sent")
        one = sent[4]
        by_id = f"queryMsgById -n {running.namesrv} -i {one['offsetMsgId']}"
        if generation == "5.3":
            by_id += f" -t {topic}"  # an option the older one does not know
        update, status, clusters, message = client.mqadmin(
            f"updateTopic -n {running.namesrv} -b {address} -t {made} -r 5 -w 5",
            f"topicStatus -n {running.namesrv} -t {topic}",
            f"clusterList -n {running.namesrv}",
            by_id,
        )
        route = self._shown(client, f"topicRoute -n {running.namesrv} -t {made}", '"readQueueNums":5')
        lists = self._shown(client, f"topicList -n {running.namesrv}", made)
        (by_cluster,) = client.mqadmin(f"updateTopic -n {running.namesrv} -c DefaultCluster -t {made} -r 6 -w 6")

        self.assertIn(f"create topic to {address} success", update)
        self.assertIn(f"create topic to {address} success", by_cluster)
        self.assertRegex(re.sub(r"\s", "", route), rf'"brokerAddrs":{{"?0"?:"{re.escape(address)}"}}')
        for field, value in (
            ("brokerName", '"broker-a"'),
            ("readQueueNums", "5"),
            ("writeQueueNums", "5"),
            ("perm", "6"),
        ):
            self.assertRegex(route, f'"{field}":{value}')
        self._shown(client, f"topicRoute -n {running.namesrv} -t {made}", '"readQueueNums":6')

        if generation == "4.9" or running.peer is not ROCKETMQ:  # a 4.9 broker does not know GET_TOPIC_CONFIG (351)
            rows = [line.split()[:4] for line in status.splitlines() if line.startswith("broker-a ")]
            ends = [sum(event["queueId"] == queue for event in sent) for queue in range(3)]
            self.assertEqual(rows, [["broker-a", str(queue), "0", str(ends[queue])] for queue in range(3)])

        (row,) = [line.split() for line in clusters.splitlines() if address in line]
        self.assertEqual(row[:4], ["DefaultCluster", "broker-a", "0", address])
        self.assertRegex(row[4], r"^V4_9_\d+$")

        names = {line.strip() for line in lists.splitlines()}
        self.assertLessEqual({topic, made, "TBW102", "BenchmarkTest", "SELF_TEST_TOPIC"}, names)

        told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in message.splitlines())}
        self.assertEqual(told["OffsetID"], one["offsetMsgId"])
        self.assertEqual((told["Topic"], told["Tags"], told["Keys"]), (topic, "[TagA]", f"[{one['keys']}]"))
        self.assertEqual((told["Queue ID"], told["Queue Offset"]), (str(one["queueId"]), str(one["queueOffset"])))
        body = told["Message Body Path"]  # below /tmp, whatever the JVM is told
        with open(body, "rb") as file:
            self.assertEqual(file.read(), f"{topic}-{one['n']}".encode())
        os.remove(body)

    def test_4_9(self) -> None:
        """updateTopic, topicRoute, topicStatus, clusterList, topicList and queryMsgById of 4.9.7 print what is so."""
        self._commands("4.9")

    def test_5_3(self) -> None:
        """updateTopic, topicRoute, topicStatus, clusterList, topicList and queryMsgById of 5.3.3 print what is so."""
        self._commands("5.3")
