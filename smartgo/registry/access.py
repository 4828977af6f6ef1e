"""
Access rules of a registry by addresses (C{docs/decisions/trust-at-the-registry.rst}).

Everybody may ask for routes. Changes are taken by where they come from: a broker's from the connection that it
registered over, an administrator's from this machine and from the networks that C{adminAllow} names. With access
control on, who is an administrator is decided by keys, before a request comes here.
"""

from __future__ import annotations

from collections.abc import Iterable

from smartgo.errors import NoPermission
from smartgo.remoting.origin import Networks, is_this_machine
from smartgo.schema.advertised import ConnectionEnds


class Access:
    """The rules, by the settings."""

    def __init__(
        self, admin_allow: Iterable[str] = (), broker_allow: Iterable[str] = (), by_keys: bool = False
    ) -> None:
        """
        @param admin_allow: networks of administrators, besides this machine.
        @param by_keys: requests for administrators come from nobody else, whatever the address.
        @param broker_allow: networks of brokers, besides this machine; none for all.
        """
        self._by_keys = by_keys
        self._admins = Networks(admin_allow)
        self._brokers = Networks(broker_allow)

    def is_admin(self, asker: ConnectionEnds) -> bool:
        """Tell whether requests from this address count as an administrator's."""
        return self._by_keys or is_this_machine(asker) or asker.ip in self._admins

    def check_admin(self, asker: ConnectionEnds, what: str) -> None:
        """
        Refuse a request that does not come from an administrator.

        @param what: what is asked for.
        @raise NoPermission: this is none.
        """
        if not self.is_admin(asker):
            raise NoPermission(f"{asker.ip} may not {what} at this registry: adminAllow does not name it")

    def check_broker(self, asker: ConnectionEnds) -> None:
        """
        Refuse a request that does not come from a network of brokers.

        @raise NoPermission: this is none.
        """
        if self._brokers and not is_this_machine(asker) and asker.ip not in self._brokers:
            raise NoPermission(f"{asker.ip} may not register a broker at this registry: brokerAllow does not name it")
