"""Teach twistd the command C{smartgo-broker}."""

from twisted.application.service import ServiceMaker

broker = ServiceMaker("smartgo broker", "smartgo.node.broker", "Run a smartgo broker.", "smartgo-broker")
