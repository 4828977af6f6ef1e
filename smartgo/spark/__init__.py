"""
CommitLog, ConsumeQueues and index files as tables of Apache Spark; executors need no Twisted.

Spark itself is imported only by those modules that cannot do without, see L{SmartgoDataSource}; what decodes is
L{smartgo.spark.reader}, which knows nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smartgo.spark.datasource import SmartgoDataSource, register

__all__ = ["SmartgoDataSource", "register"]


def __getattr__(name: str) -> Any:
    """Import what needs Spark when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smartgo.spark import datasource

    return getattr(datasource, name)
