"""The list of all request codes, held against those who answer and against its page."""

from __future__ import annotations

import importlib
import os
import re

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.processors.requestcodes import MAIN_PORT_ALONE, REQUESTS, SLAVE_TAKES_NO_MESSAGES, RequestRow
from smartgo.client.internal.served import ServedRequests
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from tests.broker.fakecluster import FAST, Cluster

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "request-codes.rst")


def cells(row: RequestRow) -> tuple[str, ...]:
    """A row of the table as the page shows it."""
    slave = "" if row.slave is None else str(int(row.slave))
    second_port = "no" if row.broker and not row.second_port else ""
    registry = "registry.requests" if row.registry else ""
    client = "client.internal.served" if row.client else ""
    answered = [f"broker.processors.{row.broker}" if row.broker else "", registry, client]
    where = ", ".join(f"``{one}``" for one in answered if one) or "nobody: 3"
    return str(int(row.code)), row.code.name, where, slave, second_port


class RequestTableTests(SynchronousTestCase):
    """Every code, once."""

    def test_complete(self) -> None:
        """Every request code has one row, and the rows are in the order of the numbers."""
        self.assertEqual([row.code for row in REQUESTS], sorted(RequestCode))

    def test_broker(self) -> None:
        """A broker's ports answer what the table says, a slave's too, by the processors that it names."""
        for slave, settings in (False, {}), (True, {"brokerRole": "SLAVE", "brokerId": "1"}):
            cluster = Cluster(None, **settings)
            self.addCleanup(cluster.stop)
            requests = cluster.broker.requests
            answered = {int(row.code) for row in REQUESTS if row.broker}
            if slave:
                answered |= set(SLAVE_TAKES_NO_MESSAGES)
                answered -= {int(row.code) for row in REQUESTS if row.slave is ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
            self.assertEqual(requests.dispatcher.codes, answered, f"slave: {slave}")
            self.assertEqual(requests.second_dispatcher.codes, answered - MAIN_PORT_ALONE, f"slave: {slave}")

    def test_master(self) -> None:
        """A master has a handler for each request that it answers: even an empty one meets no bug and no 3."""
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        for row in REQUESTS:
            if row.broker:
                answer = cluster.ask(Command.request(row.code))
                self.assertNotEqual(answer.code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, row)
                self.assertEqual(self.flushLoggedErrors(), [], row)

    def test_modules(self) -> None:
        """The module that a row names defines a processor with the row's code."""
        for row in REQUESTS:
            if row.broker:
                module = importlib.import_module(f"smartgo.broker.processors.{row.broker}")
                codes = {int(code) for one in vars(module).values() for code in getattr(one, "codes", ())}
                self.assertIn(int(row.code), codes, row)

    def test_registry(self) -> None:
        """The registry answers what the table says."""
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        for row in REQUESTS:
            if int(row.code) < 1 << 15:
                # 217 is told from the request of 5.x that has its number by these fields.
                fields = {"namespace": "N", "key": "k"}
                answer = cluster.ask(Command.request(row.code, fields=fields), "127.0.0.1:9876")
                self.assertEqual(answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED, row.registry, row)

    def test_client(self) -> None:
        """Consumers answer what the table says."""
        self.assertEqual(ServedRequests.codes, {int(row.code) for row in REQUESTS if row.client})

    def test_slave(self) -> None:
        """A slave refuses what the table says, with that code, and nothing else for being a slave."""
        cluster = Cluster(None, brokerRole="SLAVE", brokerId="1")
        self.addCleanup(cluster.stop)
        for row in REQUESTS:
            if not row.broker:
                continue
            answer = cluster.ask(Command.request(row.code), FAST if row.second_port else "127.0.0.1:10911")
            if row.slave is not None:
                self.assertEqual(answer.code, row.slave, row)
            else:
                self.assertNotRegex(answer.remark or "", "(?i)ask the master|is a slave", row)

    def test_page(self) -> None:
        """The table of docs/request-codes.rst has these rows and no others."""
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        found = []
        for entry in re.findall(r"^   \* - (.*(?:\n     -.*)*)", text, re.MULTILINE):
            found.append(tuple(cell.strip() for cell in re.split(r"\n     -", entry)))
        self.assertEqual(found[1:], [cells(row) for row in REQUESTS])
