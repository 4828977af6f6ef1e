"""The version of smartgo itself; that of RocketMQ, whose protocol it speaks, stands in L{smartgo.schema}."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


@cache
def product_version() -> str:
    """Return the version of the installed package; C{unknown} for a checkout that is not installed. Read once."""
    try:
        return installed("smartgo")
    except PackageNotFoundError:
        return "unknown"
