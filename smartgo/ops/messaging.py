"""All resources about messages, and what they share."""

from __future__ import annotations

from smartgo.client.instance import Client
from smartgo.env.interfaces import IEnvironment
from smartgo.ops.deliveries import Deliveries
from smartgo.ops.dlq import DeadApi
from smartgo.ops.explain import ExplainApi
from smartgo.ops.found import FoundApi
from smartgo.ops.inflating import Inflater
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
    env: IEnvironment, client: Client, view: ClusterView, jobs: JobTable, plans: PlanTable
) -> list[object]:
    """Return the resources about messages, dead letters and where groups stand."""
    reader = QueueReader(client, view)
    inflater = Inflater(env)
    lookup = Lookup(client, reader, view)
    deliveries = Deliveries(view)
    letters = DeadLetters(view, reader, lookup)
    outbox = Outbox(client, view)
    return [
        MessagesApi(lookup, deliveries, outbox, inflater),
        TailApi(env.clock, reader, inflater),
        SearchApi(reader, lookup, jobs, inflater),
        FoundApi(reader, jobs, inflater),
        ExplainApi(view, reader, lookup, deliveries, plans),
        SendApi(outbox),
        DeadApi(view, reader, letters, inflater),
        ResendApi(letters, outbox, jobs, inflater),
        OffsetsApi(view, reader, plans),
    ]
