"""The stages between the checks of a send and the store."""

from __future__ import annotations

from zope.interface import implementer
from zope.interface.verify import verifyObject

from smartgo.broker.interfaces import ISendStage
from smartgo.broker.processors.send import SendProcessor
from smartgo.broker.send import Send
from smartgo.broker.stages.sendstages import send_stages
from smartgo.errors import RequestRefused
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.properties import decode as decode_properties
from smartgo.schema.topics import SCHEDULE_TOPIC
from tests.broker.doubles import FakePeer
from tests.broker.fakecluster import ClusterCase, send_command


@implementer(ISendStage)
class Marking:
    """A stage of a user's own: marks what has the property MARK, and refuses what is marked C{no}."""

    properties = frozenset({"MARK"})

    def __init__(self) -> None:
        self.passed = 0

    def apply(self, send: Send) -> Send:
        """Count the message, and add a property to it."""
        self.passed += 1
        if send.properties.get("MARK") == "no":
            raise RequestRefused("marked")
        return send.with_properties({**send.properties, "MARKED": "yes"})


class OwnStageTests(ClusterCase):
    """A stage beside those of the broker."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster.send("T")
        self.stage = Marking()
        verifyObject(ISendStage, self.stage)
        broker = self.cluster.broker
        self.processor = SendProcessor(broker, [*send_stages(broker), self.stage])

    def send(self, **properties: str) -> Command:
        """Send a message with properties through the processor; C{RequestRefused} is raised here."""
        request = decode(encode(send_command("T", b"own", properties={"UNIQ_KEY": "0", **properties}))[4:])
        answer = self.processor.process(FakePeer(), request)
        self.processor.run_ended()
        assert isinstance(answer, bytes)
        return decode(answer[4:])

    def stored(self) -> list[bytes]:
        """The properties of all messages but the first."""
        return [one.properties for one in self.cluster.pull("T")[1]][1:]

    def test_plain(self) -> None:
        """A plain message passes no stage, however many there are and however often its like was sent."""
        for _ in range(10):
            self.assertEqual(self.send(KEYS="k").code, 0)
        self.assertEqual((self.stage.passed, len(self.stored())), (0, 10))

    def test_property(self) -> None:
        """A property that a stage names makes a message pass the stages; what they make of it is stored."""
        for _ in range(10):
            self.assertEqual(self.send(MARK="me").code, 0)
        self.assertEqual(self.stage.passed, 10)
        self.assertEqual([b"MARKED\x01yes" in one for one in self.stored()], [True] * 10)

    def test_refused(self) -> None:
        """What a stage refuses is not stored."""
        self.assertRaises(RequestRefused, self.send, MARK="no")
        self.assertEqual(self.stored(), [])

    def test_other_property(self) -> None:
        """A message that is not plain because of another stage passes this one too, and keeps what that one did."""
        self.assertEqual(self.send(DELAY="3").code, 0)
        self.assertEqual((self.stage.passed, self.stored()), (1, []))
        (waiting,) = self.cluster.pull(SCHEDULE_TOPIC, 2)[1]
        properties = decode_properties(waiting.properties)
        self.assertEqual((properties["REAL_TOPIC"], properties["MARKED"]), ("T", "yes"))
