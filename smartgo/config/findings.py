"""Findings of reading a configuration, besides its values: warnings, settings without effect, errors."""

from __future__ import annotations

from smartgo.errors import SettingError


class LoadFindings:
    """
    The findings of reading a configuration. An error ends the reading at once, as it ends the start of a process.

    @ivar warnings: sentences that a start logs.
    @ivar ignored: a sentence for each setting that has no effect here although it is no mistake: RocketMQ's own, and
        those of another program. A start is silent about them, so that RocketMQ's files can be used unchanged.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.ignored: list[str] = []

    def refuse(self, error: SettingError, table: str = "", name: str = "") -> None:
        """
        Take an error.

        @param table: of the setting that it is about; C{name}: its name. Empty for a file as a whole.
        @raise SettingError: that error.
        """
        raise error


class AllFindings(LoadFindings):
    """
    The findings of a check, which goes on after an error.

    A setting that was refused has its default afterwards. So an error about it that follows is left out: it may be
    about the default.

    @ivar errors: all errors, in the order in which they were found.
    """

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[SettingError] = []
        self._refused: set[tuple[str, str]] = set()

    def refuse(self, error: SettingError, table: str = "", name: str = "") -> None:
        """Keep an error, unless the same setting was refused before."""
        if name and (table, name) in self._refused:
            return
        self._refused.add((table, name))
        self.errors.append(error)
