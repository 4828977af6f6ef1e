"""
The floor plan of the whole tree, held by reading the sources: import circles, long constructors, long modules, class
names that stand twice, tests at the mirror of their packages, and words that the field's terms replaced.

A C{KNOWN_} table lists what still offends. A test fails on an offence that its table does not list, and on a listed
one that is gone, so that the tables only shrink.
"""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from typing import ClassVar, Final

from twisted.trial.unittest import SynchronousTestCase

from tests.test_layers import ROOT, sources

MOST_ARGUMENTS: Final = 7
MOST_LINES: Final = 400
REASON: Final = "Longer than 400 lines because"

KNOWN_CIRCLES: Final[set[tuple[str, ...]]] = set()

KNOWN_CONSTRUCTORS: Final[set[str]] = set()

KNOWN_LONG: Final[set[str]] = set()

TWO_MEANINGS: Final[dict[str, str]] = {}
"""Class names that stand in two modules for good, at most five, each with its reason."""

KNOWN_TWICE: Final[set[str]] = set()

FACES: Final = ("smartgo.aio", "smartgo.sync")
"""Packages whose classes have the names of those in C{smartgo.client} on purpose: the same, called in another way."""

NO_PACKAGE: Final = {
    "attack": "hostile peers against whole nodes",
    "chaos": "real clusters under faults of processes, disks and networks",
    "scenarios": "what each face of the product says of a fault of a real cluster",
    "deploy": "the systemd units on booted machines, and the image",
    "histories": "random histories of stores, brokers and slaves against a plain model",
    "interop": "the reference's own broker and clients against ours",
    "packaging": "what a wheel installs",
    "sim": "registries, brokers, slaves and clients in one thread on a virtual clock",
}
"""Folders of tests that mirror no package, with what they test."""

WORDS_OF_CLASSES: Final = {
    "announcer", "audience", "both", "claim", "complaints", "door", "facts", "farewell", "faults",
    "following", "found", "gate", "held", "inattentive", "knock", "lanework", "leading", "letters", "lines", "lists",
    "mirror", "outflow", "pace", "parts", "patience", "pieces", "place", "pullhold", "recall", "rounds", "sentences",
    "standing", "terms", "undone", "watch",
}  # fmt: skip
"""What the field's terms replaced: no class and no module bears one of them."""

WORDS_OF_ATTRIBUTES: Final = WORDS_OF_CLASSES - {
    "both", "claim", "following", "found", "held", "leading", "lines", "lists", "parts", "pieces", "place", "terms",
    "watch",
} | {"demand", "park", "parked"}  # fmt: skip
"""Those that no function and no attribute bears either; the others are ordinary words there (a range C{found})."""

IMAGES: Final = {
    "audience", "complaints", "door", "farewell", "inattentive", "knock", "lanework", "outflow", "park", "parked",
    "patience", "rounds", "standing",
}  # fmt: skip
"""Those that are not even one word of several in a name (C{late_complaints})."""

ORDINARY: Final = {
    "smartgo.client.administration.resetplan.undone": "the plan that undoes a plan; no request in flight",
    "smartgo.aio.producer.recall": "RocketMQ's term for taking a timed message back; nothing is remembered",
    "smartgo.sync.producer.recall": "RocketMQ's term for taking a timed message back; nothing is remembered",
    "smartgo.client.producer.recall": "RocketMQ's term for taking a timed message back; nothing is remembered",
    "smartgo.testing.asyncbroker.faults": "what a test asks for on purpose, to see what the program under test does",
    "smartgo.testing.embeddedbroker.faults": "the same",
    "smartgo.testing.inprocess.faults": "the same",
    "smartgo.ops.reading.explain.facts": "a field of the REST API's answer, whose name stays",
}
"""Names that bear such a word in its ordinary sense."""

KNOWN_WORDS: Final[set[str]] = set()

QUESTIONS: Final = {"how", "what", "when", "where", "whether", "which", "who", "whom", "whose", "why"}
PRONOUNS: Final = {"he", "her", "his", "it", "its", "she", "that", "their", "them", "these", "they", "this", "those"}
RIDDLES: Final = {"be", "hear", "look", "nobody", "nothing", "somebody", "something"}
"""
With L{QUESTIONS} and L{PRONOUNS} the words that no docstring begins with: its first line is an order (C{Apply ...}) or
names the thing (C{The ...}).
"""


MODULE_CACHES: Final = {
    "smartgo.env.disk._held": "no cache: the locks that this process holds",
    "smartgo.env.product.product_version": "the version that is installed: one",
    "smartgo.schema.bodies.shape._decoders": "by class of a body",
    "smartgo.schema.bodies.shape._wires": "by class of a body",
    "smartgo.schema.columns._rows": "by schema and flags: 64 at most, pure",
    "smartgo.schema.columns.numpy_or_none": "whether numpy is installed",
    "smartgo.schema.headerfields._boolean_fields": "by class of a header",
    "smartgo.schema.headerfields._plans": "by class of a header",
    "smartgo.schema.headerfields._writers": "by class of a header",
    "smartgo.schema.keyhashes._descending": "by length of a key or topic: powers of 31; 256 at most, pure",
    "smartgo.schema.keyhashes._lanes": "by size of what is hashed together: masks; 16 at most, pure",
    "smartgo.schema.record._is_topic": "by topic name in a record that recovery or a slave checks: 4096 at most, pure",
    "smartgo.spark.hosts._text": "by host in a record, in a process of Spark's: 4096 at most, pure; 5 us each else",
    "smartgo.spark.java.check_java": "whether this process has a Java: to ask takes a process of its own",
}
"""What modules keep for as long as the process runs, each with its reason; everything else belongs to an object."""

_GROWING: Final = {"Counter", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "bytearray", "defaultdict",
                   "deque", "dict", "list", "set"}  # fmt: skip


def module_name(path: str) -> str:
    """Return the dotted name of a source file; a package's is its folder's."""
    return path.removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")


def read(*tops: str) -> dict[str, str]:
    """Return the sources of all modules below some folders, by dotted name."""
    found = {}
    for top in tops:
        for path in sources(top):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                found[module_name(path)] = file.read()
    return found


def parse(texts: dict[str, str]) -> dict[str, ast.Module]:
    """Return the syntax trees of modules."""
    return {name: ast.parse(text, name) for name, text in texts.items()}


def imported(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """
    Return which of these modules each imports, anywhere in it: lazily and for type checking too.

    Only the module that is named counts, not the packages above it, which Python imports on the way.
    """
    edges: dict[str, set[str]] = {}
    for name, tree in trees.items():
        seen: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                seen.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    seen.add(full if full in trees else node.module)
        edges[name] = {one for one in seen if one in trees and one != name}
    return edges


def circles(edges: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Return the sets of modules that reach each other, each sorted."""
    reached: dict[str, set[str]] = {}
    for name in edges:
        seen: set[str] = set()
        waiting = list(edges[name])
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += edges[one]
        reached[name] = seen
    return {
        tuple(sorted(one for one in edges if one in seen and name in reached[one]))
        for name, seen in reached.items()
        if name in seen
    }


def classes(tree: ast.Module) -> list[ast.ClassDef]:
    """Return all classes of a module, inner ones included."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def is_record(node: ast.ClassDef) -> bool:
    """Tell whether a class is made of fields (msgspec, NamedTuple, dataclass)."""
    named = [ast.unparse(one) for one in (*node.decorator_list, *node.bases)]
    return any(one.split("(")[0].rpartition(".")[2] in ("Struct", "NamedTuple", "dataclass") for one in named)


def is_active(node: ast.ClassDef) -> bool:
    """Tell whether a class does work over time or stands behind an interface."""
    named = [ast.unparse(one) for one in (*node.decorator_list, *node.bases)]
    return any("implementer" in one or one.endswith("Service") for one in named) or any(
        isinstance(one, ast.AsyncFunctionDef) for one in node.body
    )


def constructor_arguments(node: ast.ClassDef) -> int:
    """
    Count what must be given to make an object of a class, C{self} excluded; C{*args} and C{**kwargs} count as too many.

    The fields of a record (msgspec, NamedTuple, dataclass) are its content, given by name, and do not count, unless it
    is more than a record: a service, an implementation of an interface, or an owner of coroutines.
    """
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name in ("__init__", "__new__"):
            given = one.args
            if given.vararg or given.kwarg:
                return MOST_ARGUMENTS + 1
            return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1
    if is_record(node) and is_active(node):
        return sum(isinstance(one, ast.AnnAssign) for one in node.body)
    return 0


def long_constructors(trees: dict[str, ast.Module]) -> set[str]:
    """Return the classes whose constructors take too many arguments, as C{module.Class}."""
    return {
        f"{name}.{node.name}"
        for name, tree in trees.items()
        for node in classes(tree)
        if constructor_arguments(node) > MOST_ARGUMENTS
    }


def long_modules(texts: dict[str, str]) -> set[str]:
    """Return the modules that are long and whose docstrings have no line that says why."""
    return {
        name
        for name, text in texts.items()
        if len(text.splitlines()) > MOST_LINES
        and not any(line.strip().startswith(REASON) for line in (ast.get_docstring(ast.parse(text)) or "").splitlines())
    }


def classes_twice(trees: dict[str, ast.Module]) -> set[str]:
    """Return the class names that stand in two modules or more."""
    where = defaultdict(set)
    for name, tree in trees.items():
        if not name.startswith(FACES):
            for node in classes(tree):
                where[node.name].add(name)
    return {name for name, modules in where.items() if len(modules) > 1}


def homeless_tests(paths: list[str], packages: set[str]) -> set[str]:
    """
    Return the test modules whose folder mirrors no package.

    @param paths: such as C{tests/store/test_flush.py}.
    @param packages: such as C{smartgo/store} and C{benchmarks}.
    """
    found = set()
    for path in paths:
        folder = os.path.dirname(path).partition("/")[2]
        alone = any(folder == one or folder.startswith(f"{one}/") for one in NO_PACKAGE)
        if not os.path.basename(path).startswith("test_") or not folder or alone:
            continue
        if f"smartgo/{folder}" not in packages and folder not in packages:
            found.add(path)
    return found


def words(name: str) -> list[str]:
    """Return the words of an identifier: C{_held_back} and C{HeldBack} have two."""
    return [one.lower() for one in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def bears(name: str, refused: set[str]) -> bool:
    """Tell whether an identifier is a refused word, or has an image among its words."""
    return name.replace("_", "").lower() in refused or not IMAGES.isdisjoint(words(name))


def constants(tree: ast.Module) -> list[str]:
    """Return the names that a module assigns at its top, as its constants are."""
    found = []
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found += [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
    return found


def old_words(trees: dict[str, ast.Module]) -> set[str]:
    """Return the modules, classes, functions, attributes and constants that bear a word that the field replaced."""
    found = set()
    for name, tree in trees.items():
        if bears(name.rpartition(".")[2], WORDS_OF_CLASSES):
            found.add(name)
        named = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                named.append(node.attr)
        named += constants(tree)
        for node in classes(tree):
            if bears(node.name, WORDS_OF_CLASSES):
                found.add(f"{name}.{node.name}")
            for one in node.body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    named.append(one.target.id)
        found.update(f"{name}.{one}" for one in named if bears(one, WORDS_OF_ATTRIBUTES))
    return found


def riddles(trees: dict[str, ast.Module]) -> set[str]:
    """Return the modules, classes and functions whose docstrings begin with such a word: name and line."""
    found = set()
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if re.split(r"\W", first)[0].lower() in QUESTIONS | PRONOUNS | RIDDLES:
                found.add(f"{name}.{getattr(node, 'name', '')}: {first}")
    return found


def keeps(value: ast.expr) -> bool:
    """Tell whether an expression makes something that grows while the process runs: empty, or a cache."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List | ast.Set):
        return not value.elts
    if not isinstance(value, ast.Call):
        return False
    called = ast.unparse(value.func)
    name = called.rpartition(".")[2]
    empty = not value.args or name in ("defaultdict", "deque")
    return "cache" in called.lower() or (name in _GROWING and empty)


def module_caches(trees: dict[str, ast.Module]) -> set[str]:
    """Return what modules and classes keep: memoized functions, caches, and containers that are empty at first."""
    found = set()
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                marks = [ast.unparse(one).split("(")[0].rpartition(".")[2] for one in node.decorator_list]
                if not {"cache", "lru_cache"}.isdisjoint(marks):
                    found.add(f"{name}.{node.name}")
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and keeps(node.value):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                found.add(f"{name}.{ast.unparse(target)}")
    return found


def near_names(names: set[str]) -> set[tuple[str, str]]:
    """Return the pairs of modules of one package whose names differ by a plural, or are C{msg} and C{message}."""
    return {
        (one, other)
        for one in names
        for other in (f"{one}s", re.sub(r"\bmsg$", "message", one))
        if other != one and other in names
    }


class StructureTests(SynchronousTestCase):
    """The tree keeps its floor plan."""

    texts: ClassVar[dict[str, str]] = {}
    trees: ClassVar[dict[str, ast.Module]] = {}
    smartgo: ClassVar[dict[str, ast.Module]] = {}

    def setUp(self) -> None:
        """Read and parse every module, once for all tests."""
        if not self.texts:
            self.texts.update(read("smartgo", "plugins", "benchmarks"))
            self.trees.update(parse(self.texts))
            self.smartgo.update({name: tree for name, tree in self.trees.items() if name.split(".")[0] == "smartgo"})

    def check(self, found: set[str], known: set[str]) -> None:
        """Fail on an offence that is not known, and on a known one that is gone."""
        self.assertEqual(sorted(found - known), [], "new")
        self.assertEqual(sorted(known - found), [], "gone: take it out of its table")

    def test_circles(self) -> None:
        """No two modules import each other, directly or by way of others, lazily and for type checking included."""
        found = circles(imported(self.smartgo))
        self.check({" ".join(one) for one in found}, {" ".join(one) for one in KNOWN_CIRCLES})

    def test_constructors(self) -> None:
        """No constructor takes more than seven arguments."""
        self.check(long_constructors(self.trees), KNOWN_CONSTRUCTORS)

    def test_lengths(self) -> None:
        """A module of more than 400 lines says why."""
        self.check(long_modules(self.texts), KNOWN_LONG)

    def test_class_names(self) -> None:
        """A class name stands for one thing, with at most five exceptions."""
        self.assertLessEqual(len(TWO_MEANINGS), 5)
        found = classes_twice(self.smartgo)
        self.assertEqual(set(TWO_MEANINGS) - found, set())
        self.check(found - set(TWO_MEANINGS), KNOWN_TWICE)

    def test_mirror(self) -> None:
        """Every test stands at the mirror of the package it tests."""
        packages = {
            os.path.dirname(path).replace(os.sep, "/")
            for top in ("smartgo", "plugins", "benchmarks")
            for path in sources(top)
        }
        self.assertEqual(homeless_tests(sources("tests"), packages), set())
        self.assertEqual(packages.intersection(f"smartgo/{folder}" for folder in NO_PACKAGE), set())

    def test_words(self) -> None:
        """Classes, modules, functions, attributes and constants have the field's terms as names."""
        found = old_words(self.smartgo)
        self.assertEqual(set(ORDINARY) - found, set())
        self.check(found - set(ORDINARY), KNOWN_WORDS)

    def test_docstrings(self) -> None:
        """Docstrings begin with an order or with the name of the thing."""
        self.assertEqual(riddles(self.trees), set())

    def test_caches(self) -> None:
        """What a module keeps while the process runs has its reason; a cache belongs to an object."""
        self.check(module_caches(self.smartgo), set(MODULE_CACHES))

    def test_near_names(self) -> None:
        """No two modules of a package have names that differ by a plural alone."""
        self.assertEqual(near_names(set(self.smartgo)), set())


class SelfTests(SynchronousTestCase):
    """Each reader finds the offence in a tree made up for it, and nothing in a good one."""

    def test_circles(self) -> None:
        """A lazy import and one for type checking close a circle; a straight line is none."""
        texts = {
            "a": "from b import thing\nimport os",
            "b": "def f():\n    import c.d",
            "c.d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import x",
            "e": "from c import d",
        }
        edges = imported(parse(texts))
        self.assertEqual(edges["e"], {"c.d"})
        self.assertEqual(circles(edges), {("a", "b", "c.d")})
        self.assertEqual(circles(imported(parse({**texts, "b": ""}))), set())

    def test_constructors(self) -> None:
        """Eight arguments are too many, and so is any number unseen; a record's fields are none."""
        eight = ", ".join("abcdefgh")
        fields = "\n".join(f"    {one}: int" for one in "abcdefgh")
        text = (
            f"class Eight:\n    def __init__(self, {eight}): pass\n"
            f"class Named:\n    def __init__(self, a, *, b, c, d, e, f, g, h): pass\n"
            "class Unseen:\n    def __init__(self, **kwargs): pass\n"
            "class Seven:\n    def __init__(self, a, b, c, d, e, f, *, g): pass\n"
            f"class Row(msgspec.Struct, frozen=True):\n{fields}\n"
            f"@dataclass(frozen=True)\nclass Worker:\n{fields}\n    async def work(self): pass\n"
            f"@implementer(IThing)\nclass Thing(NamedTuple):\n{fields}\n"
        )
        found = long_constructors(parse({"m": text}))
        self.assertEqual(found, {"m.Eight", "m.Named", "m.Unseen", "m.Worker", "m.Thing"})

    def test_lengths(self) -> None:
        """A long module needs the line that says why, in its docstring."""
        body = "x = 1\n" * MOST_LINES
        self.assertEqual(long_modules({"m": body}), set())
        self.assertEqual(long_modules({"m": '"""One."""\n' + body}), {"m"})
        self.assertEqual(long_modules({"m": f'"""\nOne.\n\n{REASON} it is a table.\n"""\n{body}'}), set())
        self.assertEqual(long_modules({"m": f"# {REASON} it is a table.\n{body}"}), {"m"})

    def test_class_names(self) -> None:
        """A name counts once a module, inner classes too."""
        trees = parse({"a": "class X:\n    class Y: pass", "b": "class Y: pass\nclass Z: pass", "c": "class z: pass"})
        self.assertEqual(classes_twice(trees), {"Y"})

    def test_mirror(self) -> None:
        """A test in a folder of no package is found; those at the top and of the parts apart are not."""
        paths = ["tests/test_a.py", "tests/a/test_b.py", "tests/a/c/test_d.py", "tests/chaos/test_e.py", "tests/x/y.py"]
        self.assertEqual(homeless_tests(paths, {"smartgo/a"}), {"tests/a/c/test_d.py"})
        self.assertEqual(homeless_tests(paths, {"smartgo/a", "smartgo/a/c"}), set())

    def test_words(self) -> None:
        """Modules, classes, functions, attributes, fields and constants are read; locals and ordinary words are not."""
        text = (
            "PATIENCE = 3\nSTOP_PATIENCE: Final = 4\n_A, (UNDONE, B) = 1, (2, 3)\nFOUND = 5\nPATIENT = 6\n"
            "class Claim: pass\n"
            "class _Door: pass\n"
            "class Claimant:\n    claim: int\n    undone_ms: int\n    _farewell_due: int\n"
            "    def park(self):\n        complaints = 1\n        self.outflow = complaints\n        self.found = 2\n"
            "class LateComplaints: pass\n"
        )
        found = old_words(parse({"m": text, "m.pace": "", "m.paces": ""}))
        expected = {"m.Claim", "m._Door", "m._farewell_due", "m.park", "m.outflow", "m.LateComplaints", "m.pace"}
        expected |= {"m.PATIENCE", "m.STOP_PATIENCE", "m.UNDONE"}
        self.assertEqual(found, expected)

    def test_docstrings(self) -> None:
        """Modules, classes and functions are read, inner ones too; only the first word counts."""
        text = (
            '"""How it works."""\n'
            'class A:\n    """The length; what it is."""\n'
            '    def f(self):\n        """\n        Whether it is.\n        """\n'
            '    async def g(self):\n        """Tell whether it is."""\n'
            '        def h():\n            """It\'s here."""\n'
            "    def i(self): pass\n"
        )
        found = riddles(parse({"m": text}))
        self.assertEqual(found, {"m.: How it works.", "m.f: Whether it is.", "m.h: It's here."})

    def test_caches(self) -> None:
        """Memoized functions and methods, caches and empty containers are found; what is full or frozen is not."""
        text = (
            "@lru_cache(maxsize=8)\ndef one(): pass\n@functools.cache\ndef two(): pass\n"
            "class C:\n    @lru_cache\n    def three(self): pass\n    @cached_property\n    def no(self): pass\n"
            "four = {}\nfive: set[int] = set()\nsix = lru_cache(8)(f)\nseven = FilterCache()\n"
            "eight = defaultdict(list)\nnine: list[int] = []\n"
            "a = {1: 2}\nb = set(c)\nd = frozenset()\ne = ()\ng: int\nh = dict(a)\ndef f():\n    x = {}\n"
        )
        found = module_caches(parse({"m": text}))
        self.assertEqual(
            found, {f"m.{one}" for one in ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")}
        )

    def test_near_names(self) -> None:
        """C{a.finding} and C{a.findings} are too near; in two packages they are not."""
        names = {"a.finding", "a.findings", "b.msg", "b.message", "c.thing", "d.things"}
        self.assertEqual(near_names(names), {("a.finding", "a.findings"), ("b.msg", "b.message")})
