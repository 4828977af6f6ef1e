"""
The states of alerts: pending, firing, resolved, as in Prometheus; silences; the history. Sans I/O, without a clock.

A subject that breaks a rule is pending until it has done so for the rule's time without a break; then it fires, until
the subject keeps the rule again or is there no more. What a look did not see stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from smartgo.errors import BadBody
from smartgo.health.snapshot import ClusterSnapshot, Values
from smartgo.ops.alerts.growth import Growth
from smartgo.ops.alerts.rules import RULES, Rule, Severity
from smartgo.ops.alerts.silences import Silence, SilenceTable

State = Literal["pending", "firing", "resolved"]

HISTORY: Final = 500
"""Alerts that fired, of which it is remembered."""
RESOLVED_MS: Final = 15 * 60_000
"""How long a resolved one stays in sight."""
SUBJECTS: Final = 1000
"""Alerts of one rule at a time; more of them say nothing new."""


class Alert(msgspec.Struct, rename="camel"):
    """
    One subject that breaks a rule, or did.

    @ivar subject: the broker, group or registry; empty: this process.
    @ivar since_ms: since when it breaks the rule, wall clock; C{fired_ms} since when it fires.
    @ivar value: as it was last measured, C{peak} the worst.
    @ivar detail: what is known of this subject, in sentences; may be empty.
    @ivar cause: the rule whose alert about the same subject is the cause of this one: it fires, or did while what this
        one counts grew. Nobody is told of this one, and it does not count; empty: it is a problem of its own.
    """

    rule: str
    subject: str
    state: State
    since_ms: int
    value: float
    peak: float
    fired_ms: int | None = None
    resolved_ms: int | None = None
    detail: str = ""
    cause: str = ""


class PastAlert(msgspec.Struct, rename="camel"):
    """
    One alert that fired.

    @ivar resolved_ms: null while it fires still.
    @ivar silenced: whether somebody had silenced it when it began.
    """

    id: int
    rule: str
    subject: str
    since_ms: int
    fired_ms: int
    resolved_ms: int | None
    peak: float
    silenced: bool


class RuleAdjustment(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An operator's adjustment of a rule; C{None}: as in the table of rules."""

    threshold: float | None = None
    seconds: float | None = None
    enabled: bool | None = None


class SavedAlerts(msgspec.Struct, rename="camel"):
    """The alerts that survive a restart."""

    firing: list[Alert]
    history: list[PastAlert]
    silences: list[Silence]
    adjusted: dict[str, RuleAdjustment]


class OperatorSettings(NamedTuple):
    """The settings of operators: silences, and adjusted rules."""

    silences: list[Silence]
    adjusted: dict[str, RuleAdjustment]


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """
    The number of alerts by state.

    @ivar critical: firing critical alerts that count: not silenced, and no consequence of another; C{warning} likewise.
    @ivar silenced: firing and silenced.
    """

    critical: int
    warning: int
    silenced: int
    pending: int


class AlertEvent(msgspec.Struct, frozen=True):
    """A change of the state of an alert."""

    alert: Alert
    state: State


class AlertTable:
    """
    The alerts, the rules as they are adjusted, the silences and the history.

    @ivar history: those that fired, the oldest first.
    """

    def __init__(self, rules: Mapping[str, Rule] = RULES, own: Callable[[], Collection[str]] = tuple) -> None:
        """@param own: returns the names by which alerts about the process itself can be silenced, too."""
        self._table = rules
        self._adjusted: dict[str, RuleAdjustment] = {}
        self._alerts: dict[tuple[str, str], Alert] = {}
        self._began: dict[tuple[str, str], float] = {}  # when what is pending began, by the monotonic clock
        self._growth = {name: Growth(rule.window) for name, rule in rules.items() if rule.window}
        self._restored: dict[tuple[str, str], float] = {}  # alerts about growth, and when each may be resolved
        self._silences = SilenceTable(own)
        self._open: dict[tuple[str, str], PastAlert] = {}
        self._serial = 0
        self.history: list[PastAlert] = []

    # -- rules -------------------------------------------------------------------------------------------------

    @property
    def rules(self) -> list[Rule]:
        """The rules as they are applied."""
        return [self.rule(name) for name in self._table]

    def rule(self, name: str) -> Rule:
        """Return a rule as it is applied. @raise LookupError: there is none."""
        rule, set_ = self._table[name], self._adjusted.get(name, RuleAdjustment())
        return rule._replace(
            threshold=rule.threshold if set_.threshold is None else set_.threshold,
            seconds=rule.seconds if set_.seconds is None else set_.seconds,
            enabled=rule.enabled if set_.enabled is None else set_.enabled,
        )

    def default(self, name: str) -> Rule:
        """Return a rule with its defaults. @raise LookupError: there is none."""
        return self._table[name]

    def adjust(self, name: str, adjusted: RuleAdjustment) -> None:
        """Let a rule be applied otherwise; what it says then is found by the next look. @raise LookupError: none."""
        rule = self._table[name]
        changed = {
            field: value
            for field, value in msgspec.structs.asdict(adjusted).items()
            if value is not None and value != getattr(rule, field)
        }
        self._adjusted.pop(name, None)
        if changed:
            self._adjusted[name] = RuleAdjustment(**changed)

    # -- looking -----------------------------------------------------------------------------------------------

    def observe(self, look: ClusterSnapshot, now_ms: int, seconds: float) -> list[AlertEvent]:
        """
        Take a look at the cluster; return what became of alerts by it, those that are pending left out.

        @param now_ms: wall clock, for people: it may be set.
        @param seconds: the monotonic clock, by which time passes.
        """
        events: list[AlertEvent] = []
        for rule in self.rules:
            values = self._measured(rule, look, seconds)
            if values is not None:
                self._apply(rule, values, now_ms, seconds, events)
        for key, detail in look.details.items():
            if key in self._alerts:
                self._alerts[key].detail = detail
        self._find_causes(now_ms)
        self._forget(now_ms)
        return events

    def _find_causes(self, now_ms: int) -> None:
        for alert in self._alerts.values():
            rule = self._table[alert.rule]
            cause = self._alerts.get((rule.cause, alert.subject)) if alert.state != "resolved" else None
            if cause is not None and cause.resolved_ms is not None:  # growth of a while ago counts still
                lasts = now_ms - cause.resolved_ms < rule.window * 1000
            else:
                lasts = cause is not None and cause.state == "firing"
            alert.cause = rule.cause if lasts else ""

    def _measured(self, rule: Rule, look: ClusterSnapshot, seconds: float) -> Values | None:
        growth = self._growth.get(rule.name)
        if not rule.enabled:
            if growth is not None:
                growth.begin_anew()
            return {}
        values = rule.measure(look)
        return values if values is None or growth is None else growth.look(values, seconds)

    def _apply(self, rule: Rule, values: Values, now_ms: int, seconds: float, events: list[AlertEvent]) -> None:
        broken = {subject: value for subject, value in values.items() if value is not None and value > rule.threshold}
        if len(broken) > SUBJECTS:
            # Those that are followed already go on being: the order of subjects may be another each time.
            followed = sorted(broken, key=lambda subject: not self._is_followed(rule.name, subject))
            broken = {subject: broken[subject] for subject in followed[:SUBJECTS]}
        for subject, measured in broken.items():
            key = rule.name, subject
            alert = self._alerts.get(key)
            if alert is None or alert.state == "resolved":
                alert = self._alerts[key] = Alert(rule.name, subject, "pending", now_ms, measured, measured)
                self._began[key] = seconds
            alert.value = measured
            alert.peak = max(alert.peak, measured)
            if key in self._open:
                self._open[key].peak = alert.peak
            if alert.state == "pending" and seconds - self._began[key] >= rule.seconds:
                del self._began[key]
                alert.state, alert.fired_ms = "firing", now_ms
                self._remember(alert)
                events.append(AlertEvent(alert, "firing"))
        for key, alert in list(self._alerts.items()):
            if key[0] != rule.name or key[1] in broken:
                continue
            value: float | None = values.get(key[1], alert.value)
            if value is None:
                continue  # it could not be looked at
            if alert.state == "pending":
                del self._alerts[key], self._began[key]
            elif alert.state == "firing" and not self._grew_lately(rule, key, values, seconds):
                alert.value, alert.state, alert.resolved_ms = value, "resolved", now_ms
                past = self._open.pop(key, None)
                if past is not None:
                    past.resolved_ms = now_ms
                events.append(AlertEvent(alert, "resolved"))

    def _grew_lately(self, rule: Rule, key: tuple[str, str], values: Values, seconds: float) -> bool:
        """
        Tell whether a restored alert may be about growth that its rule's window still has.

        Nothing is known of growth before the restart, so the window begins with the first look after it.
        """
        until = self._restored.get(key)
        if until is None:
            return False
        if until < 0:
            until = self._restored[key] = seconds + rule.window
        if key[1] in values and seconds < until:
            return True
        del self._restored[key]
        return False

    def _is_followed(self, rule: str, subject: str) -> bool:
        alert = self._alerts.get((rule, subject))
        return alert is not None and alert.state != "resolved"

    def _remember(self, alert: Alert) -> None:
        self._serial += 1
        silenced = self.silence_of(alert, alert.fired_ms or 0) is not None
        past = PastAlert(
            self._serial, alert.rule, alert.subject, alert.since_ms, alert.fired_ms or 0, None, alert.peak, silenced
        )
        self._open[alert.rule, alert.subject] = past
        self.history.append(past)
        del self.history[:-HISTORY]

    def _forget(self, now_ms: int) -> None:
        for key, alert in list(self._alerts.items()):
            if alert.resolved_ms is not None and now_ms - alert.resolved_ms >= RESOLVED_MS:
                del self._alerts[key]
        self._silences.end_due(now_ms)

    # -- showing -----------------------------------------------------------------------------------------------

    def alerts(self) -> list[Alert]:
        """Return all that are pending, fire, or were resolved not long ago."""
        return list(self._alerts.values())

    def severity(self, alert: Alert) -> Severity:
        """Return the severity of an alert."""
        return self._table[alert.rule].severity

    def summary(self, now_ms: int) -> Summary:
        """Count the alerts by state and severity."""
        firing = [one for one in self._alerts.values() if one.state == "firing"]
        heard = [one for one in firing if self.silence_of(one, now_ms) is None]
        loud = [self.severity(one) for one in heard if not one.cause]
        pending = sum(one.state == "pending" for one in self._alerts.values())
        return Summary(loud.count("critical"), loud.count("warning"), len(firing) - len(heard), pending)

    # -- silences ----------------------------------------------------------------------------------------------

    def silences(self, now_ms: int) -> list[Silence]:
        """Return those in force, the newest first."""
        return [one for one in reversed(self._silences.all) if one.until_ms > now_ms]

    def silence_of(self, alert: Alert | PastAlert, now_ms: int) -> Silence | None:
        """Return the silence over an alert that lasts longest; C{None}: there is none."""
        return self._silences.of(alert.rule, alert.subject, now_ms)

    def add_silence(self, rule: str, subject: str, until_ms: int, who: str, now_ms: int, comment: str) -> Silence:
        """Silence some alerts. @raise BadBody: there are too many silences."""
        made = Silence(self._serial + 1, rule, subject, until_ms, who, now_ms, comment)
        self._silences.add(made)
        self._serial = made.id
        return made

    def end_silence(self, id: int) -> Silence:
        """End a silence; return it. @raise LookupError: there is none."""
        return self._silences.end(id)

    @property
    def operator_settings(self) -> OperatorSettings:
        """The settings of operators, for L{take}."""
        return OperatorSettings(self._silences.all, dict(self._adjusted))

    def take(self, operator_settings: OperatorSettings) -> None:
        """Restore what operators had set."""
        self._silences.set(operator_settings.silences)
        self._adjusted = operator_settings.adjusted

    # -- keeping it --------------------------------------------------------------------------------------------

    def saved(self) -> SavedAlerts:
        """Return what to save; pending alerts are not saved."""
        firing = [one for one in self._alerts.values() if one.state == "firing"]
        return SavedAlerts(firing, self.history, self._silences.all, self._adjusted)

    def restore(self, saved: SavedAlerts) -> None:
        """Load saved alerts; those of rules that no longer exist are left out."""
        self._alerts = {(one.rule, one.subject): one for one in saved.firing if one.rule in self._table}
        self.history = [one for one in saved.history if one.rule in self._table][-HISTORY:]
        # Counters of the process begin with it; what brokers count goes on.
        self._restored = {
            key: -1.0 for key in self._alerts if self._table[key[0]].window and self._table[key[0]].kind != "process"
        }
        self._open = {}
        for past in self.history:
            if past.resolved_ms is None:
                self._open[past.rule, past.subject] = past
        self._silences.set(saved.silences)
        self._adjusted = {name: one for name, one in saved.adjusted.items() if name in self._table}
        self._serial = max([0, *(one.id for one in saved.history), *(one.id for one in saved.silences)])


def read_saved(data: bytes) -> SavedAlerts:
    """Read what L{AlertTable.saved} gave. @raise BadBody: it is something else."""
    try:
        return msgspec.json.decode(data, type=SavedAlerts)
    except msgspec.MsgspecError as error:
        raise BadBody(f"this is not a file of alerts: {error}") from None
