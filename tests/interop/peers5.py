"""The real broker and name server of RocketMQ 5, as processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.interop.jars import SERVERS_5, Unavailable
from tests.interop.peers import Peer, Plan, RocketmqBroker, RocketmqRegistry

_AUTH: Final = "org.apache.rocketmq.auth"


class Rocketmq5Registry(RocketmqRegistry):
    """The name server, 5.5.0."""

    kind = "rocketmq5-namesrv"
    generation = SERVERS_5


class Rocketmq5Broker(RocketmqBroker):
    """The broker, 5.5.0, without a proxy."""

    kind = "rocketmq5-broker"
    generation = SERVERS_5

    def __init__(self, plan: Plan) -> None:
        # what has ended is written every transactionOpBatchInterval (3 s), and is asked for until then
        settings = {"bindAddress": plan.host, "transactionTimeOut": "6000", **plan.settings}
        super().__init__(replace(plan, settings=settings))


ROCKETMQ5 = Peer("rocketmq5", Rocketmq5Registry, Rocketmq5Broker, Rocketmq5Broker, restart_limit=60.0)


def unavailable5() -> str | None:
    """Return why RocketMQ 5's servers cannot run here, or C{None}; resolves what is missing."""
    try:
        _ = SERVERS_5.jars
    except Unavailable as error:
        return str(error)
    return None


def access_settings(key: tuple[str, str]) -> Mapping[str, str]:
    """Return the settings of a broker whose only user is an administrator, by whom it signs its own requests too."""
    name, secret = key
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
        "authorizationEnabled": "true",
        "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": name, "password": secret}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": name, "secretKey": secret}),
    }
