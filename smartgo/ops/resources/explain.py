"""The resource that explains why a message did, or did not, reach a consumer group."""

from __future__ import annotations

from smartgo.ops.problems import Problem
from smartgo.ops.reading.explain import Explainer, Explanation, not_found
from smartgo.ops.reading.lookup import Lookup
from smartgo.ops.reading.plans import PlanTable
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.messages import MessagePath, WhichQuery
from smartgo.ops.resources.names import GroupName
from smartgo.ops.web.routes import READ, RouteCall, route


class ExplainQuery(WhichQuery, kw_only=True):
    """Message and group to explain."""

    group: GroupName


class ExplainApi:
    """Explanations."""

    def __init__(self, view: ClusterView, plans: PlanTable) -> None:
        self._view = view
        self._plans = plans

    @route("GET", "/messages/{id}/explain", scope=READ, path_type=MessagePath, query=ExplainQuery, answer=Explanation)
    async def explain(self, call: RouteCall[MessagePath, ExplainQuery, None]) -> Explanation:
        """Explain why a message did, or did not, reach a group, with the checks that show it."""
        query = call.query
        view = self._view.partial(call.missing)
        try:
            message = await Lookup(view).by_id(call.path.id, query.topic, query.broker)
        except Problem as problem:
            if problem.status != 404:
                raise
            return not_found(str(problem), query.group)
        return await Explainer(view, self._plans, message, query.group).explain()
