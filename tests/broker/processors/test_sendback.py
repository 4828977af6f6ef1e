"""Messages that consumers give back, and dead letters, through a whole broker in memory."""

from __future__ import annotations

from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from smartgo.schema.message import parse_message_id
from smartgo.schema.properties import decode
from tests.broker.fakecluster import ClusterCase


class RetryTests(ClusterCase):
    def give_back(self, offset: int, level: int = 0, maximum: int | None = None) -> Command:
        """Send a message back."""
        header = SendBackRequest(offset=offset, group="CG", delay_level=level, max_reconsume_times=maximum)
        return self.cluster.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header))

    def test_comes_again(self) -> None:
        """A message given back comes again from %RETRY% after ten seconds, and says where it came from."""
        stored = self.cluster.send("T", b"hard", properties={"TAGS": "x"}).read(SendResponse)
        offset = parse_message_id(stored.msg_id)[1]
        self.assertEqual(self.give_back(offset).code, 0)
        self.cluster.pump(9.8)
        self.assertEqual(self.cluster.pull("%RETRY%CG")[1], [])
        self.cluster.pump(0.4)
        _, (again,) = self.cluster.pull("%RETRY%CG")
        carried = decode(again.properties)
        self.assertEqual((again.body, again.reconsume_times), (b"hard", 1))
        self.assertEqual(
            (carried["RETRY_TOPIC"], carried["ORIGIN_MESSAGE_ID"], carried["TAGS"]), ("T", stored.msg_id, "x")
        )

    def test_dead(self) -> None:
        """After the last retry it is a dead letter, at once."""
        offset = parse_message_id(self.cluster.send("T").read(SendResponse).msg_id)[1]
        self.assertEqual(self.give_back(offset, maximum=0).code, 0)
        _, (dead,) = self.cluster.pull("%DLQ%CG")
        self.assertEqual(dead.reconsume_times, 1)
        self.assertEqual(decode(dead.properties)["RETRY_TOPIC"], "T")

    def test_negative_level(self) -> None:
        """A negative level means the dead letter topic."""
        offset = parse_message_id(self.cluster.send("T").read(SendResponse).msg_id)[1]
        self.assertEqual(self.give_back(offset, level=-1).code, 0)
        self.assertEqual(len(self.cluster.pull("%DLQ%CG")[1]), 1)

    def test_missing(self) -> None:
        """What is not there cannot be given back."""
        answer = self.give_back(12345)
        self.assertEqual((answer.code, answer.remark), (1, "look message by offset failed, 12345"))

    def test_sent_to_retry(self) -> None:
        """A client's own send to %RETRY% waits its level, and is dead when its count is up."""
        self.cluster.heartbeat("CG", "T")
        self.assertEqual(self.cluster.send("%RETRY%CG", properties={"DELAY": "1"}, reconsume_times=1).code, 0)
        self.cluster.pump(1.2)
        self.assertEqual(len(self.cluster.pull("%RETRY%CG")[1]), 1)
        self.assertEqual(self.cluster.send("%RETRY%CG", properties={"DELAY": "1"}, reconsume_times=16).code, 0)
        self.assertEqual(len(self.cluster.pull("%DLQ%CG")[1]), 1)
        answer = self.cluster.send("%RETRY%CG", reconsume_times=3, max_reconsume_times=3)
        self.assertEqual((answer.code, len(self.cluster.pull("%DLQ%CG")[1])), (0, 2))
