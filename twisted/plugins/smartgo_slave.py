"""Teach twistd the command C{smartgo-slave}."""

from twisted.application.service import ServiceMaker

slave = ServiceMaker(
    "smartgo slave", "smartgo.node.slave", "Run a slave of a smartgo or RocketMQ broker.", "smartgo-slave"
)
