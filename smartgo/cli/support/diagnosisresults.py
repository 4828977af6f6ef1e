"""The findings of C{smartgo doctor}, and the checks of this machine."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Final

import msgspec

from smartgo.client.administration.topics import TopicKind, kind_of
from smartgo.client.internal.route import WRITE
from smartgo.env.interfaces import IEnvironment
from smartgo.health.judgements import JUDGEMENTS, Severity, refusal_advice
from smartgo.health.measures import FOLLOWING
from smartgo.schema import refusalkind
from smartgo.schema.bodies import TopicConfig
from smartgo.schema.sizes import size_text

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

SYNC_WRITES: Final = 20

_VERDICTS: Final[Mapping[Severity, str]] = {"note": NOTE, "warning": WARNING, "critical": PROBLEM}


class DiagnosisFinding(msgspec.Struct, frozen=True):
    """
    The result of one check.

    @ivar verdict: L{OK}, L{NOTE}, L{WARNING} or L{PROBLEM}.
    @ivar subject: the broker, group, registry or machine.
    @ivar advice: what to do; C{""} if nothing needs to be done.
    """

    verdict: str
    subject: str
    what: str
    advice: str = ""


FindingStream = AsyncGenerator[DiagnosisFinding, None]


def judged(name: str, subject: str, measured: float = 1.0, value: str = "", reason: str = "") -> list[DiagnosisFinding]:
    """
    Judge one measured value by the table of judgements; return nothing where it is fine.

    @param name: the judgement's.
    @param subject: what kind of thing it is, and its name, which takes the place of C{NAME} in the advice.
    @param measured: what was measured; 1 for a state that is the problem by itself.
    @param value: the same as text for the sentence; C{reason} likewise.
    """
    judgement = JUDGEMENTS[name]
    severity = judgement.judge(measured)
    if severity is None:
        return []
    what = judgement.sentence.format(value=value, reason=reason)
    advice = judgement.advice.replace("NAME", subject.partition(" ")[2])
    return [DiagnosisFinding(_VERDICTS[severity], subject, what, advice)]


def fullness(subject: str, used: float, words: str) -> DiagnosisFinding:
    """
    Judge how full a disk is.

    @param words: more about it.
    """
    for found in judged("disk-full", subject, used, f"{used:.0%}"):
        return msgspec.structs.replace(found, what=f"{found.what}. {words}" if words else found.what)
    return DiagnosisFinding(OK, subject, JUDGEMENTS["disk-full"].sentence.format(value=f"{used:.0%}"))


def refusal(subject: str, table: dict[str, str]) -> list[DiagnosisFinding]:
    """
    Judge whether a broker's store takes messages, and whether retention can remove the files that are to go.

    @param table: the broker's runtime information; it says nothing of this in RocketMQ's brokers.
    """
    found: list[DiagnosisFinding] = []
    obstacle = table.get(refusalkind.OBSTACLE)
    if obstacle is not None:
        found.append(
            DiagnosisFinding(
                WARNING,
                subject,
                f"retention cannot remove the oldest log file: {obstacle}",
                "make room on the disk, or remove the reason; the file goes by itself then",
            )
        )
    reason = table.get(refusalkind.WORDS)
    if reason is None:
        return found
    return found + [
        msgspec.structs.replace(one, advice=refusal_advice(table.get(refusalkind.KIND)))
        for one in judged("store-refuses", subject, reason=reason)
    ]


def permission(subject: str, name: str, permitted: int, others: bool) -> DiagnosisFinding:
    """
    Report a broker whose brokerPermission forbids writes.

    @param name: the broker's name.
    @param permitted: its C{brokerPermission}.
    @param others: whether another broker of its cluster takes messages.
    """
    return DiagnosisFinding(
        WARNING if others else PROBLEM,
        subject,
        f"accepts no messages: its brokerPermission is {permitted}"
        + ("" if others else ", and no other broker of its cluster accepts any"),
        f"smartgo config set {name} brokerPermission={permitted | WRITE}; if the broker refuses: smartgo config set"
        f" --api URL brokerPermission={permitted | WRITE} --keep, with the URL of its REST API",
    )


def replication(
    subject: str, table: dict[str, str], masterless: bool = False, unrouted: bool = False
) -> list[DiagnosisFinding]:
    """
    Judge how a slave stands to its master, and whether a master that waits for slaves has one.

    @param table: the broker's runtime information; it says nothing of this in RocketMQ's brokers.
    @param masterless: whether its master is missing, which is reported as a problem of its own.
    @param unrouted: whether the registries do not know its topics then, so that nobody finds its messages.
    """
    if table.get("brokerRole") == "SYNC_MASTER" and table.get("haSlaveCount") == "0":
        return judged("sync-master-alone", subject)
    state = table.get("haState")
    if state is None:
        return []
    reason = f": {table['haReason']}" if table.get("haReason") else ""
    if state == "DIVERGED":
        return judged("replica-diverged", subject, reason=reason)
    if state not in FOLLOWING and masterless:
        read = "its messages can be read" + (" only once the registries know its topics" if unrouted else "")
        return [DiagnosisFinding(NOTE, subject, f"follows no master ({state}), as there is none; {read}")]
    if state not in FOLLOWING:
        return judged("replica-alone", subject, value=state, reason=reason)
    behind = int(table.get("haBehindBytes", "0"))
    lag = size_text(behind)
    return judged("replica-behind", subject, behind, lag) or [
        DiagnosisFinding(OK, subject, f"follows {table.get('haMasterAddress') or 'its master'}, {lag} behind")
    ]


def unwritable(
    configs: Mapping[str, Mapping[str, TopicConfig]], taking: Collection[str], system: Collection[str] = ()
) -> list[DiagnosisFinding]:
    """
    Return a finding for each topic that nobody can write to, or that some brokers refuse.

    @param configs: by broker, then by topic.
    @param taking: the brokers whose own permission lets producers write; where there is none only topics that are shut
        are told.
    @param system: topics that brokers have for themselves.
    """
    ours = {name for table in configs.values() for name in table if kind_of(name, system) is TopicKind.NORMAL}
    open_at = {
        name: {broker for broker, table in configs.items() if name in table and table[name].perm & WRITE}
        for name in ours
    }
    found = []
    shut = [name for name in ours if not open_at[name]]
    if shut:
        found.append(
            DiagnosisFinding(
                PROBLEM, "topics", f"nobody can write to {few(shut)}", "to allow it: smartgo topic set NAME --perm rw"
            )
        )
    away = [name for name in ours if open_at[name] and open_at[name].isdisjoint(taking)]
    if away and taking:
        found.append(
            DiagnosisFinding(
                PROBLEM,
                "topics",
                f"nobody can write to {few(away)}: no broker that has it accepts messages",
                "allow writes to such a broker, or create the topic at another: smartgo topic create NAME -b BROKER",
            )
        )
    for broker, table in configs.items():
        partly = [name for name in ours if name in table and open_at[name] and broker not in open_at[name]]
        if partly:
            found.append(
                DiagnosisFinding(
                    NOTE,
                    f"broker {broker}",
                    f"accepts no messages for {few(partly)}",
                    "smartgo topic set NAME --perm rw",
                )
            )
    return found


def few(names: list[str]) -> str:
    """Return the first names for a sentence, and how many more there are."""
    shown = ", ".join(sorted(names)[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


async def descriptors(env: IEnvironment) -> FindingStream:
    """Check how many files a process started from here may open."""
    limit = env.host.open_file_limit()
    for found in judged("open-files", "this machine", limit, f"{limit:,}"):
        yield found


async def disk(env: IEnvironment, directory: str) -> FindingStream:
    """Measure durable writes, and check how full the disk is."""
    files, clock = env.files, env.clock
    subject = f"disk of {directory}"
    if not files.is_directory(directory):
        yield DiagnosisFinding(PROBLEM, subject, "there is no such directory", "give the store directory")
        return
    total, free = files.usage(directory)
    yield fullness(subject, 1 - free / total, f"{size_text(free)} of {size_text(total)} free")
    took = []
    path = posixpath.join(directory, f"smartgo-doctor-{env.random.token(6).hex()}")
    try:
        for _ in range(SYNC_WRITES):
            began = clock.seconds()
            files.create(path, bytes(4096))
            took.append(clock.seconds() - began)
            files.remove(path)
    except OSError as error:
        yield DiagnosisFinding(
            PROBLEM, subject, f"cannot write a file: {error.strerror or error}", "check its permissions"
        )
        return
    took.sort()
    slow = took[len(took) * 9 // 10]
    value = f"{slow * 1000:.1f} ms"
    for found in judged("disk-slow", subject, slow, value):
        yield found
        return
    yield DiagnosisFinding(OK, subject, JUDGEMENTS["disk-slow"].sentence.format(value=value))
