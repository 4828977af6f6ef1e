"""The checkouts of smartgo whose brokers are measured: where they lie, and whether their core is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .errors import BenchmarkError

ROOT = Path(__file__).resolve().parent.parent
COMPILED = "compiled"
HOW_TO_COMPILE = "compile it first: python setup.py build_ext --inplace"
_ASK = "from smartgo.core import CORE; print(CORE)"


class Checkout(msgspec.Struct, frozen=True):
    """One checkout of smartgo, run by the interpreter that runs the benchmark."""

    root: Path = ROOT
    pure: bool = False
    """Run without the compiled core, whether it is there or not."""
    name: str = "smartgo"

    def environment(self) -> Mapping[str, str]:
        """Return the variables that let the interpreter import this checkout, whatever is installed."""
        return {"PYTHONPATH": str(self.root), **({"SMARTGO_PURE": "1"} if self.pure else {})}

    def core(self) -> str:
        """
        Return what a broker of this checkout says of its core: C{compiled}, or why it runs in Python.

        Checkouts from before the core answer nothing: C{none}.
        """
        done = subprocess.run(
            [sys.executable, "-c", _ASK],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **self.environment()},
            cwd=self.root,
        )
        return done.stdout.strip() or "none"

    def commit(self) -> str:
        """Return the commit, C{-dirty} where files were changed."""
        line = ["git", "-C", str(self.root), "describe", "--always", "--dirty"]
        return subprocess.run(line, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


THIS = Checkout()


def checkout_of(words: str) -> Checkout:
    """
    Read C{checkout=PATH[,name=X]}; without a name the checkout has that of its folder.

    @raise ValueError: the words are not understood.
    @raise BenchmarkError: no smartgo lies there.
    """
    path, _, rest = words.removeprefix("checkout=").partition(",")
    given, _, name = rest.partition("=")
    if not path or (rest and (given != "name" or not name or "/" in name)):
        raise ValueError(f"{words!r} is not checkout=PATH[,name=X]")
    root = Path(path).resolve()
    if not (root / "smartgo" / "__init__.py").is_file():
        raise BenchmarkError(f"{root} is no checkout of smartgo")
    return Checkout(root, name=name or root.name)
