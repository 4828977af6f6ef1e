"""
The messages that tell receivers of alerts: text for people, and the requests of each kind of HTTP receiver.

Sources: Slack's incoming webhooks (C{text}), PagerDuty's Events API v2, DingTalk's custom robots (errcode, sign),
Feishu's custom bots (code, sign), C{POST /api/v2/alerts} of Alertmanager's OpenAPI document.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

import msgspec

from smartgo.config.receivers import AlertReceiver
from smartgo.ops.alerts.notices import Batch, Notice
from smartgo.ops.alerts.rules import RULES, Rule
from smartgo.schema.moments import utc_text

SHOWN: Final = 20
"""Alerts that one text names; the others are counted."""
ENDS_AFTER_MS: Final = 5 * 60_000
"""How long Alertmanager takes an alert for firing after it was last told so; it is told every C{repeat}."""
DOCUMENT: Final = "docs/alerts.rst"

_LINE: Final = 300  # characters of one alert's line
_SUMMARY: Final = 1024  # PagerDuty's limit


TEST: Final = Rule(
    "test", "warning", 0.0, 0.0, "state", "process", lambda snapshot: None,
    "This is a test of the receiver. Nothing is wrong.",
)  # fmt: skip
"""The rule that a test message is about."""


class NoticeOrigin(NamedTuple):
    """
    Name and runbooks of an installation, for all its notices.

    @ivar source: its name.
    @ivar runbooks: address of the page with a section for each rule; empty: none.
    """

    source: str
    runbooks: str = ""

    def runbook(self, rule: str) -> str:
        """Return where people read what to do about a rule's alerts."""
        return f"{self.runbooks or DOCUMENT}#{'receivers' if rule == TEST.name else f'alert-{rule}'}"


class HttpMessage(NamedTuple):
    """One POST request."""

    url: str
    body: bytes
    headers: Mapping[str, str]


def test_batches(receiver: AlertReceiver, now_ms: int) -> list[Batch]:
    """Return the messages of a test; PagerDuty's incident is ended at once."""
    firing = Notice(TEST.name, receiver.name, "warning", "firing", now_ms, now_ms, None, 1.0, 1.0, now_ms)
    ended = msgspec.structs.replace(firing, state="resolved", resolved_ms=now_ms)
    return [Batch([firing]), *([Batch([ended])] if receiver.kind == "pagerduty" else [])]


def _rule(name: str) -> Rule:
    return TEST if name == TEST.name else RULES[name]


# -- text ----------------------------------------------------------------------------------------------------


def title(batch: Batch, origin: NoticeOrigin) -> str:
    """Return one line that says what a message is about, such as C{[site-a] 2 alerts firing: group-late audit, …}."""
    if all(one.rule == TEST.name for one in batch.notices):
        return f"[{origin.source}] Test of receiver {batch.notices[0].subject}: nothing is wrong"
    firing = [one for one in batch.notices if one.state == "firing"]
    ended = [one for one in batch.notices if one.state == "resolved"]
    critical = sum(one.severity == "critical" for one in firing)
    parts = []
    if firing:
        severity = f" ({critical} critical)" if 0 < critical < len(firing) else " (critical)" if critical else ""
        parts.append(f"{_counted(len(firing))} firing{severity}: {_named(firing)}")
    if ended:
        parts.append(f"{_counted(len(ended))} resolved: {_named(ended)}")
    return f"[{origin.source}] {'; '.join(parts)}"


def text(batch: Batch, origin: NoticeOrigin) -> str:
    """Return a message as plain text: the title, then a paragraph for each alert, critical ones first."""
    shown = _sorted(batch.notices)[:SHOWN]
    lines = [title(batch, origin), *(_paragraph(one, origin) for one in shown)]
    if len(batch.notices) > SHOWN:
        lines.append(f"and {len(batch.notices) - SHOWN} more: smartgo alert list")
    return "\n\n".join(lines)


def _paragraph(notice: Notice, origin: NoticeOrigin) -> str:
    rule = _rule(notice.rule)
    value = rule.value_text(notice.value if notice.state == "firing" else notice.peak)
    if notice.state == "resolved":
        worst = f", at worst {value}" if value else ""
        return f"RESOLVED {_name(notice)}{worst}: since {_moment(notice.since_ms)}, until {_moment(notice.resolved_ms)}"
    measured = f": {value}" if value else ""
    detail = f"{notice.detail}\n" if notice.detail else ""
    return (
        f"{notice.severity.upper()} {_name(notice)}{measured}, since {_moment(notice.since_ms)}\n"
        f"{detail}{rule.about}\nRunbook: {origin.runbook(notice.rule)}"
    )


def _name(notice: Notice) -> str:
    return f"{notice.rule} {notice.subject or 'this process'}"[:_LINE]


def _named(notices: Sequence[Notice]) -> str:
    first = ", ".join(_name(one) for one in _sorted(notices)[:3])
    return f"{first} and {len(notices) - 3} more" if len(notices) > 3 else first


def _sorted(notices: Iterable[Notice]) -> list[Notice]:
    return sorted(notices, key=lambda one: (one.state != "firing", one.severity != "critical", one.rule, one.subject))


def _counted(count: int) -> str:
    return f"{count} alert{'' if count == 1 else 's'}"


def _moment(ms: int | None) -> str:
    return "" if ms is None else utc_text(ms)


def _rfc3339(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- requests --------------------------------------------------------------------------------------------------


def requests(receiver: AlertReceiver, batch: Batch, origin: NoticeOrigin, now_ms: int) -> list[HttpMessage]:
    """
    Return the requests that bring a message to an HTTP receiver, to be made one after another.

    @param receiver: its declaration, with its secrets resolved.
    """
    build = {
        "webhook": _webhook,
        "slack": _slack,
        "pagerduty": _pagerduty,
        "dingtalk": _dingtalk,
        "feishu": _feishu,
        "alertmanager": _alertmanager,
    }[receiver.kind]
    return build(receiver, batch, origin, now_ms)


def _post(url: str, value: Any, headers: Mapping[str, str] | None = None) -> HttpMessage:
    return HttpMessage(url, msgspec.json.encode(value), {"Content-Type": "application/json", **(headers or {})})


def _webhook(receiver: AlertReceiver, batch: Batch, origin: NoticeOrigin, now_ms: int) -> list[HttpMessage]:
    alerts = [
        {
            "rule": one.rule,
            "subject": one.subject,
            "kind": _rule(one.rule).kind,
            "severity": one.severity,
            "state": one.state,
            "sinceMs": one.since_ms,
            "firedMs": one.fired_ms,
            "resolvedMs": one.resolved_ms,
            "value": one.value,
            "peak": one.peak,
            "unit": _rule(one.rule).unit,
            "about": _rule(one.rule).about,
            "runbook": origin.runbook(one.rule),
            **({"detail": one.detail} if one.detail else {}),
        }
        for one in _sorted(batch.notices)
    ]
    message = _post(
        receiver.url,
        {"version": 1, "source": origin.source, "atMs": now_ms, "title": title(batch, origin), "alerts": alerts},
        _bearer(receiver),
    )
    if not receiver.secret:
        return [message]
    signature = hmac.new(receiver.secret.encode(), message.body, hashlib.sha256).hexdigest()
    return [message._replace(headers={**message.headers, "X-Smartgo-Signature": f"sha256={signature}"})]


def _bearer(receiver: AlertReceiver) -> dict[str, str]:
    return {"Authorization": f"Bearer {receiver.token}"} if receiver.token else {}


def _slack(receiver: AlertReceiver, batch: Batch, origin: NoticeOrigin, now_ms: int) -> list[HttpMessage]:
    escaped = text(batch, origin).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return [_post(receiver.url, {"text": escaped})]


def _dingtalk(receiver: AlertReceiver, batch: Batch, origin: NoticeOrigin, now_ms: int) -> list[HttpMessage]:
    url = receiver.url
    if receiver.secret:
        signed = hmac.new(receiver.secret.encode(), f"{now_ms}\n{receiver.secret}".encode(), hashlib.sha256).digest()
        url += f"{'&' if '?' in url else '?'}timestamp={now_ms}&sign={quote_plus(base64.b64encode(signed))}"
    return [_post(url, {"msgtype": "text", "text": {"content": text(batch, origin)}})]


def _feishu(receiver: AlertReceiver, batch: Batch, origin: NoticeOrigin, now_ms: int) -> list[HttpMessage]:
    body: dict[str, Any] = {"msg_type": "text", "content": {"text": text(batch, origin)}}
    if receiver.secret:
        stamp = str(now_ms // 1000)
        key = f"{stamp}\n{receiver.secret}".encode()
        body |= {"timestamp": stamp, "sign": base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()}
    return [_post(receiver.url, body)]


def _pagerduty(receiver: AlertReceiver, batch: Batch, origin: NoticeOrigin, now_ms: int) -> list[HttpMessage]:
    """Return one event for each rule of the batch: an incident is a rule with all its subjects that fire."""
    found = []
    for rule in dict.fromkeys(one.rule for one in _sorted(batch.notices)):
        firing = _sorted(one for one in (*batch.notices, *batch.still) if one.rule == rule and one.state == "firing")
        event: dict[str, Any] = {
            "routing_key": receiver.token,
            "event_action": "trigger" if firing else "resolve",
            "dedup_key": f"smartgo/{origin.source}/{rule}"[:255],
        }
        if firing:
            subjects = {one.subject or "this process": _rule(rule).value_text(one.value) for one in firing[:SHOWN]}
            details = {one.subject or "this process": one.detail for one in firing[:SHOWN] if one.detail}
            link = origin.runbook(rule)
            event |= {
                "client": "smartgo",
                "payload": {
                    "summary": f"{title(Batch(firing), origin)}"[:_SUMMARY],
                    "source": origin.source,
                    "severity": firing[0].severity,
                    "timestamp": _rfc3339(min(one.fired_ms for one in firing)),
                    "component": _rule(rule).kind,
                    "class": rule,
                    "custom_details": {
                        "subjects": subjects, "firing": len(firing), "about": _rule(rule).about, "runbook": link,
                        **({"details": details} if details else {}),
                    },
                },
            }  # fmt: skip
            if origin.runbooks:
                event["links"] = [{"href": link, "text": f"Runbook of {rule}"}]
        found.append(_post(receiver.url, event))
    return found


def _alertmanager(receiver: AlertReceiver, batch: Batch, origin: NoticeOrigin, now_ms: int) -> list[HttpMessage]:
    path = "/api/v2/alerts"
    base = receiver.url.rstrip("/").removesuffix(path)
    return [_post(base + path, [_posted(one, origin, now_ms) for one in _sorted(batch.notices)], _bearer(receiver))]


def _posted(notice: Notice, origin: NoticeOrigin, now_ms: int) -> dict[str, Any]:
    rule = _rule(notice.rule)
    value = rule.value_text(notice.value)
    return {
        "labels": {
            "alertname": notice.rule,
            "severity": notice.severity,
            "source": origin.source,
            "kind": rule.kind,
            **({"subject": notice.subject} if notice.subject else {}),
        },
        "annotations": {
            "summary": f"{_name(notice)}{f': {value}' if value else ''}",
            "description": f"{notice.detail} {rule.about}".lstrip(),
            "runbook_url": origin.runbook(notice.rule),
        },
        "startsAt": _rfc3339(notice.fired_ms),
        "endsAt": _rfc3339(now_ms + ENDS_AFTER_MS if notice.resolved_ms is None else notice.resolved_ms),
    }


# -- answers ---------------------------------------------------------------------------------------------------


def refusal(receiver: AlertReceiver, status: int, body: bytes) -> str:
    """Return why a receiver did not take a message, from its answer; empty where it took it."""
    if not 200 <= status < 300:
        return f"HTTP status {status}{_quoted(body)}"
    member = {"dingtalk": "errcode", "feishu": "code"}.get(receiver.kind)
    if member is None:
        return ""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return f"HTTP status {status}, but no JSON{_quoted(body)}"
    code = answer.get(member, answer.get("StatusCode")) if isinstance(answer, dict) else None
    return "" if code == 0 else f"{receiver.kind} refused it{_quoted(body)}"


def answered(status: int, body: bytes) -> str:
    """Return what a receiver answered, for people."""
    return f"HTTP status {status}{_quoted(body)}"


def _quoted(body: bytes) -> str:
    """Return the beginning of an answer's body on one line."""
    shown = "".join(one if one.isprintable() else " " for one in body[:400].decode("utf-8", "replace")).strip()
    return f": {shown}" if shown else ""
