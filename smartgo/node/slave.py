"""A slave as a process: C{twistd smartgo-slave}."""

from __future__ import annotations

from smartgo.node.assembly import NodeService, make_service
from smartgo.node.broker import assemble, prepare
from smartgo.node.options import SlaveOptions as Options

__all__ = ["Options", "makeService"]


def makeService(options: Options) -> NodeService:
    """Assemble a broker, which the options make a slave."""
    return make_service(options, prepare, assemble)
