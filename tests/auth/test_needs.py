"""Tests of L{smartgo.auth.needs}."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import Permission
from smartgo.auth.needs import NEEDS, MissingResource, ResourceNeed, Role, resource_needs
from smartgo.broker.processors.requestcodes import REQUESTS
from smartgo.errors import BadBody
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode

ANY, PUB, SUB = Permission.ANY, Permission.PUB, Permission.SUB
GROUP: ResourceNeed = ("%RETRY%g", SUB)

HEARTBEAT = {
    "clientID": "c",
    "producerDataSet": [{"groupName": "p"}],
    "consumerDataSet": [
        {"groupName": "g", "subscriptionDataSet": [{"topic": "t", "subString": "*"}, {"topic": "%RETRY%g"}]},
        {"groupName": "h", "subscriptionDataSet": []},
    ],
}
LOCKS = {"consumerGroup": "g", "clientId": "c", "mqSet": [{"topic": "t", "brokerName": "b", "queueId": 0}]}

EXAMPLES: dict[int, list[tuple[dict[str, str], object, list[ResourceNeed]]]] = {
    10: [({"topic": "t", "producerGroup": "p"}, None, [("t", PUB)]), ({"topic": "%RETRY%g"}, None, [GROUP])],
    310: [({"a": "p", "b": "t"}, None, [("t", PUB)]), ({"a": "other", "b": "%RETRY%g"}, None, [GROUP])],
    320: [({"b": "t", "topic": "other"}, None, [("t", PUB)])],
    324: [({"topic": "t"}, None, [("t", PUB)])],
    325: [({"b": "t"}, None, [("t", PUB)])],
    370: [({"topic": "t"}, None, [("t", PUB)])],
    37: [({"producerGroup": "p"}, None, []), ({"topic": "t"}, None, [("t", PUB)])],
    36: [({"group": "g"}, None, [GROUP]), ({"group": "g", "originTopic": "t"}, None, [GROUP, ("t", SUB)])],
    12: [({"topic": "t", "key": "k"}, None, [("t", SUB)])],
    34: [({}, HEARTBEAT, [GROUP, ("t", SUB), GROUP, ("%RETRY%h", SUB)]), ({}, {"clientID": "c"}, [])],
    35: [({"consumerGroup": "g"}, None, [GROUP]), ({"producerGroup": "p"}, None, [])],
    38: [({"consumerGroup": "g"}, None, [GROUP])],
    41: [({}, LOCKS, [GROUP, ("t", SUB)])],
    42: [({}, LOCKS, [GROUP, ("t", SUB)])],
    46: [({}, {"clientId": "c", "group": "g", "subscriptionData": {"topic": "t"}}, [GROUP, ("t", SUB)])],
    400: [({}, {"topic": "t", "consumerGroup": "g"}, [GROUP, ("t", SUB)])],
    321: [({"topic": "t"}, None, [("t", ANY)]), ({"topic": "t", "consumerGroup": "g"}, None, [("t", ANY), GROUP])],
    208: [
        ({"consumerGroup": "g"}, None, [GROUP]),
        ({"consumerGroup": "g", "topic": "t"}, None, [GROUP, ("t", ANY)]),
        ({"consumerGroup": "g", "topicList": "t;u;"}, None, [GROUP, ("t", ANY), ("u", ANY)]),
    ],
    308: [
        (
            {"topic": "t", "compareGroup": "g", "filterGroups": "h,i"},
            None,
            [("t", ANY), GROUP, ("%RETRY%h", SUB), ("%RETRY%i", SUB)],
        )
    ],
}
EXAMPLES |= {
    code: [({"topic": "t", "consumerGroup": "g"}, None, [("t", SUB), GROUP])]
    for code in (11, 361, 14, 15, 200050, 200051, 200052, 200053, 200054, 200055)
}
EXAMPLES |= {code: [({"topic": "t"}, None, [("t", ANY)])] for code in (29, 30, 31, 32, 202, 300, 351)}
EXAMPLES |= {code: [({"topic": "t", "group": "g"}, None, [("t", ANY), GROUP])] for code in (303, 223, 345)}
EXAMPLES |= {code: [({"group": "g"}, None, [GROUP])] for code in (343, 352)}
EXAMPLES |= {code: [({"consumerGroup": "g"}, None, [GROUP])] for code in (203, 307)}

OPEN = {28, 105, 106, 206, 224, 304, 305, 311, 312, 313}
ADMINS_BY_X3 = {222, 314, 309, 25, 26, 318, 319, 100, 101, 102, 215, 216, 50, 51, 53, 43}
ADMINS_BY_ROCKETMQ = {17, 25, 200, 207, 215}
TO_CLIENTS = {39, 40, 220, 221, 326}


def received(code: int, fields: dict[str, str], body: object = None) -> Command:
    """Return a request as it arrives; in JSON, which the codes of POP need."""
    content = b"" if body is None else json.dumps(body).encode()
    return decode(encode(Command.request(code, fields=fields, body=content))[4:])


class NeedsTests(SynchronousTestCase):
    """The table of request codes."""

    def test_resources(self) -> None:
        """Each code needs permissions for the topics and groups that its request names."""
        for code, examples in EXAMPLES.items():
            for fields, body, needs in examples:
                self.assertEqual(resource_needs(NEEDS[code], received(code, fields, body)), needs, (code, fields))

    def test_all_have_examples(self) -> None:
        """No code that needs permissions stands in the table without an example here."""
        of_resources = {int(code) for code, need in NEEDS.items() if need.role in (Role.RESOURCE, Role.PUBLISHER)}
        self.assertEqual(of_resources, set(EXAMPLES))

    def test_roles(self) -> None:
        """What the specification and RocketMQ leave to administrators is theirs; few codes are open to all accounts."""
        admins = {int(code) for code, need in NEEDS.items() if need.role is Role.ADMIN}
        self.assertLessEqual(ADMINS_BY_X3 | ADMINS_BY_ROCKETMQ | set(range(3001, 3011)) | {33}, admins)
        self.assertEqual({int(code) for code, need in NEEDS.items() if need.role is Role.HEALTH}, OPEN)
        self.assertEqual({int(code) for code, need in NEEDS.items() if need.role is Role.PUBLISHER}, {37})

    def test_answered(self) -> None:
        """Every code that a broker or a registry answers stands in the table, and none that only clients answer."""
        served = {int(row.code) for row in REQUESTS if row.broker or row.registry}
        self.assertEqual(served - set(NEEDS), set())
        self.assertEqual(TO_CLIENTS & set(NEEDS), set())
        self.assertLessEqual(set(NEEDS), {int(code) for code in RequestCode})

    def test_missing(self) -> None:
        """A request that does not say what it is meant for is refused."""
        for code, fields, said in ((310, {}, "topic"), (310, {"b": ""}, "topic"), (310, {"topic": "t"}, "topic"),
                                   (11, {"topic": "t"}, "group"), (38, {}, "group")):  # fmt: skip
            error = self.assertRaises(MissingResource, resource_needs, NEEDS[code], received(code, fields))
            self.assertEqual(str(error), f"the request does not name its {said}")

    def test_bad_body(self) -> None:
        """A request whose body cannot be read is refused."""
        for code, body in (
            (34, []), (34, None), (41, {}), (46, 1), (400, []), (400, {"topic": "t"}),
            (400, {"topic": 1, "consumerGroup": "g"}), (400, {"topic": "t", "consumerGroup": ""}),
        ):  # fmt: skip
            self.assertRaises(BadBody, resource_needs, NEEDS[code], received(code, {}, body))
