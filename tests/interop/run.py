"""
Run interop tests by hand.

C{python -m tests.interop.run clients kill} runs those test modules, C{python -m tests.interop.run} lists them; whatever
follows C{--} goes to trial. C{python -m tests.interop.run --driver 4.9} starts the Java program on the terminal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from tests.interop.jars import GENERATIONS, java_command, unavailable


def main(arguments: list[str]) -> int:
    """Run what the arguments name and return the exit status."""
    names = sorted(path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py"))
    if arguments[:1] == ["--driver"]:
        _driver(*arguments[1:])
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    chosen, options = arguments[:cut], arguments[cut + 1 :]
    unknown = [each for each in chosen if each.split(".")[0] not in names]
    if not chosen or unknown:
        sys.stderr.write(f"usage: python -m tests.interop.run NAME... [-- trial options]\nnames: {' '.join(names)}\n")
        return 2
    tests = [f"tests.interop.test_{each}" for each in chosen]
    root = Path(__file__).resolve().parents[2]
    return subprocess.run([sys.executable, "-m", "twisted.trial", *options, *tests], cwd=root, check=False).returncode


def _driver(generation: str = "5.3", encoding: str = "JSON") -> NoReturn:
    reason = unavailable()
    if reason is not None:
        sys.exit(reason)
    jars = GENERATIONS[generation]
    path = f"{jars.classes}:{jars.jars}/*"
    command = java_command(f"-Drocketmq.serialize.type={encoding}", "-cp", path, "interop.Main")
    os.execv(command[0], command)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
