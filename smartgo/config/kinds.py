"""
Kinds of settings: parsing of a value, its allowed range, and its form in output.

A kind takes what a file gives (text, or a TOML value) and returns what the code works with: durations become
seconds whatever the file's unit, sizes bytes, lists tuples. Anything else is a C{ValueError} whose message is the
sentence that says what is allowed; the loader adds file, key and value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from smartgo.errors import SettingError
from smartgo.schema.address import HOST, is_address
from smartgo.schema.advertised import Advertised
from smartgo.schema.delay import DelayLevels

_INTEGER = re.compile(r"-?[0-9]{1,19}\Z")
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]{1,4})\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20, "G": 1 << 30, "GiB": 1 << 30}
_ANY = (1 << 63) - 1
_UNIT_NAMES = {"ms": "milliseconds", "s": "seconds", "h": "hours"}


class SettingKind(msgspec.Struct, frozen=True):
    """
    A setting's description; the subclasses add what is allowed.

    @ivar about: one or two sentences for the reference page.
    @ivar aliases: other spellings of the setting's name, from other releases.
    @ivar otherwise: what holds when the setting is not given, where that is not a fixed value.
    @ivar secret: the value is never shown.
    """

    about: str
    aliases: tuple[str, ...] = ()
    otherwise: str = ""
    secret: bool = False

    @property
    def allowed(self) -> str:
        """The allowed values, as the end of a sentence."""
        raise NotImplementedError

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values, if they are a few words; else nothing."""
        return ()

    @property
    def unit(self) -> str:
        """The unit of a bare number in a file; empty where there is none."""
        return ""

    def read(self, value: object) -> object:
        """
        Return what the code works with.

        @param value: text, or a TOML value.
        @raise ValueError: not allowed; the message is L{allowed}.
        """
        raise NotImplementedError

    def show(self, value: object) -> str:
        """Return a value of ours as a file would give it, in the file's unit."""
        return "" if value is None else str(value)

    def _refuse(self) -> ValueError:
        return ValueError(self.allowed)


class Switch(SettingKind, frozen=True):
    """C{true} or C{false}, in any case."""

    @property
    def allowed(self) -> str:
        return "true or false"

    @property
    def choices(self) -> tuple[str, ...]:
        return ("true", "false")

    def read(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise self._refuse()

    def show(self, value: object) -> str:
        return "" if value is None else str(value).lower()


class Integer(SettingKind, frozen=True, kw_only=True):
    """
    A whole number within bounds.

    @ivar clamp: a number outside is moved to the nearest bound, as RocketMQ does with some settings.
    """

    low: int = 0
    high: int = _ANY
    clamp: bool = False

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low}" + (f" to {self.high}" if self.high < _ANY else "")

    def read(self, value: object) -> int | None:
        return self._within(self._whole(value))

    def _whole(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and _INTEGER.match(value):
            return int(value)
        raise self._refuse()

    def _within(self, number: int) -> int:
        if self.clamp:
            return min(max(number, self.low), self.high)
        if not self.low <= number <= self.high:
            raise self._refuse()
        return number


_SIZES: Final[Mapping[str, int]] = {"65536": 1 << 16, "64KiB": 1 << 16, "1GiB": 1 << 30}
_SPANS: Final[Mapping[str, float]] = {"500ms": 0.5, "5s": 5.0, "30s": 30.0, "2h": 7200.0, "3d": 259_200.0}
"""Examples, of which a description and an error show those that are allowed."""


def _such_as(examples: Sequence[str]) -> str:
    """Return examples as the end of a sentence; nothing where there are none."""
    if not examples:
        return ""
    *first, last = examples
    return f", such as {', '.join(first)} or {last}" if first else f", such as {last}"


class Port(Integer, frozen=True, kw_only=True):
    """A TCP port; 0 lets the system choose."""

    high: int = 65535

    @property
    def allowed(self) -> str:
        return "a port from 0 (any free one) to 65535"


class PortOrSwitch(Port, frozen=True, kw_only=True):
    """A TCP port, C{true} for the usual one, C{false} for none."""

    low: int = 1

    @property
    def allowed(self) -> str:
        return "true, false, or a port from 1 to 65535"

    def read(self, value: object) -> int | bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false", "on", "off"):
            return value.lower() in ("true", "on")
        return self._within(self._whole(value))

    def show(self, value: object) -> str:
        return str(value).lower()


class Size(Integer, frozen=True, kw_only=True):
    """Bytes: a bare number, or one with B, KiB, MiB, GiB (K, M, G are the same)."""

    @property
    def allowed(self) -> str:
        most = f" to {self.high}" if self.high < _ANY else ""
        usable = [text for text, size in _SIZES.items() if self.low <= size <= self.high]
        return f"a size from {self.low}{most} bytes{_such_as(usable)}"

    @property
    def unit(self) -> str:
        return "bytes"

    def _whole(self, value: object) -> int:
        match = _QUANTITY.match(value) if isinstance(value, str) else None
        if match is not None and match[2] in _BYTES:
            return int(float(match[1]) * _BYTES[match[2]])
        return super()._whole(value)


class Duration(SettingKind, frozen=True, kw_only=True):
    """
    A time span: a bare number in the setting's own unit, or one with ms, s, m, h or d. Seconds in the code.

    @ivar per: the unit of a bare number: C{ms}, C{s} or C{h}.
    @ivar low: the shortest, in that unit.
    @ivar high: the longest, in that unit.
    @ivar clamp: as with L{Integer}.
    """

    per: str = "ms"
    low: int = 0
    high: int = 1 << 31
    clamp: bool = False

    @property
    def allowed(self) -> str:
        per = _SECONDS[self.per]
        usable = [text for text, seconds in _SPANS.items() if self.low * per <= seconds <= self.high * per]
        return f"a duration from {self.low} to {self.high} {self.unit}{_such_as(usable[:2])}"

    @property
    def unit(self) -> str:
        return _UNIT_NAMES[self.per]

    def read(self, value: object) -> float:
        match = _QUANTITY.match(value) if isinstance(value, str) else None
        if match is not None and match[2] in _SECONDS:
            seconds = float(match[1]) * _SECONDS[match[2]]
        elif isinstance(value, int) and not isinstance(value, bool):
            seconds = value * _SECONDS[self.per]
        elif isinstance(value, str) and _INTEGER.match(value):
            seconds = int(value) * _SECONDS[self.per]
        else:
            raise self._refuse()
        low, high = self.low * _SECONDS[self.per], self.high * _SECONDS[self.per]
        if self.clamp:
            return min(max(seconds, low), high)
        if not low <= seconds <= high:
            raise self._refuse()
        return seconds

    def show(self, value: object) -> str:
        number = round(cast(float, value) / _SECONDS[self.per], 6)
        # A bare number is a whole one; any other is read with its unit.
        return str(int(number)) if number == int(number) else f"{number:.6f}".rstrip("0") + self.per


class Choice(SettingKind, frozen=True, kw_only=True):
    """One of several words, in any case."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return f"{', '.join(self.words[:-1])} or {self.words[-1]}"

    @property
    def choices(self) -> tuple[str, ...]:
        return self.words

    def read(self, value: object) -> str:
        for word in self.words:
            if isinstance(value, str) and word.lower() == value.lower():
                return word
        raise self._refuse()


class Text(SettingKind, frozen=True, kw_only=True):
    """
    Text of one line.

    @ivar pattern: what the whole of it must match.
    @ivar says: the pattern in words.
    """

    pattern: str = r"[^\x00-\x1f\x7f]{0,1024}"
    says: str = "text of one line, at most 1024 characters"

    @property
    def allowed(self) -> str:
        return self.says

    def read(self, value: object) -> object:
        if isinstance(value, str) and re.fullmatch(self.pattern, value):
            return value
        raise self._refuse()


class Name(Text, frozen=True, kw_only=True):
    """The name of a cluster or broker; it also names a topic, save that a dot is let in for host names."""

    pattern: str = r"[%|a-zA-Z0-9_-][%|a-zA-Z0-9_.-]{0,126}"
    says: str = "1 to 127 characters of letters, digits and % | _ - ."


class Path(Text, frozen=True, kw_only=True):
    """A path of the file system; a leading C{~/} or C{{{HOME}}} is replaced by the loader."""

    pattern: str = r"[^\x00-\x1f\x7f]{1,4096}"
    says: str = "a path"


class Host(SettingKind, frozen=True, kw_only=True):
    """
    An IP address or, where C{names} says so, a host name.

    @ivar names: host names are allowed too.
    """

    names: bool = False

    @property
    def allowed(self) -> str:
        return "an IP address or a host name" if self.names else "an IP address such as 127.0.0.1, 0.0.0.0 or ::1"

    def read(self, value: object) -> str:
        if isinstance(value, str):
            try:
                return str(ipaddress.ip_address(value))
            except ValueError:
                if self.names and HOST.match(value):
                    return value
        raise self._refuse()


class Address(SettingKind, frozen=True, kw_only=True):
    """One C{host:port}."""

    @property
    def allowed(self) -> str:
        return "host:port"

    def read(self, value: object) -> str:
        if isinstance(value, str) and is_address(value):
            return value
        raise self._refuse()


class AdvertisedAddresses(SettingKind, frozen=True, kw_only=True):
    """Addresses by where they are asked for, as L{smartgo.schema.advertised} has them."""

    @property
    def allowed(self) -> str:
        return "NETWORK=HOST:PORT or @LISTENER=HOST:PORT, several separated by ;"

    def read(self, value: object) -> str:
        items = value if isinstance(value, list) else [value]
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) != len(items):
            raise self._refuse()
        try:
            return Advertised.parse(";".join(texts)).text
        except ValueError as error:
            raise ValueError(f"{self.allowed} ({error})") from None


class Levels(SettingKind, frozen=True, kw_only=True):
    """The delay levels, as RocketMQ writes them: C{1s 5s 10s 30s 1m}."""

    @property
    def allowed(self) -> str:
        return "delays separated by blanks, each a number with s, m, h or d, such as 1s 5s 10s 30s 1m"

    def read(self, value: object) -> str:
        if not isinstance(value, str):
            raise self._refuse()
        try:
            DelayLevels.parse(value)
        except SettingError:
            raise self._refuse() from None
        return value
