"""Suggestion of the known name that is most like a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the known name most like a word, nothing where none is like it."""
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), names, n=1)
    return f"; did you mean {names[found[0]]}?" if found else ""
