"""All resources about messages, and what they share."""

from __future__ import annotations

from smartgo.client.client import Client
from smartgo.env.interfaces import IEnvironment
from smartgo.ops.reading.explain import ExplainApi
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.plans import PlanTable
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.deadletters import DeadApi
from smartgo.ops.resources.messages import MessagesApi
from smartgo.ops.resources.offsets import OffsetsApi
from smartgo.ops.resources.resend import ResendApi
from smartgo.ops.resources.search import SearchApi
from smartgo.ops.resources.searchexport import FoundApi
from smartgo.ops.resources.send import Outbox, SendApi
from smartgo.ops.resources.tail import TailApi
from smartgo.ops.web.jobs import JobTable


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
