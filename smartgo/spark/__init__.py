"""
CommitLog, ConsumeQueues and index files as tables of Apache Spark; executors need no Twisted.

Spark itself is imported only by those modules that cannot do without, see L{SmartgoDataSource}; what decodes is
L{smartgo.spark.reader}, which knows nothing of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from smartgo.spark.datasource import SmartgoDataSource, register
    from smartgo.spark.starting import session

__all__ = ["SmartgoDataSource", "register", "session"]

_MODULES: Final = {"SmartgoDataSource": "datasource", "register": "datasource", "session": "starting"}


def __getattr__(name: str) -> Any:
    """Import what needs Spark when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
