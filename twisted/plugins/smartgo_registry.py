"""Teach twistd the command C{smartgo-registry}."""

from twisted.application.service import ServiceMaker

registry = ServiceMaker("smartgo registry", "smartgo.node.registry", "Run a smartgo registry.", "smartgo-registry")
