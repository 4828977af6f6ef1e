"""The receivers of alert notices: one declaration each, of the setting C{alertReceivers}."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from smartgo.config.kinds import Duration, SettingKind
from smartgo.schema.address import is_address

ReceiverKind = Literal["webhook", "slack", "pagerduty", "dingtalk", "feishu", "smtp", "alertmanager"]
KINDS: Final[tuple[ReceiverKind, ...]] = get_args(ReceiverKind)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MAIL_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[\x21-\x7e]*")
_MOST = 20
_USUAL: Final[Mapping[str, Mapping[str, object]]] = {
    "pagerduty": {"url": "https://events.pagerduty.com/v2/enqueue"},
    "alertmanager": {"wait": 0.0, "interval": 15.0, "repeat": 60.0},
}
"""The defaults of options that depend on the kind of a receiver."""


class AlertReceiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    One receiver of alert notices.

    C{url}, C{token}, C{secret} and C{password} are secrets: the text itself, C{env:NAME} for a variable of the process
    environment, or C{file:PATH} for the content of a file, which is read for every notice.

    @ivar url: the address of an HTTP receiver; PagerDuty has one of its own.
    @ivar token: sent as a bearer token by webhook and alertmanager; PagerDuty's routing key.
    @ivar secret: signs the requests of webhook, dingtalk and feishu.
    @ivar server: C{host:port} of the SMTP server.
    @ivar tls: of SMTP: C{starttls}, C{implicit}, or C{off}.
    @ivar user: name for the SMTP login; empty: no login.
    @ivar sender: address of the mail's sender; C{to} of its recipients.
    @ivar ca: file with the certificates of the authorities to trust instead of the system's.
    @ivar severity: the least severity that the receiver gets.
    @ivar resolved: whether the receiver is told that an alert is resolved.
    @ivar wait: seconds to wait for more alerts before a message is sent.
    @ivar interval: least seconds between two messages.
    @ivar repeat: seconds after which an alert that still fires is sent again; 0: never.
    """

    name: str
    kind: ReceiverKind
    url: str = ""
    token: str = ""
    secret: str = ""
    server: str = ""
    tls: Literal["starttls", "implicit", "off"] = "starttls"
    user: str = ""
    password: str = ""
    sender: str = ""
    to: tuple[str, ...] = ()
    ca: str = ""
    severity: Literal["warning", "critical"] = "warning"
    resolved: bool = True
    wait: float = 5.0
    interval: float = 60.0
    repeat: float = 4 * 3600.0

    def __repr__(self) -> str:
        """Leave secrets out (reliability X18)."""
        return f"AlertReceiver({self.name!r}, {self.kind!r})"

    @property
    def secrets(self) -> dict[str, str]:
        """The secrets as they are declared, by the name of their option; those that are not given are left out."""
        found = {"url": self.url, "token": self.token, "secret": self.secret, "password": self.password}
        return {name: value for name, value in found.items() if value}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the SMTP server."""
        host, _, port = self.server.rpartition(":")
        return host, int(port)


class Receivers(SettingKind, frozen=True, kw_only=True):
    """
    Receivers of alert notices: an array of tables in TOML, or text: C{NAME KIND OPTION=VALUE ...}, several separated
    by C{;}.
    """

    secret: bool = True

    @property
    def allowed(self) -> str:
        return "NAME KIND OPTION=VALUE ..., several separated by ;, or an array of tables in TOML"

    def read(self, value: object) -> tuple[AlertReceiver, ...]:
        if isinstance(value, str):
            given = [_of_text(text) for text in value.split(";") if text.strip()]
        elif isinstance(value, list) and all(isinstance(one, dict) for one in value):
            given = [dict(one) for one in value]
        else:
            raise self._refuse()
        receivers = tuple(_receiver(one, number) for number, one in enumerate(given, 1))
        if len(receivers) > _MOST:
            raise ValueError(f"at most {_MOST} receivers")
        names = [one.name for one in receivers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"a list without repetition: receiver {name} is listed twice")
        return receivers

    def show(self, value: object) -> str:
        return ";".join(f"{one.name} {one.kind}" for one in value) if isinstance(value, tuple) else ""


def _of_text(text: str) -> dict[str, Any]:
    """Return the members of a receiver that is given as text. @raise ValueError: its form is wrong."""
    name, *words = text.split()
    given: dict[str, Any] = {"name": name}
    if words and "=" not in words[0]:
        given["kind"] = words.pop(0)
    for word in words:
        option, sign, value = word.partition("=")
        if not sign:
            raise ValueError(f"NAME KIND OPTION=VALUE ...: receiver {_shown(name)} has a word that is no OPTION=VALUE")
        given[option] = value
    return given


def _receiver(given: dict[str, Any], number: int) -> AlertReceiver:
    """Return a checked receiver. @raise ValueError: the sentence names the receiver and the option, never a value."""
    name, kind = given.get("name"), given.get("kind")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"a list of receivers: number {number} needs a name of letters, digits, '-', '_' and '.'")
    if kind not in KINDS:
        raise ValueError(f"a list of receivers: {name} needs a kind, one of {', '.join(KINDS)}")
    if "from" in given:
        given["sender"] = given.pop("from")
    unknown = given.keys() - {"from", *AlertReceiver.__struct_fields__}
    if unknown:
        raise ValueError(f"a list of receivers: {name} has the unknown option {_shown(min(unknown))}")
    if isinstance(given.get("to"), str):
        given["to"] = [one for one in given["to"].split(",") if one]
    for option in ("wait", "interval", "repeat"):
        if option in given:
            given[option] = _seconds(name, option, given[option])
    try:
        receiver = msgspec.convert({**_USUAL.get(kind, {}), **given}, AlertReceiver, strict=False)
    except msgspec.ValidationError as error:
        option = str(error).rpartition("$.")[2].rstrip("`") or "an option"
        raise ValueError(f"a list of receivers: {option} of {name} is not of the right form") from None
    wrong = _wrong(receiver)
    if wrong:
        raise ValueError(f"a list of receivers: {name} {wrong}")
    return receiver


def _seconds(name: str, option: str, value: object) -> float:
    try:
        found = Duration("", per="s", low=0, high=7 * 86_400).read(value)
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f"a list of receivers: {option} of {name} is no duration such as 30s, 5m or 4h")
    return float(found)


def _wrong(one: AlertReceiver) -> str:
    """Return what is wrong with a receiver, as the end of a sentence; nothing where it is right."""
    for option, value in one.secrets.items():
        if value.startswith("env:") and not _VARIABLE.fullmatch(value):
            return f"has no name of a variable behind env: in {option}"
        if value.startswith(("file:/", "env:")):
            continue
        if value.startswith("file:"):
            return f"needs an absolute path behind file: in {option}"
        if not _HEADER.fullmatch(value) and option != "password":
            return f"has a blank or a control character in {option}"
    if one.kind == "smtp":
        return _wrong_mail(one)
    if one.server or one.user or one.password or one.sender or one.to:
        return f"has an option of smtp, but its kind is {one.kind}"
    if not one.url:
        return "needs a url"
    if one.kind == "pagerduty" and not one.token:
        return "needs a token: PagerDuty's routing key (integration key)"
    if one.token and one.kind in ("slack", "dingtalk", "feishu"):
        return f"has a token, which {one.kind} does not use: its url holds it"
    if one.secret and one.kind not in ("webhook", "dingtalk", "feishu"):
        return f"has a secret to sign with, which {one.kind} does not use"
    return "" if one.url.startswith(("env:", "file:")) else wrong_url(one.url)


def wrong_url(url: str) -> str:
    """Return what is wrong with the URL of a receiver, as the end of a sentence; nothing where it is right."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        right = False
    return "" if right else "has a url that is not http://HOST... or https://HOST... (without a user)"


def _wrong_mail(one: AlertReceiver) -> str:
    if one.url or one.token or one.secret:
        return "has a url, a token or a secret, which smtp does not use"
    if not is_address(one.server):
        return "needs server=HOST:PORT"
    if not one.to or not all(_MAIL_ADDRESS.fullmatch(to) for to in one.to):
        return "needs to=ADDRESS,ADDRESS"
    if not _MAIL_ADDRESS.fullmatch(one.sender):
        return "needs from=ADDRESS"
    if bool(one.user) != bool(one.password):
        return "needs user and password, or neither"
    if one.user and one.tls == "off":
        return "would send its password without TLS: use tls=starttls or tls=implicit"
    return ""


def _shown(text: str) -> str:
    """Return a given word for a message: one line, escaped, cut."""
    return ascii(text[:64])[1:-1]
