"""Resources about alerts: current ones, the history, rules, silences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from smartgo.health.judgements import JUDGEMENTS, Unit
from smartgo.ops.alerts.monitor import AlertMonitor
from smartgo.ops.alerts.rules import RULES, Rule, Severity, Subject
from smartgo.ops.alerts.silences import Silence
from smartgo.ops.alerts.subjects import KnownSubjects
from smartgo.ops.alerts.table import Alert, PastAlert, RuleAdjustment, Summary
from smartgo.ops.problems import UNKEPT, Problem
from smartgo.ops.resources.alertqueries import AlertSearchQuery, AlertsQuery
from smartgo.ops.web.pagination import Page, page_of
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, StreamAnswer, route
from smartgo.ops.web.streams import EventStream, IStreamSource

_RANKS: Final = {"critical": 2, "warning": 1}
_STATES: Final = {"firing": 2, "pending": 1, "resolved": 0}


class AlertRow(Alert, kw_only=True):
    """
    One alert with its rule's severity, threshold and advice.

    @ivar kind: what the subject is: a broker, a group, a registry or this process.
    @ivar threshold: above which the rule is broken, C{unit} that of both and of the values.
    @ivar about: what it means, and what to do.
    @ivar silence: the silence of this alert that lasts longest.
    @ivar runbook: where people read what to do: an address, or the page of the documents.
    """

    severity: Severity
    kind: Subject
    unit: Unit
    threshold: float
    about: str
    runbook: str
    silence: Silence | None


class PastRow(PastAlert, kw_only=True):
    """One alert that fired, with its worst value."""

    severity: Severity
    kind: Subject
    unit: Unit


class RuleRow(msgspec.Struct, rename="camel"):
    """
    One rule.

    @ivar seconds: how long the threshold must be exceeded before an alert fires.
    @ivar window: seconds over which the growth of a counter is measured; 0: the value itself is.
    @ivar threshold: values above it are a problem.
    @ivar default_threshold: the default threshold, C{default_seconds} the default time.
    @ivar adjustable: whether the threshold can be changed; the time always can.
    @ivar runbook: where people read what to do: an address, or the page of the documents.
    @ivar grave: a value from this one on is shown as critical; null: the severity does not depend on the value.
    @ivar prometheus: the same rule in C{docs/grafana/alerts.yml}; empty if no metric allows it.
    """

    name: str
    severity: Severity
    kind: Subject
    unit: Unit
    threshold: float
    seconds: float
    window: float
    enabled: bool
    default_threshold: float
    default_seconds: float
    adjustable: bool
    prometheus: str
    about: str
    runbook: str
    grave: float | None


RuleName = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[a-z-]+$", description="A rule's name.")]


class RulePath(msgspec.Struct):
    """One rule."""

    name: RuleName


Threshold = Annotated[float, Meta(ge=0, le=1e18)]
RuleSeconds = Annotated[float, Meta(ge=0, le=86_400)]


class RuleBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The settings of a rule; null or left out: the default."""

    threshold: Threshold | None = None
    seconds: RuleSeconds | None = None
    enabled: bool | None = None


def _named(member: str) -> dict[str, Any]:
    """Return the schema of an object with a member that is not empty."""
    return {"required": [member], "properties": {member: {"minLength": 1}}}


SilenceRule = Annotated[str, Meta(max_length=64, pattern="^[a-z-]*$")]
SilenceSubject = Annotated[str, Meta(max_length=300, pattern="^[^\\x00-\\x1f\\x7f]*$")]
SilenceSeconds = Annotated[int, Meta(ge=60, le=30 * 86_400)]
SilenceComment = Annotated[str, Meta(max_length=300, pattern="^[^\\x00-\\x1f\\x7f]*$")]


class SilenceBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """
    Alerts to silence, and for how long.

    A rule, a subject or both must be given; everything is silenced only by C{all}.

    @ivar rule: only alerts of this rule; empty: any.
    @ivar subject: only alerts about this broker, group or registry, or about C{the process} that judges; empty: any.
    @ivar all: every alert; rule and subject must then be left out.
    @ivar seconds: how long, from now on.
    @ivar comment: why, for others.
    @ivar known: refuse a subject that nothing has at present: no alert, broker process, registry, group or topic.
    """

    rule: SilenceRule = ""
    subject: SilenceSubject = ""
    all: bool = False
    seconds: SilenceSeconds = 3600
    comment: SilenceComment = ""
    known: bool = False

    def __post_init__(self) -> None:
        """@raise ValueError: nothing to silence is given, or both C{all} and a rule or subject."""
        named = bool(self.rule or self.subject)
        if not named and not self.all:
            raise ValueError("give a `rule`, a `subject` or both; `all` silences everything")
        if named and self.all:
            raise ValueError("`all` silences everything: leave out `rule` and `subject`")


_WHAT: Final[dict[str, Any]] = {
    "oneOf": [
        {"anyOf": [_named("rule"), _named("subject")], "properties": {"all": {"const": False}}},
        {
            "required": ["all"],
            "properties": {"all": {"const": True}, "rule": {"maxLength": 0}, "subject": {"maxLength": 0}},
        },
    ]
}
"""What L{SilenceBody} checks, as a JSON schema says it."""

SilenceId = Annotated[str, Meta(pattern="^[0-9]{1,15}$", description="The silence's id.")]


class SilencePath(msgspec.Struct):
    """One silence."""

    id: SilenceId


@implementer(IStreamSource)
class AlertsSource:
    """Feeds the number of alerts to one client."""

    def __init__(self, monitor: AlertMonitor) -> None:
        self._monitor = monitor
        self._stream: EventStream | None = None

    def started(self, stream: EventStream) -> None:
        """Send the numbers now and on every change."""
        self._stream = stream
        self._monitor.listen(self._hear)

    def stopped(self) -> None:
        """Stop sending: the client is gone."""
        self._monitor.leave(self._hear)

    def _hear(self, summary: Summary) -> None:
        if self._stream is not None:
            self._stream.send("alerts", summary)


class AlertsApi:
    """Alerts."""

    def __init__(
        self, clock: IClock, monitor: AlertMonitor, subjects: KnownSubjects, runbook: Callable[[str], str]
    ) -> None:
        """@param runbook: returns where people read what to do about a rule's alerts."""
        self._clock = clock
        self._monitor = monitor
        self._subjects = subjects
        self._runbook = runbook

    @route("GET", "/alerts", scope=READ, query=AlertsQuery, answer=Page[AlertRow], remote=False)
    def alerts(self, call: RouteCall[None, AlertsQuery, None]) -> Page[AlertRow]:
        """
        List alerts: firing, pending, and those that were resolved in the last 15 minutes.

        Sorted by severity (the default, the worst first), state, rule, subject or sinceMs.
        """
        query = call.query
        rows = [self._row(one) for one in self._monitor.table.alerts()]
        rows = [
            one
            for one in rows
            if query.state in (None, one.state)
            and query.severity in (None, one.severity)
            and query.silenced in (None, one.silence is not None)
        ]
        return page_of(rows, query, _SORTS, query.text, "-severity")

    def _row(self, alert: Alert) -> AlertRow:
        rule = self._monitor.table.rule(alert.rule)
        silence = self._monitor.table.silence_of(alert, self._clock.wall_ms())
        return AlertRow(
            **msgspec.structs.asdict(alert),
            severity=rule.severity,
            kind=rule.kind,
            unit=rule.unit,
            threshold=rule.threshold,
            about=rule.about,
            runbook=self._runbook(rule.name),
            silence=silence,
        )

    @route("GET", "/alerts/summary", scope=READ, answer=Summary, remote=False)
    def summary(self, call: RouteCall[None, None, None]) -> Summary:
        """Count alerts."""
        return self._monitor.summary()

    @route("GET", "/alerts/events", scope=READ, answer=StreamAnswer, remote=False)
    def events(self, call: RouteCall[None, None, None]) -> Any:
        """
        Stream the numbers of alerts as they change (server-sent events).

        C{event: alerts} at once and whenever a number changes: critical, warning, silenced, pending.
        """
        return AlertsSource(self._monitor)

    @route("GET", "/alerts/history", scope=READ, query=AlertSearchQuery, answer=Page[PastRow], remote=False)
    def history(self, call: RouteCall[None, AlertSearchQuery, None]) -> Page[PastRow]:
        """List the last 500 alerts that fired, newest first; sorted by firedMs, rule or subject."""
        rows = [self._past(one) for one in self._monitor.table.history]
        return page_of(rows, call.query, _PAST_SORTS, call.query.text, "-firedMs")

    def _past(self, past: PastAlert) -> PastRow:
        rule = self._monitor.table.default(past.rule)
        return PastRow(**msgspec.structs.asdict(past), severity=rule.severity, kind=rule.kind, unit=rule.unit)

    # -- rules -------------------------------------------------------------------------------------------------

    @route("GET", "/alerts/rules", scope=READ, answer=list[RuleRow], remote=False)
    def rules(self, call: RouteCall[None, None, None]) -> list[RuleRow]:
        """List the alert rules."""
        return [self._rule(one) for one in self._monitor.table.rules]

    def _rule(self, rule: Rule) -> RuleRow:
        default = self._monitor.table.default(rule.name)
        return RuleRow(
            rule.name,
            rule.severity,
            rule.kind,
            rule.unit,
            rule.threshold,
            rule.seconds,
            rule.window,
            rule.enabled,
            default.threshold,
            default.seconds,
            rule.adjustable,
            rule.prometheus,
            rule.about,
            self._runbook(rule.name),
            JUDGEMENTS[rule.name].grave,
        )

    @route(
        "PUT",
        "/alerts/rules/{name}",
        scope=ADMIN,
        path_type=RulePath,
        body=RuleBody,
        answer=RuleRow,
        remote=False,
        refuses={404: "There is no such rule.", 409: "This rule has no adjustable threshold.", **UNKEPT},
    )
    async def adjust(self, call: RouteCall[RulePath, None, RuleBody]) -> RuleRow:
        """
        Set the threshold, the time or the state of a rule; members left out return to their defaults. The change
        survives restarts.
        """
        table, name, body = self._monitor.table, call.path.name, call.body
        if name not in RULES:
            raise Problem(404, f"there is no rule {name}", "rule-not-found")
        rule = table.rule(name)
        if body.threshold is not None and not rule.adjustable and body.threshold != rule.threshold:
            raise Problem(409, f"rule {name} has no adjustable threshold", "no-threshold")
        call.noted["before"] = {"threshold": rule.threshold, "seconds": rule.seconds, "enabled": rule.enabled}
        adjusted = RuleAdjustment(body.threshold, body.seconds, body.enabled)
        await self._monitor.change(lambda table: table.adjust(name, adjusted))
        return self._rule(table.rule(name))

    # -- silences ----------------------------------------------------------------------------------------------

    @route("GET", "/alerts/silences", scope=READ, answer=list[Silence], remote=False)
    def silences(self, call: RouteCall[None, None, None]) -> list[Silence]:
        """List the active silences, newest first."""
        return self._monitor.table.silences(self._clock.wall_ms())

    @route(
        "POST",
        "/alerts/silences",
        scope=ADMIN,
        body=Annotated[SilenceBody, Meta(extra_json_schema=_WHAT)],
        answer=Silence,
        status=201,
        remote=False,
        refuses={404: "There is no such rule, or with `known` nothing that has this subject.", **UNKEPT},
    )
    async def silence(self, call: RouteCall[None, None, SilenceBody]) -> Silence:
        """
        Silence known alerts: they stay listed but no longer count as firing.

        A silence survives restarts.
        """
        body, now = call.body, self._clock.wall_ms()
        if body.rule and body.rule not in RULES:
            raise Problem(404, f"there is no rule {body.rule}", "rule-not-found")
        if body.known and body.subject and not await self._subjects.has(body.subject):
            raise Problem(
                404,
                f"nothing is called {body.subject}: no alert, broker (a slave is NAME#ID), registry, group or topic",
                "subject-not-found",
            )
        until_ms = now + body.seconds * 1000
        who = call.principal.name
        return await self._monitor.change(
            lambda table: table.add_silence(body.rule, body.subject, until_ms, who, now, body.comment)
        )

    @route(
        "DELETE",
        "/alerts/silences/{id}",
        scope=ADMIN,
        path_type=SilencePath,
        remote=False,
        refuses={404: "There is no such silence, or it has ended.", **UNKEPT},
    )
    async def end(self, call: RouteCall[SilencePath, None, None]) -> None:
        """End a silence."""
        try:
            ended = await self._monitor.change(lambda table: table.end_silence(int(call.path.id)))
        except LookupError:
            raise Problem(404, f"there is no silence {call.path.id}, or it has ended", "silence-not-found") from None
        call.noted["before"] = msgspec.to_builtins(ended)


_SORTS: Final = {
    "severity": lambda one: (
        one.silence is None and one.state != "resolved", _STATES[one.state], _RANKS[one.severity], one.since_ms
    ),
    "state": lambda one: (_STATES[one.state], _RANKS[one.severity]),
    "rule": lambda one: (one.rule, one.subject),
    "subject": lambda one: (one.subject, one.rule),
    "sinceMs": lambda one: one.since_ms,
}  # fmt: skip
_PAST_SORTS: Final = {
    "firedMs": lambda one: (one.fired_ms, one.id),
    "rule": lambda one: (one.rule, one.id),
    "subject": lambda one: (one.subject, one.id),
}
