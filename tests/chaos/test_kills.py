"""SIGKILL of a broker while 16 producers send (F1), under each flush mode with and without a slave."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.case import TOPIC, ChaosCase, times, told
from tests.chaos.judgement import Kind, Verdict
from tests.chaos.nemesis import Kill
from tests.chaos.rounds import Round, until
from tests.interop import logs
from tests.interop.peers import chosen

_KILLS_EACH = 20  # of a cluster, before everything is read and a new one is made: a history of some 50,000 sends
_TURN = 1.5  # seconds at most between the first acknowledgement after a start and the kill


class KillTests(ChaosCase):
    """A broker is killed at random moments, again and again."""

    def killed(self, mode: str, settings: Mapping[str, str]) -> None:
        """Kill a broker of some mode as often as is asked for; nothing acknowledged with code 0 may be missing."""
        left = count = times(2, 50)
        safe = 0
        found = dict.fromkeys((Kind.LOST, Kind.PHANTOM, Kind.CORRUPT_BODY), 0)
        boots: list[tuple[float, float]] = []
        verdicts: list[Verdict] = []
        while left:
            turns = min(left, _KILLS_EACH)
            left -= turns
            run = self.running(f"kill-{mode}-{left}", settings)
            boots += self.kills(run, turns)
            run.stop_loads()
            if "slave" in run.nodes:
                run.equal("master", "slave")
            for name in set(run.nodes) & {"master", "slave"}:
                run.final_read(name)
            judgement = run.judgement()
            safe += judgement.counts["ok"]
            for kind in found:
                found[kind] += judgement.kinds[kind]
            verdicts.append(judgement.verdict)
            run.figure(
                f"{mode}: killed {turns} times under 16 producers",
                "valid",
                f"{judgement.verdict.value}: {judgement.counts['ok']} acknowledged, {told_kinds(judgement.kinds)}",
            )
            run.close()
        limit = chosen().restart_limit
        run.figure(
            f"{mode}: {count} rounds",
            f"0 lost, 0 phantom, 0 corrupt, ready within {limit:g} s",
            f"{safe} acknowledged, {', '.join(f'{number} {kind.value}' for kind, number in found.items())},"
            f" ready after {told(boot for boot, _ in boots)}; processor time {told(cpu for _, cpu in boots)}",
        )
        self.assertEqual(set(verdicts), {Verdict.VALID})
        self.assertLessEqual(max(cpu for _, cpu in boots), limit)

    def running(self, name: str, settings: Mapping[str, str]) -> Round:
        """Return a round whose nodes run; with a slave, which follows, where the master is to wait for one."""
        run = self.round(name)
        run.registry()
        run.broker("master", settings=settings)
        if settings.get("brokerRole") == "SYNC_MASTER":
            run.broker("slave", slave=True)
        run.start()
        run.topic(TOPIC)
        if "slave" in run.nodes:
            run.load(TOPIC, label="seed", limit=20).wait(60)
            one, other = run.stores("master", "slave")
            until(lambda: logs.log_end(one) == logs.log_end(other), 60, "the slave's first bytes")
        return run

    def kills(self, run: Round, count: int) -> list[tuple[float, float]]:
        """
        Kill the master so many times while 16 producers send.

        @return: the seconds of each start, and the processor time in it: the machine may have other work.
        """
        run.load(TOPIC, producers=16, rate=0)
        master = run.nodes["master"]
        boots = []
        for _ in range(count):
            run.await_sends(1)
            run.pause(self.random.uniform(0.05, _TURN))
            with run.fault(Kill(master, "master")):
                pass
            boots.append((master.boot, master.boot_cpu))
        run.await_sends(1)
        return boots

    def test_async_flush(self) -> None:
        """ASYNC_FLUSH, ASYNC_MASTER: what was appended outlives the process."""
        self.killed("ASYNC_FLUSH ASYNC_MASTER", {})

    def test_sync_flush(self) -> None:
        """SYNC_FLUSH, ASYNC_MASTER."""
        self.killed("SYNC_FLUSH ASYNC_MASTER", {"flushDiskType": "SYNC_FLUSH"})

    def test_async_flush_replicated(self) -> None:
        """ASYNC_FLUSH, SYNC_MASTER: master and slave have everything, byte by byte."""
        self.killed("ASYNC_FLUSH SYNC_MASTER", {"brokerRole": "SYNC_MASTER"})

    def test_sync_flush_replicated(self) -> None:
        """SYNC_FLUSH, SYNC_MASTER."""
        self.killed("SYNC_FLUSH SYNC_MASTER", {"flushDiskType": "SYNC_FLUSH", "brokerRole": "SYNC_MASTER"})


def told_kinds(kinds: Mapping[Kind, int]) -> str:
    """Return how many anomalies of which kinds there are, in words."""
    return ", ".join(f"{number} {kind.value}" for kind, number in kinds.items()) or "no anomaly"
