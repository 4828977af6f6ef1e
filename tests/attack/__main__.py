"""
C{python -m tests.attack [NAME ...]}: one row an attack, with what a bystander saw of it, as a table.

The real RocketMQ takes part with C{--peer rocketmq}; attacks on the REST API are left out there.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile

from tests.attack.attacks import ATTACKS
from tests.attack.scene import MIB, Result, Scene
from tests.interop.peers import ROCKETMQ, SMARTGO, Peer

_AT_REGISTRY = ("churn_registry", "many_routes", "kv_flood")
_OF_REST = ("silent_http", "bombs")
_HEAD = (
    "| attack | peer | p50 p99 max alone, ms | beside it | while it is held | errors | memory before, held, after, MiB"
    " | log lines | attacker |"
)


def row(name: str, peer: Peer, result: Result) -> str:
    """Return a row of the table."""
    node = "registry" if name in _AT_REGISTRY else "broker"
    times = " | ".join(
        " ".join(f"{one[key]:.1f}" for key in ("p50", "p99", "max"))
        for one in (result.quiet, result.beside, result.later)
    )
    memory = " ".join(str(one[node].memory // MIB) for one in (result.before, result.during, result.after))
    errors = result.beside["errors"] + result.later["errors"]
    said = {key: value for key, value in result.last.items() if key != "phase"}
    return f"| {name} | {peer.name} | {times} | {errors} | {memory} | {result.lines(node)} | {said} |"


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run what is asked for; return the exit status."""
    parser = argparse.ArgumentParser("python -m tests.attack", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ATTACKS)}; all by default")
    parser.add_argument("--peer", choices=("smartgo", "rocketmq", "both"), default="smartgo")
    parser.add_argument("--large", action="store_true", help="as large as the requirements ask")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - ATTACKS.keys())
    if unknown:
        parser.error(f"there is no attack {unknown[0]}")
    peers = {"smartgo": [SMARTGO], "rocketmq": [ROCKETMQ], "both": [SMARTGO, ROCKETMQ]}[given.peer]
    say(_HEAD + "\n|---|---|---|---|---|---|---|---|---|")
    for name in given.names or ATTACKS:
        for peer in peers:
            if peer is ROCKETMQ and name in _OF_REST:
                continue
            home = tempfile.mkdtemp(prefix="smartgo-attack-")
            scene = Scene(home, peer, given.large)
            try:
                scene.start("cluster" if name in _AT_REGISTRY else "send")
                say(row(name, peer, scene.attack(name)))
            except Exception as error:  # the next attack is to run all the same
                say(f"| {name} | {peer.name} | failed: {str(error).splitlines()[0]} |")
            finally:
                scene.end()
                shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
