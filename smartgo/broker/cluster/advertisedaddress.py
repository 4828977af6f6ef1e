"""The addresses that a broker tells others, as far as settings leave them open."""

from __future__ import annotations

from typing import Final

from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.schema.message import pack_host

_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  looked for, not bound


class AdvertisedAddress:
    """
    The addresses of one broker.

    @ivar address: C{host:port} that clients are told.
    @ivar ha_address: C{host:port} that slaves are told.
    @ivar store_host: C{address} as a record stores it, for message ids.
    """

    def __init__(self, env: IEnvironment, configuration: Configuration) -> None:
        """@raise SettingError: brokerIP1 is a name that no host has."""
        config = configuration.broker
        self._env = env
        self._configuration = configuration
        self.address = f"{self._advertised(config.broker_ip1)}:{config.listen_port}"
        self.ha_address = f"{self._advertised(config.broker_ip2)}:{configuration.ha_port}"
        self.store_host = self._packed(self.address)

    def _advertised(self, address: str) -> str:
        """The address that others are told: as configured, else the one that faces the registry."""
        if address and address not in _WILDCARDS:
            return address
        registries = self._configuration.broker.namesrv_addr
        host, _, port = (registries[0] if registries else "192.0.2.1:9876").rpartition(":")
        found: str = self._env.host.address_towards(host, int(port))
        return found

    def _packed(self, address: str) -> bytes:
        host, _, port = address.rpartition(":")
        try:
            return pack_host(host, int(port))
        except ValueError:
            pass
        try:
            return pack_host(self._env.host.resolve(host), int(port))
        except OSError:
            raise SettingError(f"brokerIP1={host}: no such host") from None

    def settled(self) -> dict[str, str]:
        """
        Return the addresses that were chosen for settings left open, and the facts that tools ask for by RocketMQ's
        names.
        """
        return {
            "brokerIP1": self.address.rpartition(":")[0],
            "brokerIP2": self.ha_address.rpartition(":")[0],
            "haListenPort": str(self._configuration.ha_port),
            "filterServerNums": "0",
            "useTLS": str(self._configuration.tls.client_enable).lower(),
        }
