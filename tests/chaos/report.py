"""A run told in plain text: the verdict, figures, the faults, and second by second what happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from tests.chaos.figures import effects
from tests.chaos.history import Event, Fail, Fault, Info, Invoke, Note, Ok, Read
from tests.chaos.judgement import Judgement

_SHOWN = 20  # anomalies of a kind
_COLUMNS = ("invoke", "ok", "weak", "fail", "info", "read")


def report(name: str, events: list[Event], judgement: Judgement, facts: Mapping[str, object]) -> str:
    """
    Return the report on a run.

    @param facts: what else a reader needs, by name: the seed, versions, figures asked and got.
    """
    lines = [f"{name}: {judgement.verdict.value}", ""]
    lines += [f"  {key}: {value}" for key, value in facts.items()]
    lines += [f"  {key}: {count}" for key, count in sorted(judgement.counts.items())]
    lines += ["", "faults"]
    for effect in effects(events):
        lines.append(
            f"  {effect.begin:8.3f} to {effect.end:8.3f}  {effect.name}: {effect.target}; seen {effect.count} times;"
            f" sends back {_seconds(effect.sent_after)} after its end, with code 0 {_seconds(effect.safe_after)};"
            f" longest silence {_seconds(effect.silence)}"
        )
    if judgement.unknown:
        lines += ["", "no verdict, because", *(f"  {reason}" for reason in judgement.unknown)]
    if judgement.anomalies:
        lines += ["", "anomalies", *_anomalies(judgement)]
    return "\n".join([*lines, "", *_timeline(events)]) + "\n"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"


def _anomalies(judgement: Judgement) -> Iterable[str]:
    shown: Counter[str] = Counter()
    for anomaly in judgement.anomalies:
        shown[anomaly.kind.value] += 1
        if shown[anomaly.kind.value] <= _SHOWN:
            yield f"  {anomaly.kind.value}: {anomaly.text}"
    for kind, count in shown.items():
        if count > _SHOWN:
            yield f"  {kind}: {count - _SHOWN} more"


def _timeline(events: Iterable[Event]) -> Iterable[str]:
    """Tell each second in which anything happened: counts of sends and reads, then faults and notes."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    said: dict[int, list[str]] = defaultdict(list)
    for event in events:
        second = int(event.t)
        match event:
            case Invoke():
                counts[second]["invoke"] += 1
            case Ok():
                counts[second]["weak" if event.code else "ok"] += 1
            case Fail():
                counts[second]["fail"] += 1
            case Info():
                counts[second]["info"] += 1
            case Read():
                counts[second]["read"] += 1
            case Fault():
                said[second].append(f"{'begin' if event.on else 'end'} of {event.name}: {event.target}")
            case Note():
                said[second].append(event.text)
    yield "second " + "".join(f"{column:>8}" for column in _COLUMNS)
    for second in sorted(counts.keys() | said.keys()):
        numbers = "".join(f"{counts[second][column]:8}" for column in _COLUMNS)
        yield f"{second:6} {numbers}  {'; '.join(said[second])}".rstrip()
