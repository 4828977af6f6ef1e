"""One broker and its registry under faults: what the machinery itself is tried on, and F1, F13, F16 without a slave."""

from __future__ import annotations

from tests.chaos.case import LONG, TOPIC, ChaosCase, times
from tests.chaos.nemesis import Delay, Kill, Pause, SlowLink, link_faults
from tests.chaos.rounds import Round

_PAUSES = (5, 60, 180) if LONG else (5,)  # seconds


class BrokerTests(ChaosCase):
    """A master without slaves, under ASYNC_FLUSH."""

    def ended(self, run: Round) -> None:
        """End the loads, read everything and judge."""
        run.stop_loads()
        run.final_read("master")
        run.judge()

    def test_quiet(self) -> None:
        """Without faults the run is valid, and no send fails: the machinery itself loses nothing."""
        run = self.one_broker("quiet")
        run.load(TOPIC, group="chaos-push", readers="chaos-readers")
        run.await_sends(300)
        self.ended(run)

    def test_kill(self) -> None:
        """However often the broker is killed under load, nothing acknowledged is lost (F1)."""
        run = self.one_broker("kill")
        run.load(TOPIC, producers=16, rate=0, group="chaos-push", readers="chaos-readers")
        for _ in range(times(3, 200)):
            run.await_sends(self.random.randrange(100, 1000))
            with run.fault(Kill(run.nodes["master"], "master")):
                pass
        run.await_sends(100)
        self.assert_back(run)
        self.ended(run)

    def test_pause(self) -> None:
        """While broker or registry stand still nothing is lost, and clients are back soon (F13)."""
        for what in ("master", "registry"):
            run = self.one_broker(f"pause-{what}")
            run.load(TOPIC, group="chaos-push", readers="chaos-readers")
            run.await_sends(100)
            for seconds in _PAUSES:
                with run.fault(Pause(run.nodes[what], f"{what} for {seconds} s")):
                    run.pause(seconds)
                run.await_sends(100)
            self.assert_back(run)
            self.ended(run)
            run.close()

    def test_links(self) -> None:
        """A link to the clients that is cut, one-way, lossy or slow costs time, no message (F16)."""
        run = self.round("links")
        run.registry()
        run.broker("master")
        delay = Delay(run.hosts["client"], run.home)
        self.addCleanup(delay.close)
        run.start()
        run.topic(TOPIC)
        run.load(TOPIC, group="chaos-push", readers="chaos-readers")
        run.await_sends(100)
        client, master = run.hosts["client"], run.hosts["master"]
        for fault in (*link_faults(client, master), SlowLink(master), delay):
            with run.fault(fault):
                run.pause(20 if LONG else 5)
            run.await_sends(100)
        self.assert_back(run)
        self.ended(run)
