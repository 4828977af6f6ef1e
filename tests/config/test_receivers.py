"""The setting alertReceivers: forms, defaults, sentences about errors, secrets."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.catalog import show
from smartgo.config.loading import Configuration, Surroundings, load
from smartgo.config.receivers import AlertReceiver
from smartgo.errors import SettingError

HERE = Surroundings("testhost", "/home/test", lambda name: None)


def configured(text: str) -> tuple[AlertReceiver, ...]:
    """The receivers that a flag gives."""
    return load(HERE, flags={"alertReceivers": text}).ops.alert_receivers


def from_file(text: str) -> Configuration:
    """The configuration of a TOML file."""
    return load(HERE, path="s.toml", data=text.encode())


class ReceiverTests(SynchronousTestCase):
    """Receivers as they are given."""

    def test_text(self) -> None:
        """A flag or a properties file gives them as text."""
        slack, mail = configured(
            "team slack url=env:SLACK_URL severity=critical repeat=0 ; "
            "ops smtp server=mail.example.com:587 user=alerts password=file:/etc/pw from=a@example.com"
            " to=b@example.com,c@example.com resolved=false wait=1m"
        )
        self.assertEqual(
            (slack.name, slack.kind, slack.url, slack.severity), ("team", "slack", "env:SLACK_URL", "critical")
        )
        self.assertEqual((slack.wait, slack.interval, slack.repeat, slack.resolved), (5.0, 60.0, 0.0, True))
        self.assertEqual((mail.address, mail.tls), (("mail.example.com", 587), "starttls"))
        self.assertEqual((mail.sender, mail.to), ("a@example.com", ("b@example.com", "c@example.com")))
        self.assertEqual((mail.wait, mail.repeat, mail.resolved), (60.0, 4 * 3600.0, False))

    def test_toml(self) -> None:
        """TOML gives them as an array of tables; numbers are seconds."""
        found = from_file(
            '[[ops.alertReceivers]]\nname = "a"\nkind = "webhook"\nurl = "https://a.example.com/x"\nwait = 2\n'
            '[[ops.alertReceivers]]\nname = "b"\nkind = "smtp"\nserver = "h:25"\ntls = "off"\nfrom = "a@b.c"\n'
            'to = ["d@e.f"]\nresolved = false\n'
        )
        webhook, mail = found.ops.alert_receivers
        self.assertEqual((webhook.kind, webhook.wait), ("webhook", 2.0))
        self.assertEqual((mail.tls, mail.to, mail.resolved), ("off", ("d@e.f",), False))
        self.assertEqual(list(found.warnings), [])

    def test_defaults(self) -> None:
        """PagerDuty's address is known; Alertmanager is told every minute, as by Prometheus."""
        pager, manager = configured("p pagerduty token=file:/k;m alertmanager url=http://127.0.0.1:9093")
        self.assertEqual(pager.url, "https://events.pagerduty.com/v2/enqueue")
        self.assertEqual((manager.wait, manager.interval, manager.repeat), (0.0, 15.0, 60.0))
        self.assertEqual(load(HERE).ops.alert_receivers, ())
        self.assertEqual(load(HERE).ops.alert_source, "testhost")

    def test_wrong(self) -> None:
        """What is wrong is said with the name of the receiver and of the option; no value is repeated."""
        for text, words in (
            ("x", "x needs a kind, one of webhook, slack, pagerduty, dingtalk, feishu, smtp, alertmanager"),
            ("x carrier-pigeon", "x needs a kind"),
            ("!! slack", "number 1 needs a name"),
            ("x slack", "x needs a url"),
            ("x slack url=ftp://SECRET", "x has a url that is not http://HOST... or https://HOST..."),
            ("x slack url=http://u:SECRET@h/", "x has a url that is not"),
            ("x slack url=http://SECRET pasword=y", "x has the unknown option pasword"),
            ("x slack url=http://SECRET SECRET", "receiver x has a word that is no OPTION=VALUE"),
            ("x slack url=http://SECRET resolved=maybe", "resolved of x is not of the right form"),
            ("x slack url=http://SECRET severity=loud", "severity of x is not of the right form"),
            ("x slack url=http://SECRET wait=soon", "wait of x is no duration such as 30s, 5m or 4h"),
            ("x slack url=http://SECRET token=SECRET", "x has a token, which slack does not use: its url holds it"),
            ("x slack url=http://SECRET user=SECRET", "x has an option of smtp, but its kind is slack"),
            ("x slack url=file:SECRET", "x needs an absolute path behind file: in url"),
            ("x slack url=env:-", "x has no name of a variable behind env: in url"),
            ("x pagerduty", "x needs a token: PagerDuty's routing key"),
            (
                "x alertmanager url=http://h secret=SECRET",
                "x has a secret to sign with, which alertmanager does not use",
            ),
            ("x smtp from=a@b to=c@d", "x needs server=HOST:PORT"),
            ("x smtp server=h:25 to=c@d", "x needs from=ADDRESS"),
            ("x smtp server=h:25 from=a@b", "x needs to=ADDRESS,ADDRESS"),
            ("x smtp server=h:25 from=a@b to=c@d url=http://SECRET", "x has a url, a token or a secret"),
            ("x smtp server=h:25 from=a@b to=c@d user=u", "x needs user and password, or neither"),
            (
                "x smtp server=h:25 from=a@b to=c@d user=u password=SECRET tls=off",
                "x would send its password without TLS",
            ),
            ("a slack url=http://h;a slack url=http://g", "receiver a is listed twice"),
            (";".join(f"a{number} slack url=http://h" for number in range(21)), "at most 20 receivers"),
        ):
            error = self.assertRaises(SettingError, configured, text)
            self.assertIn(words, str(error))
            self.assertNotIn("SECRET", str(error))

    def test_secret(self) -> None:
        """The settings of a process are shown without them."""
        given = "a slack url=https://hooks.example.com/SECRET;b webhook url=http://h token=SECRET"
        ops = load(HERE, flags={"alertReceivers": given}).ops
        self.assertEqual(dict(show("ops", ops))["alertReceivers"], "***")
        self.assertNotIn("SECRET", repr(ops))
        self.assertNotIn("SECRET", repr(ops.alert_receivers))
