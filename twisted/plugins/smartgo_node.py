"""Teach twistd the command C{smartgo}."""

from twisted.application.service import ServiceMaker

node = ServiceMaker("smartgo node", "smartgo.node.all", "Run a smartgo registry and broker in one process.", "smartgo")
