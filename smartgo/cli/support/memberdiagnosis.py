"""The check of C{smartgo doctor} for brokers that were registered and are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from smartgo.cli.support.diagnosisresults import NOTE, OK, DiagnosisFinding, FindingStream, judged
from smartgo.cli.support.membermemory import ask_memory
from smartgo.cli.support.output import span
from smartgo.cli.support.rest import RestOptions
from smartgo.env.interfaces import IEnvironment


async def members(
    env: IEnvironment, rest: RestOptions, registries: Sequence[str], brokers: Iterable[str]
) -> FindingStream:
    """
    Yield a problem for each broker that the REST API remembers and that is no longer registered.

    @param registries: of the cluster that is checked.
    @param brokers: C{host:port} of those that are registered.
    @raise CommandError: the REST API was named by C{--api} and does not answer.
    """
    memory = await ask_memory(env, rest, registries, brokers)
    if memory.missing is None:
        yield DiagnosisFinding(
            NOTE,
            "brokers",
            f"brokers that were registered and are gone are not known: {memory.reason}",
            "give the URL of the REST API of this cluster: smartgo doctor --api URL",
        )
        return
    if not memory.missing:
        yield DiagnosisFinding(OK, "brokers", "none is missing")
    now_ms = env.clock.wall_ms()
    for one in memory.missing:
        seconds = max(1, now_ms - one.last_seen_ms) / 1000
        for found in judged("broker-gone", f"broker {one.subject}", seconds, span(seconds) or "", one.loss):
            name = one.broker if one.id == 0 else f"{one.broker} --id {one.id}"
            yield msgspec.structs.replace(found, advice=found.advice.replace("NAME", name))
