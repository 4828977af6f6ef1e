"""All resources about messages, and what they share."""

from __future__ import annotations

from smartgo.client.instance import Client
from smartgo.env.interfaces import IEnvironment
from smartgo.ops.dlq import DeadApi
from smartgo.ops.explain import ExplainApi
from smartgo.ops.found import FoundApi
from smartgo.ops.inflating import Inflater
from smartgo.ops.jobs import JobTable
from smartgo.ops.messages import MessagesApi
from smartgo.ops.offsets import OffsetsApi
from smartgo.ops.plans import PlanTable
from smartgo.ops.resend import ResendApi
from smartgo.ops.search import SearchApi
from smartgo.ops.send import Outbox, SendApi
from smartgo.ops.tail import TailApi
from smartgo.ops.view import ClusterView


def message_resources(
    env: IEnvironment, client: Client, view: ClusterView, jobs: JobTable, plans: PlanTable
) -> list[object]:
    """Return the resources about messages, dead letters and where groups stand."""
    inflater = Inflater(env)
    outbox = Outbox(client, view)
    return [
        MessagesApi(view, outbox, inflater),
        TailApi(env.clock, view, inflater),
        SearchApi(view, jobs, inflater),
        FoundApi(view, jobs, inflater),
        ExplainApi(view, plans),
        SendApi(outbox),
        DeadApi(view, inflater),
        ResendApi(view, outbox, jobs, inflater),
        OffsetsApi(view, plans),
    ]
