"""The kinds of settings whose value is a list: addresses, networks, hours."""

from __future__ import annotations

import ipaddress
import re

from smartgo.config.kinds import SettingKind
from smartgo.schema.address import is_address


class _Items(SettingKind, frozen=True, kw_only=True):
    """Texts without repetition, several of them separated by C{;} or given as a list."""

    def read(self, value: object) -> tuple[str, ...]:
        items = value.split(";") if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise self._refuse()
        return tuple(dict.fromkeys(self._one(item.strip()) for item in items if item.strip()))

    def show(self, value: object) -> str:
        return ";".join(value) if isinstance(value, tuple) else ""

    def _one(self, text: str) -> str:
        """Return an item in its usual form."""
        raise NotImplementedError


class Addresses(_Items, frozen=True, kw_only=True):
    """C{host:port}, several of them."""

    @property
    def allowed(self) -> str:
        return "host:port, several separated by ;"

    def _one(self, text: str) -> str:
        if is_address(text):
            return text
        raise self._refuse()


class NetworkList(_Items, frozen=True, kw_only=True):
    """IP addresses and networks, several of them."""

    @property
    def allowed(self) -> str:
        return "an IP address or a network such as 10.0.0.0/8, several separated by ;"

    def _one(self, text: str) -> str:
        try:
            return str(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise self._refuse() from None


class Hours(SettingKind, frozen=True, kw_only=True):
    """Hours of the day: one, or several separated by C{;} or given as a list."""

    @property
    def allowed(self) -> str:
        return "an hour from 00 to 23, several separated by ;"

    def read(self, value: object) -> tuple[int, ...]:
        if isinstance(value, str):
            items: list[object] = [item.strip() for item in value.split(";") if item.strip()]
        elif isinstance(value, list):
            items = list(value)
        else:
            items = [value]
        hours = []
        for item in items:
            if isinstance(item, str) and re.fullmatch(r"[0-9]{1,2}", item):
                item = int(item)
            if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item <= 23:
                raise self._refuse()
            hours.append(item)
        if not hours:
            raise self._refuse()
        return tuple(sorted(set(hours)))

    def show(self, value: object) -> str:
        return ";".join(f"{hour:02}" for hour in value) if isinstance(value, tuple) else ""
