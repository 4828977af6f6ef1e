"""Stand-ins on Spark 4.1 for the classes of C{pyspark.sql.streaming.datasource}, which came with Spark 4.2."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ReadAllAvailable:
    """No limit."""


@dataclass
class ReadMinRows:
    """A limit: at least so many rows, or so many milliseconds."""

    min_rows: int
    max_trigger_delay_ms: int


@dataclass
class ReadMaxRows:
    """A limit of so many rows."""

    max_rows: int


@dataclass
class ReadMaxBytes:
    """A limit of so many bytes."""

    max_bytes: int


class SupportsTriggerAvailableNow:
    """A stream that can note where its data ends, to go no further."""

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the data ends now."""
        raise NotImplementedError
