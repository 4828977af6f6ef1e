"""Damaged messages in the queues of a group, by the REST API."""

from __future__ import annotations

from smartgo.schema.regions import Region
from tests.ops.resources.test_offsets import OffsetCase


class GroupDamageTests(OffsetCase):
    """Group audit stands at 1 of queue 0 of Orders."""

    def test_list(self) -> None:
        """What the group has passed was skipped, what is ahead will be; what is in other queues is not listed."""
        self.assertEqual(self.get("/groups/audit/damage")["items"], [])
        self.cluster.broker.store.damage.add(
            [
                Region(100, 20, "body CRC differs", "Orders", 0, 0, 1_000, "a.bytes"),
                Region(200, 20, "body CRC differs", "Orders", 0, 1, 1_000, "b.bytes"),
                Region(300, 20, "body CRC differs", "Others", 0, 0, 1_000, "c.bytes"),
                Region(400, 20, "not readable", "", -1, -1, 1_000, "d.bytes"),
            ]
        )
        found = self.get("/groups/audit/damage")
        self.assertEqual(found["missing"], [])
        self.assertEqual(
            [(one["queueId"], one["queueOffset"], one["logOffset"], one["skipped"]) for one in found["items"]],
            [(0, 0, 100, True), (0, 1, 200, False)],
        )
        self.assertEqual(self.order("GET", "/groups/nobody/damage")[0], 404)
        self.flushLoggedErrors()
