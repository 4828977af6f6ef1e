"""What a diagnosis finds, and what there is to find on this machine."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Final

import msgspec

from smartgo.cli.support.output import size
from smartgo.client.administration.topics import TopicKind, kind_of
from smartgo.client.internal.route import WRITE
from smartgo.env.interfaces import IEnvironment
from smartgo.schema.bodies import TopicConfig

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

DISK_WARNING: Final = 0.75  # of a disk in use: time to make room
DISK_PROBLEM: Final = 0.88  # near where nothing is stored any more
SYNC_WARNING: Final = 0.02  # seconds for a durable write
SYNC_PROBLEM: Final = 0.1
SYNC_WRITES: Final = 20
REPLICA_BEHIND: Final = 256 << 20  # bytes of the log that the master has alone
OPEN_FILES: Final = 10_000  # descriptors that a broker of some thousand queues needs


class Finding(msgspec.Struct, frozen=True):
    """
    What one look found.

    @ivar verdict: L{OK}, L{NOTE}, L{WARNING} or L{PROBLEM}.
    @ivar subject: whom it concerns.
    @ivar advice: what to do; C{""} where nothing needs to be done.
    """

    verdict: str
    subject: str
    what: str
    advice: str = ""


Findings = AsyncGenerator[Finding, None]


def fullness(subject: str, used: float, words: str) -> Finding:
    """
    Judge how full a disk is.

    @param words: more about it.
    """
    if used < DISK_WARNING:
        return Finding(OK, subject, f"the disk is {used:.0%} full")
    advice = "make room: a broker takes nothing when its disk is 90% full"
    if used >= DISK_PROBLEM:
        advice = "make room now: a broker stores nothing on a disk that is full"
    return Finding(
        PROBLEM if used >= DISK_PROBLEM else WARNING, subject, f"the disk is {used:.0%} full. {words}".rstrip(), advice
    )


def refusal(subject: str, table: dict[str, str]) -> list[Finding]:
    """
    Judge whether a broker's store takes messages.

    @param table: what the broker tells of itself; nothing is found where that says nothing, as RocketMQ's.
    """
    reason = table.get("storeRefusal")
    if reason is None:
        return []
    if reason.startswith("the store failed"):
        advice = "look at its disk and its log, then restart it: it takes nothing before that; smartgo check DIRECTORY"
    elif "disk" in reason or "no room" in reason:
        advice = "make room on its disk; when there is room it takes messages by itself"
    elif "registry" in reason:
        advice = "is another master up under its name? Do its registries answer? It takes messages again by itself"
    else:
        advice = "look at its log"
    return [Finding(PROBLEM, subject, f"takes no messages now: {reason}", advice)]


def permission(subject: str, name: str, permitted: int, others: bool) -> Finding:
    """
    Tell of a broker whose own permission lets nobody write to it.

    @param name: the broker's.
    @param permitted: its C{brokerPermission}.
    @param others: whether another broker of its cluster takes messages.
    """
    return Finding(
        WARNING if others else PROBLEM,
        subject,
        f"takes no messages: its brokerPermission is {permitted}"
        + ("" if others else ", and no other broker of its cluster takes any"),
        f"smartgo config set {name} brokerPermission={permitted | WRITE}; where it declines that: smartgo config set"
        f" --api URL brokerPermission={permitted | WRITE} --keep, with the URL of its REST API",
    )


def replication(subject: str, table: dict[str, str]) -> list[Finding]:
    """
    Judge how a slave stands to its master, and whether a master that waits for slaves has one.

    @param table: what the broker tells of itself; nothing is found where that says nothing, as RocketMQ's.
    """
    if table.get("brokerRole") == "SYNC_MASTER" and table.get("haSlaveCount") == "0":
        return [
            Finding(
                WARNING,
                subject,
                "is a SYNC_MASTER without a slave: what is stored exists once, and senders are told so (11)",
                "start its slave; if it runs, its log says why it does not follow",
            )
        ]
    state = table.get("haState")
    if state is None:
        return []
    reason = table.get("haReason", "")
    words = f": {reason}" if reason else ""
    if state == "DIVERGED":
        return [
            Finding(
                PROBLEM,
                subject,
                f"its log is not its master's, and nothing is copied{words}",
                "decide which of the two is right, and empty the other one's store: docs/replication.rst has the steps",
            )
        ]
    if state not in ("FOLLOWING", "CATCHING_UP"):
        return [
            Finding(
                WARNING,
                subject,
                f"follows no master ({state}), so what is stored now exists once{words}",
                "is the master up, and registered under the same name? does its haAllow let this slave in, and where"
                " it has a haAccessKey, has this slave the same key?",
            )
        ]
    behind = int(table.get("haBehindBytes", "0"))
    if behind > REPLICA_BEHIND:
        return [
            Finding(
                WARNING,
                subject,
                f"is {size(behind)} behind its master",
                "if it does not get less, its disk or the network between them is too slow",
            )
        ]
    return [Finding(OK, subject, f"follows {table.get('haMasterAddress') or 'its master'}, {size(behind)} behind")]


def unwritable(
    configs: Mapping[str, Mapping[str, TopicConfig]], taking: Collection[str], system: Collection[str] = ()
) -> list[Finding]:
    """
    Look for topics that nobody can write to, and for those that some brokers do not take.

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
            Finding(PROBLEM, "topics", f"nobody can write to {few(shut)}", "smartgo topic set NAME --perm rw lets them")
        )
    away = [name for name in ours if open_at[name] and open_at[name].isdisjoint(taking)]
    if away and taking:
        found.append(
            Finding(
                PROBLEM,
                "topics",
                f"nobody can write to {few(away)}: no broker that has it takes messages",
                "let such a broker be written again, or create it at another: smartgo topic create NAME -b BROKER",
            )
        )
    for broker, table in configs.items():
        partly = [name for name in ours if name in table and open_at[name] and broker not in open_at[name]]
        if partly:
            found.append(
                Finding(
                    NOTE, f"broker {broker}", f"takes nothing for {few(partly)}", "smartgo topic set NAME --perm rw"
                )
            )
    return found


def few(names: list[str]) -> str:
    """Return some names for a sentence, and how many more there are."""
    shown = ", ".join(sorted(names)[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


async def descriptors(env: IEnvironment) -> Findings:
    """Look how many files a process may open that is started here."""
    limit = env.host.open_file_limit()
    if limit < OPEN_FILES:
        yield Finding(
            NOTE,
            "this machine",
            f"a process started from here may open {limit:,} files",
            f"a broker with thousands of queues needs more: ulimit -n {OPEN_FILES * 10}, or LimitNOFILE",
        )


async def disk(env: IEnvironment, directory: str) -> Findings:
    """Measure durable writes, and look how full the disk is."""
    files, clock = env.files, env.clock
    subject = f"disk of {directory}"
    if not files.is_directory(directory):
        yield Finding(PROBLEM, subject, "there is no such directory", "name the directory of the store")
        return
    total, free = files.usage(directory)
    yield fullness(subject, 1 - free / total, f"{size(free)} of {size(total)} are free")
    took = []
    path = posixpath.join(directory, f"smartgo-doctor-{env.random.token(6).hex()}")
    try:
        for _ in range(SYNC_WRITES):
            began = clock.seconds()
            files.create(path, bytes(4096))
            took.append(clock.seconds() - began)
            files.remove(path)
    except OSError as error:
        yield Finding(
            PROBLEM, subject, f"a file cannot be written: {error.strerror or error}", "look at its permissions"
        )
        return
    took.sort()
    slow = took[len(took) * 9 // 10]
    verdict = PROBLEM if slow > SYNC_PROBLEM else WARNING if slow > SYNC_WARNING else OK
    advice = (
        "SYNC_FLUSH waits for this at every send; use a faster disk, or one that others do not use"
        if verdict != OK
        else ""
    )
    yield Finding(
        verdict, subject, f"of {SYNC_WRITES} durable writes nine in ten took {slow * 1000:.1f} ms at most", advice
    )
