"""
The rules of alerts: judgements of L{smartgo.health.judgements} that measure a snapshot, as an operator adjusts them.

A rule measures subjects (brokers, groups, registries, the process), and is broken by those whose value is above its
threshold. C{docs/grafana/alerts.yml} has the same rules for Prometheus under the names given here, with the same
severity, threshold and times, where metrics tell enough; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from smartgo.health.judgements import JUDGEMENTS, Unit, value_text
from smartgo.health.measures import Measure

Severity = Literal["critical", "warning"]
Subject = Literal["broker", "group", "registry", "process"]


class Rule(NamedTuple):
    """One rule: a judgement with the threshold and the times that are in force."""

    name: str
    severity: Severity
    seconds: float
    """How long it must be broken before its alert fires."""
    threshold: float
    """Broken above it."""
    unit: Unit
    kind: Subject
    """What it measures."""
    measure: Measure
    about: str
    """What it means, and what to do."""
    window: float = 0.0
    """Seconds: the measure only ever grows, and its growth in this time is what counts. 0: the measure itself."""
    prometheus: str = ""
    """The rule of C{alerts.yml} that says the same."""
    enabled: bool = True
    cause: str = ""
    """The rule whose alert about the same subject is the cause of this one's."""

    @property
    def adjustable(self) -> bool:
        """Tell whether the rule has a threshold that may be changed."""
        return self.unit != "state"

    def value_text(self, value: float) -> str:
        """Return a measured value for people; C{""} where it is no more than yes or no."""
        return value_text(self.unit, value)


def _rules() -> dict[str, Rule]:
    """Return the judgements that alerts can judge: those that are measured in a snapshot."""
    rules = {}
    for one in JUDGEMENTS.values():
        if one.measure is not None and one.severity != "note" and one.subject != "machine":
            rules[one.name] = Rule(
                one.name, one.severity, one.lasting, one.threshold, one.unit, one.subject, one.measure, one.about,
                window=one.window, prometheus=one.prometheus, cause=one.cause,
            )  # fmt: skip
    return rules


RULES: Final[Mapping[str, Rule]] = _rules()
"""By name, in the order in which they are shown."""
