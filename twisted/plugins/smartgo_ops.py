"""Teach twistd the command C{smartgo-ops}."""

from twisted.application.service import ServiceMaker

ops = ServiceMaker("smartgo ops", "smartgo.node.front", "Run the REST API and console of a cluster.", "smartgo-ops")
