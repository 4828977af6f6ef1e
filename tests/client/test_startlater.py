"""The plan of a client: what is checked at once, and the client that is made of it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo import aio, sync
from smartgo.client.startlater import ClientPlan, TLSFiles
from smartgo.client.tracesettings import Tracing
from smartgo.errors import BadName, SettingError
from smartgo.schema.signature import AccessKey
from smartgo.schema.topics import TRACE_TOPIC
from tests.fakes import FakeEnvironment

TRACES: list[tuple[Any, Tracing]] = [
    (False, Tracing()),
    (True, Tracing(messages=True)),
    ("MyTraces", Tracing(messages="MyTraces")),
    (Tracing(messages="MyTraces"), Tracing(messages="MyTraces")),
    (Tracing(messages=True, opentelemetry=True), Tracing(messages=True, opentelemetry=True)),
]
"""Values of C{trace}, and the settings that they stand for."""


class PlanTests(SynchronousTestCase):
    def test_refused(self) -> None:
        """Wrong arguments are refused before there is a reactor."""
        self.assertRaises(SettingError, ClientPlan, "", None, None, None)
        self.assertRaises(SettingError, ClientPlan, "localhost", None, "authority.pem", None)
        self.assertRaises(BadName, ClientPlan, "localhost", None, None, None, "no topic name")

    def test_made(self) -> None:
        """A client has the arguments of its plan, however often it is made; each has an id of its own."""
        plan = ClientPlan("localhost", "one", None, AccessKey("name", "secret"))
        self.assertEqual(plan.registries, ("localhost:9876",))
        for env in (FakeEnvironment(), FakeEnvironment()):
            client = plan.client(env)
            self.assertIs(client.env, env)
            self.assertEqual(client.registries, ("localhost:9876",))
            self.assertTrue(client.id.endswith("@one"), client.id)
            self.successResultOf(client.stop())

    def test_traces(self) -> None:
        """The settings of traces reach the client in each of their forms."""
        for given, wanted in TRACES:
            client = ClientPlan("localhost", None, None, None, given).client(FakeEnvironment())
            self.assertEqual(client.events.tracing, wanted)
            self.successResultOf(client.stop())
        self.assertEqual(Tracing(messages=True).topic, TRACE_TOPIC)

    def test_faces(self) -> None:
        """Clients for asyncio and of programs that block take each form, and refuse a wrong name at once."""
        for face in (aio, sync):
            for given, _ in TRACES:
                self.assertEqual(face.Client("localhost", trace=given).registries, ("localhost:9876",))
            self.assertRaises(BadName, face.Client, "localhost", trace="no topic name")

    def test_missing_file(self) -> None:
        """Certificates are read when the client is made: a missing file is told then, by its name."""
        plan = ClientPlan("localhost", None, TLSFiles(trust="/nowhere/authority.pem"), None)
        error = self.assertRaises(SettingError, plan.client, FakeEnvironment())
        self.assertIn("/nowhere/authority.pem", str(error))
