"""
No private names of Twisted, Klein, Werkzeug or zope.interface: what a release may change without notice.

Where there is no other way one adapter module uses them, and a test beside it fails when a release changes them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import textwrap
from functools import cache

from twisted.trial.unittest import SynchronousTestCase

from tests.test_layers import ROOT, imports, sources

FOREIGN = ("twisted", "klein", "werkzeug", "zope")

ADAPTERS = {
    "smartgo.net.tlslayer": "tests/remoting/test_lifetime.py",
    "smartgo.ops.web.twistedhttp": "tests/ops/web/test_twistedhttp.py",
}
"""Modules that may use such names, and the test that notices a change."""

OTHERS = {
    "_make", "_replace", "_fields", "_asdict",  # public names of named tuples
    "_exit", "_current_frames",  # documented names of os and sys
    "_jvm", "_jsc",  # Spark's only ways into its JVM
}  # fmt: skip
"""Names with an underscore that are no private names of ours, nor of the packages above."""


def is_private(name: str) -> bool:
    """Tell whether a name is private: with an underscore in front, and not one of Python's own."""
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def module(path: str) -> str:
    """The dotted name of a source file."""
    return path.removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")


def tree(path: str) -> ast.Module:
    """A source file, parsed."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return ast.parse(file.read(), path)


def defined(parsed: ast.AST) -> set[str]:
    """All private names that a piece of source gives to something: functions, classes, attributes, variables."""
    names: set[str] = set()
    for node in ast.walk(parsed):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            names.add(node.value)  # __slots__
    return {name for name in names if is_private(name)}


@cache
def private_names(kind: type) -> frozenset[str]:
    """The private names that a class defines itself, those of its objects included."""
    names = {name for name in vars(kind) if is_private(name)}
    try:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return frozenset(names)
    return frozenset(names | defined(parsed))


def inherited(kind: type) -> dict[str, str]:
    """The private names that a class of ours inherits from a foreign one, each with that class."""
    return {
        name: base.__qualname__
        for base in kind.__mro__
        if base.__module__.split(".")[0] in FOREIGN
        for name in private_names(base)
    }


def used(kind: type) -> set[str]:
    """The private names of itself that a class uses or defines."""
    parsed = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    names = defined(parsed)
    for node in ast.walk(parsed):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            names.add(node.attr)
    return {name for name in names if is_private(name)}


def offences_of(kind: type) -> list[str]:
    """The foreign private names that a class of ours uses, overrides or happens to take for itself."""
    foreign = inherited(kind)
    if not foreign:
        return []
    name = f"{kind.__module__}.{kind.__qualname__}"
    return [f"{name}: {one} of {foreign[one]}" for one in sorted(used(kind) & foreign.keys())]


class PrivateNameTests(SynchronousTestCase):
    """Private names of other people's packages."""

    def classes(self) -> list[type]:
        """All classes of smartgo that can be imported here."""
        found: list[type] = []
        for path in sources("smartgo"):
            name = module(path)
            if name.split(".")[1:2] in (["spark"], ["plugins"]):  # they need Spark, or another name
                continue
            loaded = importlib.import_module(name)
            found += [one for one in vars(loaded).values() if isinstance(one, type) and one.__module__ == name]
        return found

    def test_inherited(self) -> None:
        """No class but the adapters uses, overrides or shadows a private name of a foreign class that it inherits."""
        classes = self.classes()
        self.assertGreater(len(classes), 500)
        offences = [one for kind in classes if kind.__module__ not in ADAPTERS for one in offences_of(kind)]
        self.assertEqual(offences, [])

    def test_adapters(self) -> None:
        """Each adapter does use such names, and has its test."""
        classes = self.classes()
        for adapter, test in ADAPTERS.items():
            seen = [one for kind in classes if kind.__module__ == adapter for one in offences_of(kind)]
            self.assertNotEqual(seen, [], adapter)
            self.assertTrue(os.path.exists(os.path.join(ROOT, test)), test)

    def test_attributes(self) -> None:
        """Nobody asks an object for a private attribute that no source of smartgo defines."""
        paths = sources("smartgo") + sources("plugins")
        ours = set().union(*(defined(tree(path)) for path in paths if module(path) not in ADAPTERS))
        offences = []
        for path in paths:
            if module(path) in ADAPTERS:
                continue
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in ours | OTHERS:
                    offences.append(f"{path}:{node.lineno} uses {ast.unparse(node)}")
        self.assertEqual(offences, [])

    def test_imports(self) -> None:
        """Nobody imports a private module, or a private name, of a foreign package."""
        offences = [
            f"{path}:{line} imports {name}"
            for path in sources("smartgo") + sources("plugins")
            for line, name in imports(path)
            if name.split(".")[0] in FOREIGN and any(is_private(part) for part in name.split("."))
        ]
        self.assertEqual(offences, [])

    def test_notices(self) -> None:
        """A class that uses, overrides or shadows such a name is noticed; one that has names of its own is not."""
        from twisted.web.http import HTTPChannel

        class Uses(HTTPChannel):
            def busy(self) -> bool:
                return bool(self._handlingRequest)

        class Overrides(HTTPChannel):
            def _respondToBadRequestAndDisconnect(self) -> None:
                """Override."""

        class Own(HTTPChannel):
            def busy(self) -> bool:
                self._mine_alone = True
                return self._mine_alone

        self.assertIn("_handlingRequest of HTTPChannel", " ".join(offences_of(Uses)))
        self.assertIn("_respondToBadRequestAndDisconnect of HTTPChannel", " ".join(offences_of(Overrides)))
        self.assertEqual(offences_of(Own), [])
