"""The list of all resources: one that is not in it is not served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from smartgo.client.client import Client
from smartgo.env.interfaces import IEnvironment
from smartgo.ops.alerts.monitor import AlertMonitor
from smartgo.ops.alerts.notifier import AlertNotifier
from smartgo.ops.alerts.subjects import KnownSubjects
from smartgo.ops.figures.sampler import FigureSampler
from smartgo.ops.figures.subjectsampler import SubjectSampler
from smartgo.ops.interfaces import ILocalNode
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.plans import PlanTable
from smartgo.ops.reading.progress import ProgressReader
from smartgo.ops.reading.survey import GroupSurvey
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.access import AuditApi, SessionApi, TokensApi
from smartgo.ops.resources.acknowledge import AcknowledgeApi
from smartgo.ops.resources.alertreceivers import AlertReceiversApi
from smartgo.ops.resources.alerts import AlertsApi
from smartgo.ops.resources.backups import BackupsApi
from smartgo.ops.resources.clients import ClientsApi
from smartgo.ops.resources.cluster import ClusterApi
from smartgo.ops.resources.deadletters import DeadApi
from smartgo.ops.resources.definitions import DefinitionsApi
from smartgo.ops.resources.emptying import EmptyingApi
from smartgo.ops.resources.explain import ExplainApi
from smartgo.ops.resources.figures import EventsApi
from smartgo.ops.resources.groupdamage import GroupDamageApi
from smartgo.ops.resources.grouplag import GroupLagApi
from smartgo.ops.resources.groupmembers import GroupMembersApi
from smartgo.ops.resources.groups import GroupsApi
from smartgo.ops.resources.integrity import IntegrityApi
from smartgo.ops.resources.kv import KvApi
from smartgo.ops.resources.members import MembersApi
from smartgo.ops.resources.messages import MessagesApi
from smartgo.ops.resources.offsets import OffsetsApi
from smartgo.ops.resources.resend import ResendApi
from smartgo.ops.resources.rights import RightsApi
from smartgo.ops.resources.search import SearchApi
from smartgo.ops.resources.searchexport import FoundApi
from smartgo.ops.resources.send import Outbox, SendApi
from smartgo.ops.resources.settings import SettingsApi
from smartgo.ops.resources.status import MetricsApi, StatusApi
from smartgo.ops.resources.stores import StoresApi
from smartgo.ops.resources.tail import TailApi
from smartgo.ops.resources.topicgroups import TopicGroupsApi
from smartgo.ops.resources.topicroutes import TopicRoutesApi
from smartgo.ops.resources.topics import TopicsApi
from smartgo.ops.resources.trace import TraceApi
from smartgo.ops.resources.transactions import TransactionsApi
from smartgo.ops.security.audit import AuditLog
from smartgo.ops.security.requestguard import RequestGuard
from smartgo.ops.security.sessions import SessionTable
from smartgo.ops.security.tokens import TokenTable
from smartgo.ops.web.jobs import JobsApi, JobTable


@dataclass(frozen=True)
class SecurityParts:
    """The parts of access control."""

    guard: RequestGuard
    tokens: TokenTable
    sessions: SessionTable
    audit: AuditLog


@dataclass(frozen=True)
class ClusterParts:
    """The parts that read the cluster: a client, and the readers that use it."""

    client: Client
    view: ClusterView
    progress: ProgressReader
    survey: GroupSurvey
    sampler: FigureSampler
    subjects: SubjectSampler
    alerts: AlertMonitor
    notifier: AlertNotifier


@dataclass(frozen=True)
class ResourceParts:
    """
    The parts that resources need.

    @ivar node: the process around the API; C{None} where it fronts a cluster from outside.
    @ivar metrics: returns what C{/metrics} shows.
    """

    env: IEnvironment
    security: SecurityParts
    cluster: ClusterParts
    jobs: JobTable
    plans: PlanTable
    node: ILocalNode | None
    metrics: Callable[[], CollectorRegistry]


def all_resources(parts: ResourceParts) -> list[object]:
    """Return every resource, in the order in which the OpenAPI document shows them."""
    env, node, jobs, plans = parts.env, parts.node, parts.jobs, parts.plans
    security, cluster = parts.security, parts.cluster
    view = cluster.view
    inflater = Inflater(env)
    outbox = Outbox(cluster.client, view)
    offsets = OffsetsApi(view, plans)
    return [
        SessionApi(security.guard, security.tokens, security.sessions, env.clock),
        RightsApi(security.guard),
        TokensApi(security.tokens),
        AuditApi(security.audit),
        ClusterApi(env.clock, cluster.client, view),
        MembersApi(view),
        StoresApi(view),
        BackupsApi(view),
        ClientsApi(view, node),
        KvApi(view),
        TopicsApi(view),
        TopicRoutesApi(view),
        TopicGroupsApi(env.clock, view, cluster.survey),
        EmptyingApi(view, offsets),
        GroupsApi(view, cluster.progress, cluster.survey),
        GroupLagApi(env.clock, view, cluster.progress),
        GroupDamageApi(view, cluster.progress),
        GroupMembersApi(view),
        EventsApi(env.clock, cluster.sampler, cluster.subjects),
        AlertsApi(
            env.clock,
            cluster.alerts,
            KnownSubjects(view, cluster.alerts.table, cluster.client.registries),
            cluster.notifier.origin.runbook,
        ),
        AlertReceiversApi(env.clock, cluster.notifier),
        DefinitionsApi(view, jobs),
        JobsApi(jobs),
        MessagesApi(view, outbox, inflater),
        TailApi(env.clock, view, inflater),
        SearchApi(view, jobs, inflater),
        FoundApi(view, jobs, inflater),
        ExplainApi(view, plans),
        TraceApi(view, inflater),
        SendApi(env.clock, outbox),
        DeadApi(view, inflater),
        ResendApi(view, outbox, jobs, inflater),
        AcknowledgeApi(view, outbox),
        TransactionsApi(view),
        offsets,
        StatusApi(node, view.membership),
        IntegrityApi(node),
        SettingsApi(node),
        MetricsApi(env.clock, parts.metrics),
    ]
