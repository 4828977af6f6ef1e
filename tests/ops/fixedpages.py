"""The pages of a node that depend on code alone, made once for all nodes of a test run: import this to have it so."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from unittest.mock import patch

from smartgo.ops import service
from smartgo.ops.web import application


def _call_once(module: ModuleType, name: str) -> None:
    """
    Let a function of a module be called once in this process for the same arguments, or lists of the same elements.

    Its result must depend on code alone. So the description of the API and the console's files are made for the first
    node of a run, not for each: they were half of the processor time of a test with a node.
    """
    function = getattr(module, name)
    results: dict[tuple[int, ...], tuple[tuple[object, ...], Any]] = {}  # with the arguments, as an id is of what lives

    def called(*arguments: Any) -> Any:
        key = tuple(id(part) for one in arguments for part in (one if isinstance(one, list) else [one]))
        if key not in results:
            copies = tuple(list(one) if isinstance(one, list) else one for one in arguments)
            results[key] = copies, function(*arguments)
        return results[key][1]

    patch.object(module, name, called).start()


_call_once(application, "document")
_call_once(application, "docs_pages")
_call_once(service, "console_pages")
