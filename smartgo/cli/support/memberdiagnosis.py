"""The check of C{smartgo doctor} for brokers that were registered and are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from smartgo.cli.support.diagnosisresults import NOTE, OK, DiagnosisFinding, FindingStream, judged
from smartgo.cli.support.membermemory import MissingMember, ask_memory
from smartgo.cli.support.output import span
from smartgo.cli.support.rest import RestOptions
from smartgo.client.internal.route import MASTER
from smartgo.env.interfaces import IEnvironment
from smartgo.health.judgements import JUDGEMENTS


async def members(
    env: IEnvironment,
    rest: RestOptions,
    registries: Sequence[str],
    brokers: Iterable[str],
    masterless: Collection[str],
) -> FindingStream:
    """
    Yield a problem for each broker that the REST API remembers and that is no longer registered, and for each broker of
    which only slaves are registered; where no registry answers, also one for each that does not answer the REST API.

    @param registries: of the cluster that is checked.
    @param brokers: C{host:port} of those that are registered.
    @param masterless: names of which only slaves are registered.
    @raise CommandError: the REST API was named by C{--api} and does not answer.
    """
    known_here = list(brokers)
    memory = await ask_memory(env, rest, registries, known_here)
    known = {one.broker for one in memory.missing or () if one.id == MASTER}
    for name in sorted(set(masterless) - known):
        for found in judged("master-missing", f"broker {name}"):
            yield found
    if memory.missing is None:
        yield DiagnosisFinding(
            NOTE,
            "brokers",
            f"brokers that were registered and are gone are not known: {memory.reason}",
            "give the URL of the REST API of this cluster: smartgo doctor --api URL",
        )
        return
    silent = [] if known_here else memory.silent  # those that are registered are asked by another check
    for subject in silent:
        for found in judged("broker-down", f"broker {subject}"):
            yield found
    if not known_here and not memory.missing:
        known_well = "" if silent else "all that were registered before answer; "
        yield DiagnosisFinding(
            NOTE, "brokers", f"{known_well}whether others are missing is not known, as no registry knows any"
        )
    elif not memory.missing and not silent:
        yield DiagnosisFinding(OK, "brokers", "none is missing")
    now_ms = env.clock.wall_ms()
    for one in memory.missing:
        yield _missing(one, max(1, now_ms - one.last_seen_ms) / 1000, one.broker in masterless)


def _missing(one: MissingMember, seconds: float, headless: bool) -> DiagnosisFinding:
    """Return what is to be said of a missing process. @param headless: whether slaves of its broker are registered."""
    since = span(seconds) or ""
    [found] = judged("broker-gone", f"broker {one.subject}", seconds, since, one.details)
    name = one.broker if one.id == MASTER else f"{one.broker} --id {one.id}"
    advice = JUDGEMENTS["broker-gone"].advice.replace("NAME", name)
    if one.id == MASTER and headless:
        [found] = judged("master-missing", found.subject, reason=f"; it is missing, last seen {since} ago{one.details}")
    return msgspec.structs.replace(found, advice=advice)
