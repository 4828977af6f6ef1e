"""
The choice of rare paths that the product takes in the simulator (reliability T5), and their names in the source.

A run enables about a quarter of the paths; an enabled one is taken at about every fourth question. Each name has a
random source of its own, made of the seed and the name, so that a new path changes nothing for the others.
"""

from __future__ import annotations

import ast
import hashlib
import os
import random
from collections import Counter
from functools import cache
from typing import Final

ENABLED: Final = 0.25
"""Probability that a run enables a path."""
TAKEN: Final = 0.25
"""Probability that an enabled path is taken when the product asks."""

_ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class RarePaths:
    """
    The rare paths of one run; what L{smartgo.env.interfaces.IEnvironment.buggify} answers.

    @ivar hits: how often each path was taken.
    @ivar on: set it to false to take none from now on.
    """

    def __init__(self, seed: object) -> None:
        """
        @param seed: of the run; anything whose text tells runs apart.
        """
        self._seed = seed
        self._chances: dict[str, random.Random | None] = {}
        self.hits: Counter[str] = Counter()
        self.on = True

    def __call__(self, name: str) -> bool:
        """Tell whether to take a path now."""
        if name not in self._chances:
            digest = hashlib.sha256(f"{self._seed} {name}".encode()).digest()
            chance = random.Random(int.from_bytes(digest[:8], "big"))
            self._chances[name] = chance if chance.random() < ENABLED else None
        found = self._chances[name]
        if found is None or found.random() >= TAKEN or not self.on:
            return False
        self.hits[name] += 1
        return True


@cache
def names() -> dict[str, str]:
    """
    Return the names of all rare paths in the product, each with the place that asks for it, C{path:line}.

    @raise ValueError: a name stands twice, or is no literal.
    """
    found: dict[str, str] = {}
    for directory, _, files in os.walk(os.path.join(_ROOT, "smartgo")):
        for file in sorted(files):
            if not file.endswith(".py"):
                continue
            path = os.path.join(directory, file)
            with open(path, encoding="utf-8") as source:
                text = source.read()
            if "buggify(" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and _called(node).lstrip("_") == "buggify":
                    place = f"{os.path.relpath(path, _ROOT)}:{node.lineno}"
                    name = node.args[0] if len(node.args) == 1 else None
                    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                        raise ValueError(f"{place}: the name of a rare path must be a literal")
                    if name.value in found:
                        raise ValueError(f"{place}: {found[name.value]} has this name, too")
                    found[name.value] = place
    return found


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
