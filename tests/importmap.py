"""
The import map of a tree: C{python -m tests.importmap [ROOT] [--svg FILE]}.

It prints how many modules of each package import modules of each other package, and counts what
L{tests.test_structure} refuses: import circles, long modules, long constructors, class names that stand twice. With
C{--svg} it draws each module as a square in the box of its folder, packages in layers, each above everything that it
imports; squares of long modules are red.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from tests import test_structure as structure
from tests.test_layers import ROOT

SQUARE: Final = 9  # pixels of one module, its gap included
ACROSS: Final = 10  # modules in one row of a box
WIDTH: Final = 1100  # pixels of the drawing


class ImportMap(NamedTuple):
    """
    The modules and imports of one tree.

    @ivar texts: the source of each module, by dotted name.
    @ivar imports: the number of imports from modules of one package to modules of another.
    """

    texts: dict[str, str]
    imports: Counter[tuple[str, str]]

    @classmethod
    def of(cls, texts: dict[str, str]) -> ImportMap:
        """Return the map of modules below one package, given by their dotted names."""
        edges = structure.imported(structure.parse(texts))
        pairs = ((package(name), package(other)) for name, others in edges.items() for other in others)
        return cls(texts, Counter(pair for pair in pairs if pair[0] != pair[1]))

    def layers(self) -> dict[str, int]:
        """Return the layer of each package: 0 if it imports no other, else one above the highest that it imports."""
        below = defaultdict(set)
        for one, other in self.imports:
            below[one].add(other)

        def layer(name: str, above: tuple[str, ...]) -> int:
            return max((1 + layer(one, (*above, name)) for one in below[name] if one not in above), default=0)

        return {name: layer(name, ()) for name in {package(one) for one in self.texts}}


def package(module: str) -> str:
    """Return the part below the top of a dotted name; the top itself for its own module."""
    return module.split(".")[1] if "." in module else module


def read(root: str, top: str) -> dict[str, str]:
    """Return the sources of all modules below one folder of a tree, by dotted name."""
    paths = sorted(Path(root, top).rglob("*.py"))
    return {structure.module_name(str(path.relative_to(root))): path.read_text("utf-8") for path in paths}


def matrix(found: ImportMap) -> Iterator[str]:
    """Yield the lines of a table: a row for the imports of each package, a column for each package it imports."""
    layers = found.layers()
    names = sorted(layers, key=lambda name: (layers[name], name))
    modules = Counter(map(package, found.texts))
    lines: Counter[str] = Counter()
    for name, text in found.texts.items():
        lines[package(name)] += len(text.splitlines())
    yield f"{'':<10}modules  lines" + "".join(f"{name[:4]:>5}" for name in names)
    for name in names:
        cells = ("-" if name == other else found.imports[name, other] or "." for other in names)
        yield f"{name:<10}{modules[name]:>7}{lines[name]:>7}" + "".join(f"{cell:>5}" for cell in cells)


def counts(texts: dict[str, str]) -> Iterator[str]:
    """Yield a line for each thing that the structure tests refuse, with its number in these modules."""
    trees = structure.parse(texts)
    circles = structure.circles(structure.imported(trees))
    long = [name for name, text in texts.items() if len(text.splitlines()) > structure.MOST_LINES]
    arguments = [structure.constructor_arguments(node) for tree in trees.values() for node in structure.classes(tree)]
    yield f"modules: {len(texts)}, lines: {sum(len(text.splitlines()) for text in texts.values())}"
    yield f"import circles: {len(circles)}, modules in them: {sum(map(len, circles))}"
    unexplained = len(structure.long_modules(texts))
    yield f"modules above {structure.MOST_LINES} lines: {len(long)}, without a reason: {unexplained}"
    yield (
        f"most arguments of a constructor: {max(arguments, default=0)}, classes above {structure.MOST_ARGUMENTS}: "
        + str(len(structure.long_constructors(trees)))
    )
    ours = {name: tree for name, tree in trees.items() if package(name) != name and name.startswith("smartgo.")}
    yield f"class names in two modules of smartgo or more: {len(structure.classes_twice(ours))}"


def drawing(found: ImportMap) -> str:
    """Return the drawing as SVG: packages in layers, folders as boxes, modules as squares; long ones are red."""
    layers = found.layers()
    folders: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    holders = {name.rpartition(".")[0] for name in found.texts}
    for name in found.texts:
        folder = name if name in holders else name.rpartition(".")[0]
        folders[package(name)][".".join(folder.split(".")[2:])].append(name)
    parts: list[str] = []
    top = 0
    for layer in range(max(layers.values(), default=0), -1, -1):
        left, height = 0, 0
        for name in sorted(one for one, level in layers.items() if level == layer):
            box, width, tall = _package_box(name, folders[name], found.texts)
            if left and left + width > WIDTH:
                top, left, height = top + height + 10, 0, 0
            parts.append(f'<g transform="translate({left},{top})">{box}</g>')
            left += width + 10
            height = max(height, tall)
        top += height + 18
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-5 -5 {WIDTH + 10} {top}" width="{WIDTH}" height="{top}" '
        f'font-family="sans-serif" font-size="11"><rect x="-5" y="-5" width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _package_box(name: str, folders: Mapping[str, list[str]], texts: Mapping[str, str]) -> tuple[str, int, int]:
    """Return one package's box, its width and its height in pixels."""
    inner: list[str] = []
    left, tall = 6, 0
    for folder, modules in sorted(folders.items()):
        across = min(ACROSS, max(len(modules), 1))
        width = max(across * SQUARE, 6 * len(folder)) + 10
        rows = -(-len(modules) // ACROSS)
        squares = "".join(
            f'<rect x="{left + 5 + at % ACROSS * SQUARE}" y="{36 + at // ACROSS * SQUARE}" width="{SQUARE - 2}" '
            f'height="{SQUARE - 2}" fill="{_shade(texts[one])}"><title>{escape(one)}</title></rect>'
            for at, one in enumerate(sorted(modules))
        )
        inner.append(f'<text x="{left + 5}" y="31" fill="#666">{escape(folder)}</text>{squares}')
        left += width
        tall = max(tall, rows * SQUARE)
    width, height = max(left, 7 * len(name) + 50), tall + 44
    count = sum(map(len, folders.values()))
    title = f'{escape(name)} <tspan fill="#666" font-weight="normal">{count}</tspan>'
    frame = f'<rect width="{width}" height="{height}" rx="4" fill="#f4f6f8" stroke="#9aa"/>'
    return f'{frame}<text x="8" y="15" font-weight="bold">{title}</text>{"".join(inner)}', width, height


def _shade(text: str) -> str:
    return "#b4321e" if len(text.splitlines()) > structure.MOST_LINES else "#0b7268"


def main(arguments: list[str] | None = None) -> None:
    """Print the map of a tree, and draw it if asked."""
    parser = argparse.ArgumentParser(description="Print how the packages of a tree import each other.")
    parser.add_argument("root", nargs="?", default=ROOT, help="root of the tree; default: this one")
    parser.add_argument("--svg", help="file to draw into")
    given = parser.parse_args(arguments)
    texts = read(given.root, "smartgo")
    found = ImportMap.of(texts)
    print(*matrix(found), "", *counts({**texts, **read(given.root, "benchmarks")}), sep=os.linesep)
    if given.svg:
        Path(given.svg).write_text(drawing(found), "utf-8")


if __name__ == "__main__":
    main()
