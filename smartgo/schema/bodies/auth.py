"""
Users of RocketMQ 5 and their policies (3001 to 3010).

Source: C{UserInfo} and C{AclInfo} of C{rocketmq-remoting} 5.3.3.
"""

from __future__ import annotations

from typing import ClassVar

from smartgo.schema.bodies.shape import REQUEST_LIMIT, Body


class UserInfo(Body):
    """A user; what is C{None} is not said. Answers of ours never tell a password (reliability X8)."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    size_limit: ClassVar = REQUEST_LIMIT


class PolicyEntryInfo(Body):
    """An entry of a policy for one resource, such as C{Topic:orders}, C{Group:bill*} or C{Cluster:*}."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body):
    """A policy, C{Custom} or C{Default}."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] | None = None


class AclInfo(Body):
    """The policies of a subject, C{User:NAME}."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None

    size_limit: ClassVar = REQUEST_LIMIT
