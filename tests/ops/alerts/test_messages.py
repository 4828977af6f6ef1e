"""The messages to receivers: text for people, and the shape that each kind of receiver takes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.receivers import AlertReceiver
from smartgo.ops.alerts.messages import DOCUMENT, SHOWN, HttpMessage, NoticeOrigin, requests, test_batches, text, title
from smartgo.ops.alerts.notices import Batch, Notice
from smartgo.ops.alerts.rules import RULES
from tests.test_layers import ROOT

NOW = 1_700_000_000_000
ORIGIN = NoticeOrigin("site-a", "https://wiki.example.com/a.html")
LATE = Notice("group-late", "audit", "warning", "firing", NOW - 600_000, NOW - 300_000, None, 700.0, 700.0, NOW)
DOWN = Notice("broker-down", "broker-a", "critical", "firing", NOW - 90_000, NOW - 30_000, None, 1.0, 1.0, NOW)
OVER = msgspec.structs.replace(LATE, subject="billing", state="resolved", resolved_ms=NOW - 1000, value=0.0)


def made(kind: Any, batch: Batch, origin: NoticeOrigin = ORIGIN, **options: str) -> list[HttpMessage]:
    """The requests of a message."""
    url = options.pop("url", "https://h.example.com/x")
    return requests(AlertReceiver(name="r", kind=kind, url=url, **options), batch, origin, NOW)  # type: ignore[arg-type]


def body(message: HttpMessage) -> Any:
    """The JSON of a request."""
    return json.loads(message.body)


class TextTests(SynchronousTestCase):
    """What people read."""

    def test_title(self) -> None:
        """The title says how many fire, how bad that is, and which."""
        for notices, words in (
            ([LATE], "1 alert firing: group-late audit"),
            ([LATE, DOWN], "2 alerts firing (1 critical): broker-down broker-a, group-late audit"),
            ([DOWN], "1 alert firing (critical): broker-down broker-a"),
            ([OVER], "1 alert resolved: group-late billing"),
            ([DOWN, OVER], "1 alert firing (critical): broker-down broker-a; 1 alert resolved: group-late billing"),
        ):
            self.assertEqual(title(Batch(notices), ORIGIN), f"[site-a] {words}")

    def test_text(self) -> None:
        """Each alert has its value, since when, what to do, and a link to its runbook."""
        self.assertEqual(
            text(Batch([LATE, OVER, DOWN]), ORIGIN),
            "[site-a] 2 alerts firing (1 critical): broker-down broker-a, group-late audit;"
            " 1 alert resolved: group-late billing\n\n"
            "CRITICAL broker-down broker-a, since 2023-11-14 22:11:50 UTC\n"
            f"{RULES['broker-down'].about}\nRunbook: https://wiki.example.com/a.html#alert-broker-down\n\n"
            "WARNING group-late audit: 700 s, since 2023-11-14 22:03:20 UTC\n"
            f"{RULES['group-late'].about}\nRunbook: https://wiki.example.com/a.html#alert-group-late\n\n"
            "RESOLVED group-late billing, at worst 700 s: since 2023-11-14 22:03:20 UTC, until 2023-11-14 22:13:19 UTC",
        )

    def test_detail(self) -> None:
        """What is known of the one subject comes before what its rule means, in every shape."""
        known = msgspec.structs.replace(DOWN, detail="Its messages can be read at slave 1.")
        words = "since 2023-11-14 22:11:50 UTC\nIts messages can be read at slave 1.\nThe broker is registered"
        self.assertIn(words, text(Batch([known]), ORIGIN))
        self.assertEqual(body(made("webhook", Batch([known]))[0])["alerts"][0]["detail"], known.detail)
        details = body(made("pagerduty", Batch([known]), token="k")[0])["payload"]["custom_details"]
        self.assertEqual(details["details"], {"broker-a": known.detail})
        [posted] = body(made("alertmanager", Batch([known]))[0])
        self.assertTrue(posted["annotations"]["description"].startswith(f"{known.detail} The broker"))

    def test_many(self) -> None:
        """A text names some of very many alerts, and counts the others."""
        many = [msgspec.structs.replace(LATE, subject=f"group-{number:03}") for number in range(500)]
        found = text(Batch(many), ORIGIN)
        self.assertEqual(found.count("Runbook"), SHOWN)
        self.assertIn(
            "500 alerts firing: group-late group-000, group-late group-001, group-late group-002 and 497 more", found
        )
        self.assertTrue(found.endswith("and 480 more: smartgo alert list"))

    def test_runbooks(self) -> None:
        """Each rule has an anchor on the page of the documents, and no anchor is without a rule."""
        with open(os.path.join(ROOT, DOCUMENT)) as file:
            page = file.read()
        self.assertEqual(set(re.findall("^_`alert-([a-z-]+)`$", page, re.MULTILINE)), set(RULES))
        self.assertEqual(NoticeOrigin("x").runbook("disk-full"), "docs/alerts.rst#alert-disk-full")


class ShapeTests(SynchronousTestCase):
    """What each kind of receiver gets."""

    def test_webhook(self) -> None:
        """All that is known, as JSON, with a signature where there is a secret."""
        (message,) = made("webhook", Batch([LATE, OVER]), token="t", secret="s")
        found = body(message)
        self.assertEqual((found["version"], found["source"], found["atMs"]), (1, "site-a", NOW))
        self.assertEqual(
            found["alerts"][0],
            {
                "rule": "group-late", "subject": "audit", "kind": "group", "severity": "warning", "state": "firing",
                "sinceMs": NOW - 600_000, "firedMs": NOW - 300_000, "resolvedMs": None, "value": 700.0, "peak": 700.0,
                "unit": "seconds", "about": RULES["group-late"].about,
                "runbook": "https://wiki.example.com/a.html#alert-group-late",
            },
        )  # fmt: skip
        self.assertEqual((found["alerts"][1]["state"], found["alerts"][1]["resolvedMs"]), ("resolved", NOW - 1000))
        self.assertEqual(message.headers["Authorization"], "Bearer t")
        signed = hmac.new(b"s", message.body, hashlib.sha256).hexdigest()
        self.assertEqual(message.headers["X-Smartgo-Signature"], f"sha256={signed}")

    def test_slack(self) -> None:
        """Text, in which the characters of Slack's markup are escaped."""
        odd = msgspec.structs.replace(LATE, subject="<!channel>&")
        (message,) = made("slack", Batch([odd]))
        self.assertEqual(set(body(message)), {"text"})
        self.assertIn("group-late &lt;!channel&gt;&amp;: 700 s", body(message)["text"])

    def test_pagerduty(self) -> None:
        """An incident is a rule: it is triggered anew with all its subjects, and resolved when none is left."""
        trigger, resolve = made("pagerduty", Batch([DOWN, OVER]), token="key")
        self.assertEqual(
            {name: value for name, value in body(trigger).items() if name not in ("payload", "links")},
            {
                "routing_key": "key",
                "event_action": "trigger",
                "dedup_key": "smartgo/site-a/broker-down",
                "client": "smartgo",
            },
        )
        payload = body(trigger)["payload"]
        self.assertEqual(payload["summary"], "[site-a] 1 alert firing (critical): broker-down broker-a")
        self.assertEqual((payload["source"], payload["severity"]), ("site-a", "critical"))
        self.assertEqual(payload["timestamp"], "2023-11-14T22:12:50.000Z")
        self.assertEqual(payload["custom_details"]["subjects"], {"broker-a": ""})
        self.assertEqual(body(trigger)["links"][0]["href"], "https://wiki.example.com/a.html#alert-broker-down")
        self.assertEqual(
            body(resolve),
            {"routing_key": "key", "event_action": "resolve", "dedup_key": "smartgo/site-a/group-late"},
        )
        (still,) = made("pagerduty", Batch([OVER], [LATE]), token="key")
        self.assertEqual(
            (body(still)["event_action"], body(still)["payload"]["custom_details"]["firing"]), ("trigger", 1)
        )

    def test_dingtalk(self) -> None:
        """Text, signed in the address: the HMAC of time and secret, with the secret as its key."""
        (message,) = made("dingtalk", Batch([LATE]), url="https://h.example.com/send?access_token=a", secret="SEC")
        query = parse_qs(urlsplit(message.url).query)
        signed = hmac.new(b"SEC", f"{NOW}\nSEC".encode(), hashlib.sha256).digest()
        self.assertEqual(
            query, {"access_token": ["a"], "timestamp": [str(NOW)], "sign": [base64.b64encode(signed).decode()]}
        )
        self.assertEqual((body(message)["msgtype"], list(body(message)["text"])), ("text", ["content"]))

    def test_feishu(self) -> None:
        """Text, signed in the body: the HMAC of nothing, with time and secret as its key."""
        (message,) = made("feishu", Batch([LATE]), secret="SEC")
        found = body(message)
        signed = hmac.new(f"{NOW // 1000}\nSEC".encode(), b"", hashlib.sha256).digest()
        self.assertEqual((found["timestamp"], found["sign"]), (str(NOW // 1000), base64.b64encode(signed).decode()))
        self.assertEqual((found["msg_type"], list(found["content"])), ("text", ["text"]))
        self.assertNotIn("sign", body(made("feishu", Batch([LATE]))[0]))

    def test_alertmanager(self) -> None:
        """A firing alert ends some minutes from now unless it is sent again; a resolved one ended when it did."""
        for url in ("http://am:9093", "http://am:9093/", "http://am:9093/api/v2/alerts"):
            (message,) = made("alertmanager", Batch([LATE, OVER]), url=url)
            self.assertEqual(message.url, "http://am:9093/api/v2/alerts")
        firing, over = body(message)
        self.assertEqual(
            firing["labels"],
            {"alertname": "group-late", "severity": "warning", "source": "site-a", "kind": "group", "subject": "audit"},
        )
        self.assertEqual(firing["annotations"]["summary"], "group-late audit: 700 s")
        self.assertEqual(firing["annotations"]["runbook_url"], "https://wiki.example.com/a.html#alert-group-late")
        self.assertEqual(
            (firing["startsAt"], firing["endsAt"]), ("2023-11-14T22:08:20.000Z", "2023-11-14T22:18:20.000Z")
        )
        self.assertEqual(over["endsAt"], "2023-11-14T22:13:19.000Z")

    def test_test(self) -> None:
        """A test message says that it is one, for every kind of receiver; PagerDuty's incident is ended at once."""
        for kind in ("webhook", "slack", "dingtalk", "feishu", "alertmanager", "pagerduty"):
            receiver = AlertReceiver(name="team", kind=kind, url="http://h", token="k" if kind == "pagerduty" else "")
            found = [one for batch in test_batches(receiver, NOW) for one in requests(receiver, batch, ORIGIN, NOW)]
            self.assertIn(b"This is a test of the receiver. Nothing is wrong.", found[0].body)
            actions = [body(one).get("event_action") for one in found] if kind == "pagerduty" else []
            self.assertEqual(actions, ["trigger", "resolve"] if actions else [])
