"""All resources about messages, and what they share."""

from __future__ import annotations

from smartgo.client.instance import Client
from smartgo.env.interfaces import IClock
from smartgo.ops.deliveries import Deliveries
from smartgo.ops.dlq import DeadApi
from smartgo.ops.explain import ExplainApi
from smartgo.ops.found import FoundApi
from smartgo.ops.jobs import JobTable
from smartgo.ops.letters import DeadLetters
from smartgo.ops.lookup import Lookup
from smartgo.ops.messages import MessagesApi
from smartgo.ops.offsets import OffsetsApi
from smartgo.ops.plans import PlanTable
from smartgo.ops.queues import QueueReader
from smartgo.ops.resend import ResendApi
from smartgo.ops.search import SearchApi
from smartgo.ops.send import Outbox, SendApi
from smartgo.ops.tail import TailApi
from smartgo.ops.view import ClusterView


def message_resources(
    clock: IClock, client: Client, view: ClusterView, jobs: JobTable, plans: PlanTable
) -> list[object]:
    """Return the resources about messages, dead letters and where groups stand."""
    reader = QueueReader(client, view)
    lookup = Lookup(client, reader, view)
    deliveries = Deliveries(view)
    letters = DeadLetters(view, reader, lookup)
    outbox = Outbox(client, view)
    return [
        MessagesApi(lookup, deliveries, outbox),
        TailApi(clock, reader),
        SearchApi(reader, lookup, jobs),
        FoundApi(reader, jobs),
        ExplainApi(view, reader, lookup, deliveries, plans),
        SendApi(outbox),
        DeadApi(view, reader, letters),
        ResendApi(letters, outbox, jobs),
        OffsetsApi(view, reader, plans),
    ]
