"""
The choice between the compiled core and Python, made once, at import.

The compiled classes stand in for classes of the same interface in Python, which are always there: without a compiler
at the installation, on another machine than the core was compiled for, or with C{SMARTGO_PURE=1} in the environment
these do the same work. Whoever defines such a class asks L{choose} for the one to be used; nobody else asks.
"""

from __future__ import annotations

import glob
import os
from importlib import import_module
from types import ModuleType
from typing import Any, Final

ENVIRONMENT_VARIABLE: Final = "SMARTGO_PURE"


def _is_old(sends: ModuleType) -> bool:
    """Tell whether any source in a checkout has changed since the module was compiled; an installed one has none."""
    path = sends.__file__ or ""
    folder = os.path.dirname(path)
    if not os.path.exists(os.path.join(folder, "sends.pyx")):
        return False
    made = {os.path.join(folder, "sends.c")}
    sources = {
        one for kind in ("pyx", "pxi", "c", "h") for one in glob.glob(os.path.join(glob.escape(folder), f"*.{kind}"))
    }
    compiled_at = os.path.getmtime(path)
    return any(os.path.getmtime(one) > compiled_at for one in sources - made)


def _load() -> tuple[ModuleType | None, str]:
    """Return the compiled module, C{None} without it, and in words what is used."""
    if os.environ.get(ENVIRONMENT_VARIABLE, "0") not in ("", "0"):
        return None, f"Python, as {ENVIRONMENT_VARIABLE} asks"
    try:
        sends = import_module("smartgo._core.sends")
    except ImportError as error:
        reason = "it was not compiled" if isinstance(error, ModuleNotFoundError) else str(error)
        return None, f"Python, without the compiled core: {reason}"
    if _is_old(sends):
        return None, "Python, without the compiled core: it is older than its source"
    return sends, "compiled"


_sends, CORE = _load()
"""C{CORE}: what is used, in words."""

IS_COMPILED: Final = _sends is not None


def choose(name: str, pure: Any) -> Any:
    """Return the compiled class or function of a name, or the one in Python that it stands in for."""
    return pure if _sends is None else getattr(_sends, name)
