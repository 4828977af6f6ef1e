"""The cases that each face of the client passes with access keys, and with TLS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from smartgo import AccessKey, CallFailed, Message, PeerRefused
from smartgo.aio import TLSFiles
from tests.client.facecases import admin, push, send
from tests.client.facecluster import Cluster

ADMIN: Final = ("an-admin", "admin-secret")
"""The access key of an administrator, and its secret."""
RULES: Final = f"accounts:\n- {{accessKey: {ADMIN[0]}, secretKey: {ADMIN[1]}, admin: true}}\n"
"""The content of C{plain_acl.yml} for a broker that knows this key alone."""


def access(cluster: Cluster) -> None:
    """A client that signs with the right secret may send; one with a wrong secret or no key can do nothing."""
    topic = cluster.topic("access")
    cluster.send(topic, b"x")
    for key in (AccessKey(ADMIN[0], "wrong-secret"), None):
        stranger_fails(cluster, PeerRefused, topic, access_key=key)


def tls(cluster: Cluster) -> None:
    """A client that trusts the server's authority may send; one that trusts another, or has no TLS, can do nothing."""
    topic = cluster.topic("tls")
    cluster.send(topic, b"x")
    trusted = cluster.options["tls"].trust
    for files in (TLSFiles(trust=trusted.replace("authority.pem", "another.pem")), None):
        stranger_fails(cluster, CallFailed, topic, tls=files)


def stranger_fails(cluster: Cluster, kind: type[Exception], topic: str, **options: Any) -> None:
    """Fail unless a client with other options can neither send nor start consumers, with errors of a class."""
    client = cluster.face.client(cluster.registry, instance=f"{cluster.unique}-stranger", **options)
    try:
        producer = cluster.do(cluster.face.kind("Producer"), client, cluster.group("strangers"), retries=0)
        cluster.do(producer.start)
        fails(kind, lambda: cluster.do(producer.send, Message(topic=topic, body=b"x")))
        listener = cluster.face.listener(list)
        push = cluster.do(cluster.face.kind("PushConsumer"), client, cluster.group("pushing"), listener)
        lite = cluster.do(cluster.face.kind("LitePullConsumer"), client, cluster.group("polling"))
        for consumer in (push, lite):
            cluster.do(consumer.subscribe, topic)
            fails(kind, partial(cluster.do, consumer.start))
    finally:
        cluster.do(client.stop)


def fails(kind: type[Exception], call: Callable[[], object]) -> None:
    """Fail unless a call raises an error of a class, or of one below it."""
    try:
        result = call()
    except kind:
        return
    raise AssertionError(f"not raised: {kind.__name__}; returned {result!r}")


ACCESS_CASES: tuple[Callable[[Cluster], None], ...] = (send, push, admin, access)
"""The cases of a cluster with access control, whose clients sign with the key L{ADMIN}."""

TLS_CASES: tuple[Callable[[Cluster], None], ...] = (send, push, admin, tls)
"""The cases of a cluster that serves TLS alone."""
