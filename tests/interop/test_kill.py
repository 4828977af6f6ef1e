"""kill -9 of the broker under load; the official client's acknowledgements are the witness."""

from __future__ import annotations

import os
from random import Random

from tests.interop.case import LONG, InteropCase, driver

_ROUNDS = int(os.environ.get("SMARTGO_INTEROP_ROUNDS", "20" if LONG else "3"))
_SEED = int(os.environ.get("SMARTGO_INTEROP_SEED", "1"))


class KillTests(InteropCase):
    """C{SMARTGO_INTEROP_ROUNDS} sets how often, C{SMARTGO_INTEROP_SEED} when."""

    def test_kill(self) -> None:
        """However often the broker is killed, no acknowledged message is lost or moved, and it is back in 5 s."""
        random = Random(_SEED)
        cluster = self.cluster()
        cluster.start()
        first = cluster.broker.boot
        where = {"namesrv": cluster.namesrv}
        client = driver("4.9")
        client.ask("topic", topic="load", queues=4, address=cluster.broker.address, **where)
        load = client.start(
            "load", name="load", topic="load", group="load", size=512, retries=0, timeoutMs=2000, **where
        )
        self.addCleanup(client.ask, "load.stop", name="load")
        boots = []
        for _ in range(_ROUNDS):
            load.wait_for("acked", load.count("acked") + random.randrange(200, 2500), 60)
            cluster.broker.kill()
            boots.append(cluster.start_broker())
            load.wait_for("acked", load.count("acked") + 50, 60)
        client.ask("load.stop", name="load")
        told = load.result()
        acked = load.of("acked")
        self.assertEqual(told["acked"], len(acked))
        self.assertGreater(told["failed"], 0, "no send failed: the kills hit nobody")

        call = client.start("read", topics=["load"], **where)
        read = call.all_of("message", 300)
        self.assertEqual(call.of("stuck"), [])
        self.assert_stored(acked, read)
        for queue in range(4):
            offsets = [event["queueOffset"] for event in read if event["queueId"] == queue]
            self.assertEqual(offsets, list(range(len(offsets))), f"queue {queue} has no hole")
        # a machine on which even an empty broker takes its time is not what the limit is about
        limit = max(cluster.peer.restart_limit, 3 * first)
        self.assertLessEqual(max(boots), limit, f"seconds until the first answer: {first}, then {boots}")
