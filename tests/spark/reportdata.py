"""Figures as the job finds them, made up: for tests of the report, and to look at it without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from smartgo.spark.report import Report

BEGIN = datetime(2026, 3, 14, 8, 0, tzinfo=UTC)
HOSTILE = "</script><b onmouseover=alert(1)>&\u2028"


def report(damaged: bool = True, hostile: bool = True) -> Report:
    """A report on two stores; with names that try to break out of the page if asked."""
    random = Random(5)
    names = ["orders", "payments", "clicks", "mail", "audit", "stock", "prices", "returns", "ratings", "%RETRY%mailer"]
    if hostile:
        names[4] = HOSTILE
    weights = {name: 40_000 // (number * number + 1) + 40 for number, name in enumerate(names)}
    kind = {name: "retry" if name.startswith("%RETRY%") else "plain" for name in names}
    timeline = [
        {"at": BEGIN + timedelta(minutes=5 * step), "topic": name, "kind": kind[name], "messages": messages}
        for step in range(72)
        for name in names
        if (messages := int(weights[name] * (0.6 + 0.4 * random.random()) * (1 - abs(step - 36) / 50)))
    ]
    sums = {name: sum(row["messages"] for row in timeline if row["topic"] == name) for name in names}  # type: ignore[misc]
    last = BEGIN + timedelta(hours=6)
    by_topic: list[dict[str, Any]] = [
        {
            "topic": name,
            "kind": kind[name],
            "messages": sums[name],
            "bytes": sums[name] * (300 + 90 * number),
            "body_mean": 120.5 + 90 * number,
            "queues": 8,
            "tags": 4,
            "lag_p50": 1 + number,
            "lag_p99": 20 + 11 * number,
            "lag_max": 900 * (number + 1),
            "last_stored": last,
        }
        for number, name in enumerate(names)
    ]
    total = sum(sums.values())
    totals = {
        "messages": total,
        "bytes": sum(row["bytes"] for row in by_topic),
        "body_bytes": total * 180,
        "topics": len(names),
        "first_stored": BEGIN,
        "last_stored": last,
        "retries": sums["%RETRY%mailer"],
        "dead": 3,
        "lag_p50": 2,
        "lag_p99": 48,
    }
    region = {
        "store": "/data/broker-b",
        "file": "/data/broker-b/commitlog/00000000001073741824",
        "offset": 1073745920,
        "length": 1279,
        "reason": "body CRC is wrong",
    }
    return Report(
        ["/data/broker-a", "/data/broker-b"],
        datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC),
        300,
        {
            "totals": [totals],
            "by_store": [
                {"store": one, "messages": total // 2, "topics": 10, "bytes": 1 << 30, **_span(BEGIN, last)}
                for one in ("/data/broker-a", "/data/broker-b")
            ],
            "by_topic": by_topic,
            "by_tag": [
                {"topic": name, "tag": tag, "messages": sums[name] // part}
                for name in names
                for tag, part in (("created", 2), ("changed", 4), (HOSTILE if hostile else "closed", 6), (None, 12))
            ],
            "timeline": timeline,
            "lag_timeline": [
                {
                    "at": BEGIN + timedelta(minutes=5 * step),
                    "lag_p50": 2 + random.random(),
                    "lag_p99": 30 + 30 * random.random() + (120 if step in (40, 41) else 0),
                }
                for step in range(72)
            ],
            "sizes": [{"up_to_bytes": 1 << power, "messages": 100_000 // abs(power - 7.5) ** 2} for power in range(14)],
            "lags": [
                {"from_ms": at, "messages": count}
                for at, count in ((-1, 120), (0, 8000), (1, 90_000), (2, 60_000), (5, 21_000), (10, 9000), (50, 700))
            ],
            "retries": [
                {
                    "group": "mailer",
                    "topic": "mail",
                    "retries": sums["%RETRY%mailer"],
                    "dead": 3,
                    "most_times": 16,
                    **_span(BEGIN, last),
                }
            ],
            "top_keys": [
                {"key": key, "topic": "orders", "messages": 90 - number}
                for number in range(40)
                for key in [HOSTILE if hostile and not number else f"order-{number}"]
            ],
            "corrupt": [region] if damaged else [],
        },
    )  # fmt: skip


def _span(first: datetime, last: datetime) -> dict[str, datetime]:
    return {"first_stored": first, "last_stored": last}
