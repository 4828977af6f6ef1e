"""Resources that export and import definitions: settings of topics and groups, values of registries."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from twisted.internet.defer import CancelledError

from smartgo.client.administration.definitionfile import DefinitionSet, count_of
from smartgo.client.administration.definitions import Item, Step, counts_of, leave
from smartgo.ops.problems import Problem
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import Brokers, Namespace
from smartgo.ops.security.principals import is_secret
from smartgo.ops.web.jobs import JobTable, JobView, RestJob
from smartgo.ops.web.partial import Missing
from smartgo.ops.web.routes import ADMIN, PUBLISH_LIMIT, RouteCall, route

ITEMS: Final = 20_000
"""Settings of one import; each has a row of its job."""
_HIDDEN: Final[dict[str, tuple[Any, Any]]] = {"value": ("***", "***")}

DefinitionsPart = Annotated[str, Meta(max_length=127, description="Only those whose name contains this text.")]
DefinitionsNamespaces = Annotated[
    list[Namespace],
    Meta(max_length=64, description="Namespaces whose values to include: registries cannot list them."),
]


class DefinitionsQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Definitions to export."""

    q: DefinitionsPart = ""
    namespace: DefinitionsNamespaces = []


_ITSELF: Final[dict[str, Any]] = {"$ref": "#/components/schemas/DefinitionSet"}
# It is read by hand, so that what is wrong with it is told with the name of the topic or group.
GivenDefinitions = Annotated[dict[str, Any], Meta(extra_json_schema=_ITSELF)]


class DefinitionsOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    Definitions to import, and the brokers to import them into.

    @ivar definitions: as C{GET /definitions} returns them.
    @ivar brokers: topics and groups go to these; null: to those that they are of.
    @ivar skip_refused: import the rest if some items are refused; otherwise nothing is done.
    @ivar dry_run: only report what would be done.
    """

    definitions: GivenDefinitions
    brokers: Brokers = None
    skip_refused: bool = False
    dry_run: bool = False


class DefinitionsResult(msgspec.Struct, rename="camel"):
    """The result of an import: the number of settings by outcome; the rows are L{Item}s."""

    dry_run: bool
    counts: dict[str, int]


class DefinitionsApi:
    """Definitions."""

    def __init__(self, view: ClusterView, jobs: JobTable) -> None:
        self._view = view
        self._jobs = jobs

    @route(
        "GET",
        "/definitions",
        scope=ADMIN,
        query=DefinitionsQuery,
        answer=DefinitionSet,
        refuses={502: "A broker is missing, or does not answer."},
    )
    async def export(self, call: RouteCall[None, DefinitionsQuery, None]) -> DefinitionSet:
        """
        Export the settings of all topics and groups, and values of registries, for a backup or an import elsewhere.

        Messages, consumer offsets and the brokers' own topics are not included. Values that look like secrets are not
        hidden. The export fails if a broker is missing, or does not answer: it is never partial.
        """
        missing = Missing()
        await self._view.note_gone_now(missing)
        if missing:
            raise missing.lacking("the definitions")
        call.headers["Content-Disposition"] = 'attachment; filename="definitions.json"'
        definitions = self._view.admin.definitions
        found: DefinitionSet = await definitions.export(call.query.q, call.query.namespace)
        return found

    @route(
        "POST",
        "/definitions/import",
        scope=ADMIN,
        body=DefinitionsOrder,
        answer=JobView,
        names=(Item, DefinitionsResult),
        status=202,
        body_limit=PUBLISH_LIMIT,
        refuses={409: "Too many jobs run."},
    )
    async def bring(self, call: RouteCall[None, None, DefinitionsOrder]) -> JobView:
        """
        Import definitions: create or update every topic and group in the file; a job.

        Nothing is deleted: what is not in the file stays as it is. A file with any error is refused as a whole, and the
        error names the item. The job's rows are `Item`s: the outcome of each setting at each broker,
        `create`, `change`, `same`, `refused`; then `created`, `changed`, `failed`, or `left` if the job ended before
        it, with the reason. If any item is refused nothing is done, unless `skipRefused` is set. An item that fails
        does not stop the others. The result is a `DefinitionsResult`.
        """
        order = call.body
        if count_of(order.definitions, order.brokers) > ITEMS:
            raise Problem(
                400, f"more than {ITEMS} settings in one import; split them into several files", "too-many-items"
            )
        wanted = await self._view.admin.definitions.read(order.definitions)
        work = Import(self._view, wanted, order)
        return self._jobs.start("definitions", call.principal, work.run, ITEMS, call.owner)


class Import:
    """Runs one import as a job."""

    def __init__(self, view: ClusterView, wanted: DefinitionSet, order: DefinitionsOrder) -> None:
        self._view = view
        self._wanted = wanted
        self._order = order

    async def run(self, job: RestJob) -> DefinitionsResult:
        """
        Compare, then write; the job has a row for each setting from the beginning.

        @raise Problem: 409, some are refused, and nothing was done.
        """
        order = self._order
        job.progress(0, 0, "asking what there is")
        steps = await self._view.admin.definitions.plan(self._wanted, order.brokers)
        for step in steps:
            if step.item.changes and step.item.kind == "kv" and is_secret(step.item.name):
                step.item.changes = _HIDDEN  # jobs are shown to all who may read
            job.add(step.item)
        if not order.dry_run:
            try:
                await self._write(job, steps)
            finally:
                leave(steps)
                self._view.forget()
        return DefinitionsResult(order.dry_run, counts_of(steps))

    async def _write(self, job: RestJob, steps: list[Step]) -> None:
        refused = [step.item for step in steps if step.item.outcome == "refused"]
        if refused and not self._order.skip_refused:
            first = f"{refused[0].words}: {refused[0].reason}"
            said = f"nothing was done, as {len(refused)} of {len(steps)} are refused, such as {first}"
            raise Problem(409, said, "items-refused")
        due = [step for step in steps if step.due]
        for number, step in enumerate(due):
            job.progress(number, len(due), step.item.words)
            try:
                await self._view.admin.definitions.write(step)
            except CancelledError:
                step.item.outcome, step.item.reason = (
                    "failed",
                    "the job was cancelled while this item was being written; it may have been written anyway",
                )
                raise
        job.progress(len(due), len(due))
