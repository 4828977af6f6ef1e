"""What a diagnosis finds, and what there is to find on this machine."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from smartgo.cli.output import size
from smartgo.env.interfaces import IEnvironment

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

DISK_WARNING: Final = 0.75  # of a disk in use: old messages are removed before their time
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
    advice = "make room or lower fileReservedTime; messages are removed before their time"
    if used >= DISK_PROBLEM:
        advice = "make room now: a broker stores nothing on a disk that is full; lower fileReservedTime"
    return Finding(
        PROBLEM if used >= DISK_PROBLEM else WARNING, subject, f"the disk is {used:.0%} full. {words}".rstrip(), advice
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
