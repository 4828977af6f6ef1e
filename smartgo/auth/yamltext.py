"""YAML texts of access control; the library, which takes a while to load, is loaded when the first text comes."""

from __future__ import annotations

from typing import Any


class NotYaml(ValueError):
    """A text that is no YAML; the message says where, such as C{ at line 2, column 7}, or is empty."""


def load_yaml(text: str | bytes) -> Any:
    """
    Return the one document of a text; C{None} where it is empty.

    @raise NotYaml: it is no YAML.
    """
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        raise NotYaml("" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}") from None


def dump_yaml(content: object) -> str:
    """Return the text of a document, whose names stay in their order."""
    import yaml

    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
