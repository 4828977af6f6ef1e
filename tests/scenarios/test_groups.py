"""Consumer groups that get no further: every face says of which group, how many messages wait, or died."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.scenarios.case import ScenarioCase
from tests.scenarios.faces import Faces, Look
from tests.scenarios.says import dead_letters, lag

_WAITING = 20


class GroupCase(ScenarioCase):
    """A topic with messages."""

    def setUp(self) -> None:
        """Start the cluster; retries come after a second each."""
        self.needs_all()
        super().setUp()
        cluster = self.cluster
        cluster.registry()
        cluster.master("broker-a", {"messageDelayLevel": " ".join(["1s"] * 18)})
        cluster.start()
        cluster.do("topic", "create", "Orders", "--queues", "1")

    def send(self) -> None:
        """Send the messages that are to wait."""
        self.cluster.do("send", "Orders", "body", "--count", str(_WAITING))

    def compare(
        self,
        scenario: str,
        looks: Callable[[Faces], dict[str, Look]],
        fault: Callable[[], object],
    ) -> None:
        """Bring a group into its state and compare the faces."""
        faces = self.faces()
        wanted = looks(faces)
        self.assert_silent(faces, wanted)
        fault()
        self.assert_agree(faces, scenario, wanted, time.monotonic())


class HangingTests(GroupCase):
    """A member whose listener never returns."""

    def test_from_first_message(self) -> None:
        """A listener that hangs from its first message acknowledges nothing; all messages wait, with their age."""
        self.cluster.do("group", "create", "billing")
        self.cluster.member("billing", "Orders", "hang")

        def looks(faces: Faces) -> dict[str, Look]:
            return {
                "REST": faces.rest("/groups/billing/progress", lag(_WAITING)),
                "console": faces.console("groups/billing", rf"\b{_WAITING}\b"),
                "CLI": faces.cli(rf"billing.*\b{_WAITING}\b", "group", "ls"),
                "doctor": faces.doctor(rf"group billing: {_WAITING} .*acknowledge none"),
                "alerts": faces.alerts("group-stopped", "billing"),
                "metrics": faces.metrics('^smartgo_alert{rule="group-stopped".*subject="billing"'),
            }

        self.compare("listener hangs from first message", looks, self.send)


class PoisonTests(GroupCase):
    """A message that is refused until it is a dead letter."""

    def test_refused(self) -> None:
        """A message that is refused at every attempt becomes a dead letter, and every face counts it."""
        cluster = self.cluster
        cluster.do("group", "create", "billing", "--retries", "1")
        cluster.member("billing", "Orders", "refuse")

        def looks(faces: Faces) -> dict[str, Look]:
            return {
                "REST": faces.rest("/dlq", dead_letters("billing", 1)),
                "console": faces.console("", r"billing\s+1 / 1"),
                "CLI": faces.cli(r"billing.*\b1\b", "dlq", "ls"),
                "doctor": faces.doctor("dead letter"),
                "alerts": faces.alerts("dead-letters", "billing"),
                "metrics": faces.metrics('^smartgo_alert{rule="dead-letters".*subject="billing"'),
            }

        self.compare("poison message", looks, lambda: cluster.do("send", "Orders", "poison"))


class EmptyTests(GroupCase):
    """A group that has no member."""

    def test_nobody(self) -> None:
        """Messages wait for a group that consumed before, and nobody is connected."""
        cluster = self.cluster
        cluster.do("send", "Orders", "first")
        cluster.do("consume", "Orders", "--group", "billing", "--from", "first", "--count", "1")

        def looks(faces: Faces) -> dict[str, Look]:
            return {
                "REST": faces.rest("/groups/billing/progress", lag(_WAITING)),
                "console": faces.console("", "billing has no connected members"),
                "CLI": faces.cli(rf"billing.*\b{_WAITING}\b", "group", "ls"),
                "doctor": faces.doctor(f"group billing: {_WAITING} .*no consumer connected"),
                "alerts": faces.alerts("group-empty", "billing"),
                "metrics": faces.metrics('^smartgo_alert{rule="group-empty".*subject="billing"'),
            }

        self.compare("group without members", looks, self.send)
