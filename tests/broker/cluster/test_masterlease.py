"""The lease on a master's name."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.cluster.masterlease import LEASE, LeaseState, MasterLease

R = ("r1", "r2")


class ClaimTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A claim at two registries, which were just asked."""
        self.now = 1000.0
        self.claim = MasterLease(lambda: self.now, lambda: 0.0)
        self.claim.begin(R)

    def settled(self) -> None:
        """Both have us."""
        for one in R:
            self.claim.taken(one, self.now)
        self.assertIs(self.claim.state, LeaseState.SERVING)

    def test_all_first(self) -> None:
        """Messages are taken when every registry has answered or failed to, and one has us."""
        self.claim.taken("r1", self.now)
        self.assertIn("before it is registered", self.claim.reason or "")
        self.claim.missed("r2")
        self.assertIsNone(self.claim.reason)

    def test_no_registry(self) -> None:
        """Without registries, or with none that answers, brokers work all the same (H7)."""
        for one in R:
            self.claim.missed(one)
        self.assertIsNone(self.claim.reason)
        lonely = MasterLease(lambda: self.now, lambda: 0.0)
        lonely.begin(())
        self.assertIs(lonely.state, LeaseState.SERVING)

    def test_came_late(self) -> None:
        """A registry that was down at the start and then refuses who was never taken ends his serving at once."""
        for one in R:
            self.claim.missed(one)
        self.claim.refused("r1", "b is the master")
        self.assertEqual(self.claim.reason, "registry r1 does not let this broker be a master: b is the master")

    def test_patience(self) -> None:
        """Who is the master elsewhere goes on for 10 to 15 s against a refusal, and for good when it ends before."""
        for chance, seconds in ((0.0, 10.0), (1.0, 15.0)):
            self.claim = MasterLease(lambda: self.now, lambda chance=chance: chance)  # type: ignore[misc]
            self.claim.begin(R)
            self.settled()
            for until in (seconds - 1, 0):
                begin = self.now
                self.claim.refused("r1", "no")
                self.now = begin + seconds - 0.1
                self.claim.refused("r1", "no")
                self.assertIs(self.claim.state, LeaseState.SERVING)
                if until:
                    self.now += 100
                    self.settled()
            self.now += 0.2
            self.claim.refused("r1", "no")
            self.assertIs(self.claim.state, LeaseState.STEPPED_DOWN)

    def test_nobody_has_us(self) -> None:
        """Who was the master yields at once when no registry has him any more: the other serves already."""
        self.settled()
        self.claim.refused("r1", "b is the master")
        self.assertIs(self.claim.state, LeaseState.SERVING)
        self.claim.refused("r2", "b is the master")
        self.assertIs(self.claim.state, LeaseState.STEPPED_DOWN)

    def test_one_is_dead(self) -> None:
        """What a registry said that has been silent for more than 120 s does not help against a refusal."""
        for silent, standing in ((LEASE, LeaseState.SERVING), (LEASE + 1, LeaseState.STEPPED_DOWN)):
            self.claim.begin(R)
            self.settled()
            self.now += silent
            self.claim.missed("r2")
            self.claim.refused("r1", "b is the master")
            self.assertIs(self.claim.state, standing)
            self.claim.taken("r1", self.now)

    def test_who_is_asked(self) -> None:
        """Who stands back leaves those that have him and asks those that refuse him, no others."""
        self.claim.taken("r2", self.now)
        self.claim.refused("r1", "no")
        self.assertEqual([self.claim.may_ask(one) for one in R], [True, False])
        self.assertEqual((self.claim.left(), self.claim.left()), (["r2"], []))
        self.assertFalse(self.claim.again(R))
        self.claim.taken("r1", self.now)
        self.assertTrue(self.claim.again(R))
        self.assertEqual((self.claim.state, self.claim.left()), (LeaseState.ASKING, []))

    def test_refuser_falls_silent(self) -> None:
        """A refusal stands for 120 s after the registry was heard last: so long the other may be alive."""
        self.claim.refused("r1", "no")
        for seconds, ended in ((LEASE, False), (0.1, True)):
            self.now += seconds
            self.claim.missed("r1")
            self.assertEqual(self.claim.again(R), ended)

    def test_refuser_removed(self) -> None:
        """A registry that is no longer ours refuses nothing."""
        self.claim.refused("r1", "no")
        self.claim.only(["r2"])
        self.assertTrue(self.claim.again(["r2"]))

    def test_short_standstill(self) -> None:
        """A standstill that every registry waits for is of no account."""
        self.settled()
        self.now += 119
        self.assertFalse(self.claim.lapsed(119))

    def test_long_standstill(self) -> None:
        """After one that a registry did not wait for, messages are taken when one has us, and none refuses us."""
        self.settled()
        self.now += 30
        self.claim.taken("r1", self.now)
        self.now += 100
        self.assertTrue(self.claim.lapsed(100))
        self.assertIn("stood still for 100 s", self.claim.reason or "")
        for one in R:
            self.claim.missed(one)
        self.assertIsNotNone(self.claim.reason)
        self.claim.taken("r1", self.now)
        self.assertIsNone(self.claim.reason)
        self.claim.refused("r2", "no")
        self.now += 16
        self.claim.refused("r2", "no")
        self.assertIs(self.claim.state, LeaseState.STEPPED_DOWN)

    def test_old_answer(self) -> None:
        """An answer to what was asked before a standstill says nothing about what came to pass during it."""
        self.settled()
        asked = self.now
        self.now += 200
        self.assertTrue(self.claim.lapsed(200))
        for one in R:
            self.claim.taken(one, asked)
        self.assertIsNotNone(self.claim.reason)
        self.claim.taken("r1", self.now)
        self.claim.missed("r2")
        self.assertIsNone(self.claim.reason)

    def test_replaced_meanwhile(self) -> None:
        """Who was replaced during a standstill yields at the first refusal."""
        self.settled()
        self.now += 200
        self.assertTrue(self.claim.lapsed(200))
        self.claim.refused("r1", "b is the master")
        self.assertIs(self.claim.state, LeaseState.STEPPED_DOWN)

    def test_refused_before(self) -> None:
        """Who was refused before a standstill, however short, takes no messages before he was asked about."""
        self.settled()
        self.claim.refused("r1", "b is the master")
        self.now += 5
        self.assertTrue(self.claim.lapsed(5))
        self.claim.taken("r2", self.now)
        self.assertIsNotNone(self.claim.reason)
        self.claim.taken("r1", self.now)
        self.assertIsNone(self.claim.reason)

    def test_registries_were_down_before(self) -> None:
        """Registries that were down before a standstill began do not matter after it: we went on without them (H7)."""
        self.settled()
        self.now += 300
        for one in R:
            self.claim.missed(one)
        self.assertFalse(self.claim.lapsed(50))
        self.assertIsNone(self.claim.reason)


class RivalsTests(SynchronousTestCase):
    """Two brokers of one name and two registries, for some minutes of their time."""

    def play(self, random: Random, begins: dict[str, float], cut: set[tuple[str, str]], healed: float) -> Iterator[str]:
        """
        Yield the masters' names four times a second, until 200 s after the heal.

        @param begins: by broker, when it starts.
        @param cut: which broker does not reach which registry until C{healed}.
        """
        clock = Clock()
        holders: dict[str, tuple[str, float]] = {}
        claims = {name: MasterLease(clock.seconds, random.random) for name in begins}
        asks_at = dict(begins)
        for claim in claims.values():
            claim.begin(R)
        while clock.seconds() < healed + 200:
            clock.advance(0.25)
            now = clock.seconds()
            for name, claim in claims.items():
                if now < asks_at[name]:
                    continue
                asks_at[name] = now + random.uniform(0.5, 10)
                for registry in filter(claim.may_ask, R):
                    holder, heard = holders.get(registry, (name, now))
                    if now < healed and (name, registry) in cut:
                        claim.missed(registry)
                    elif holder != name and now - heard <= LEASE:
                        claim.refused(registry, f"{holder} is the master")
                    else:
                        holders[registry] = (name, now)
                        claim.taken(registry, now)
                    for left in claim.left():
                        holders.pop(left, None)
                claim.again(R)
            yield "".join(sorted(name for name, claim in claims.items() if claim.state is LeaseState.SERVING))
        self.assertEqual(len({holder for holder, _ in holders.values()}), 1)

    def test_split(self) -> None:
        """After a split in which each was a master, one of them is left within 30 s, and stays it."""
        for seed in range(40):
            random = Random(seed)
            healed = random.uniform(40, 300)
            cut = {("a", "r2"), ("b", "r1")}
            masters = list(self.play(random, {"a": 0.0, "b": 5.0}, cut, healed))
            self.assertEqual(masters[round(healed * 4) - 8], "ab")
            after = masters[round((healed + 30) * 4) :]
            self.assertIn(after, ([after[-1]] * len(after),), f"seed {seed}")
            self.assertIn(after[-1], ("a", "b"))

    def test_newcomer(self) -> None:
        """A newcomer never gets the name of a master that one registry knows, although the other does not."""
        for seed in range(40):
            random = Random(seed)
            masters = list(self.play(random, {"a": 0.0, "b": random.uniform(20, 100)}, {("a", "r2")}, 200.0))
            self.assertEqual(set(masters[16:]), {"a"}, f"seed {seed}")
