"""The error of a benchmark that cannot go on; the command line prints its sentence and ends with status 1."""


class BenchmarkError(Exception):
    """A benchmark cannot begin or go on; the message is for the person who ran it."""


class NoCompiler(BenchmarkError):
    """The load generator cannot be built here."""


class LoadBrokeOff(BenchmarkError):
    """A load run ended before its time; the message says what the generator saw."""
