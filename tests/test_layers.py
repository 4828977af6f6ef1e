"""The imports between packages: the arrows of docs/architecture, section "Layers", checked in the sources."""

from __future__ import annotations

import ast
import os
import re
from functools import cache

from twisted.trial.unittest import SynchronousTestCase

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

EVERYTHING = {
    "_core", "core", "errors", "observer", "env", "schema", "extension", "config", "health", "tablefile", "auth", "net",
    "remoting", "store", "ha", "pipeline", "client", "aio", "sync", "registry", "broker", "ops", "node", "cli",
    "testing", "spark",
}  # fmt: skip

MAY_IMPORT: dict[str, set[str]] = {
    "_core": set(),
    "core": {"_core"},
    "errors": set(),
    "observer": {"errors"},
    "env": {"observer", "errors"},
    "schema": {"errors"},
    "extension": {"errors"},
    "config": {"schema", "errors"},
    "health": {"schema", "config", "errors"},
    "tablefile": {"env", "observer", "schema", "errors"},
    "auth": {"tablefile", "config", "schema", "env", "observer", "errors"},
    "net": {"core", "_core", "env", "observer", "schema", "errors"},
    "remoting": {"core", "_core", "net", "env", "observer", "schema", "errors"},
    "store": {"core", "_core", "env", "observer", "schema", "errors"},
    "ha": {"core", "_core", "store", "net", "env", "observer", "schema", "errors"},
    "pipeline": {"core", "_core", "store", "env", "observer", "schema", "errors"},
    "client": {
        "core", "_core", "remoting", "net", "auth", "tablefile", "config", "env", "observer", "schema", "errors",
    },
    "aio": {
        "client", "core", "_core", "remoting", "net", "auth", "tablefile", "config", "env", "observer", "schema",
        "errors",
    },
    "sync": {
        "client", "core", "_core", "remoting", "net", "auth", "tablefile", "config", "env", "observer", "schema",
        "errors",
    },
    "registry": {
        "core", "_core", "remoting", "net", "auth", "tablefile", "config", "env", "observer", "schema", "errors",
    },
    "broker": {
        "core", "_core", "ha", "pipeline", "store", "remoting", "net", "auth", "extension", "tablefile", "config",
        "env", "observer", "schema", "errors",
    },
    "ops": {
        "core", "_core", "broker", "registry", "client", "ha", "pipeline", "store", "remoting", "net", "auth",
        "extension", "tablefile", "health", "config", "env", "observer", "schema", "errors",
    },
    "node": EVERYTHING - {"node", "cli", "aio", "sync", "testing", "spark"},
    "cli": EVERYTHING - {"cli", "aio", "sync", "testing", "spark"},
    "testing": EVERYTHING - {"testing", "spark"},
    "spark": {"core", "_core", "schema", "errors"},
}  # fmt: skip

OPS_MAY_IMPORT: dict[str, set[str]] = {
    "security": {"problems"},
    "web": {"security", "problems"},
    "console": {"web"},
    "membership": {"problems"},
    "reading": {"membership", "web", "problems"},
    "figures": {"membership", "reading", "web"},
    "alerts": {"figures", "membership", "reading", "web", "interfaces", "problems"},
    "resources": {"alerts", "figures", "membership", "reading", "security", "web", "interfaces", "problems"},
}
"""Inside C{ops}: what each folder may import of the others. C{service} puts all of them together."""

OPS_WEB_MAY_IMPORT = {"ops", "net", "env", "observer", "schema.codes", "errors"}
"""Of the other packages what the small framework may: it knows no broker, no client, no store."""

SINK = os.path.join("smartgo", "spark", "sink.py")
"""Runs the client, and so a reactor in a thread of its own, in Spark's workers while they write."""
SINK_MAY_IMPORT = {"client", "remoting", "net", "env"}

EMBEDDED = os.path.join("smartgo", "testing", "embeddedbroker.py")
"""Blocks, in whatever thread of a test: it locks, and has no environment."""

PLUGINS_MAY_IMPORT = {
    "broker.interfaces", "registry.interfaces", "pipeline", "remoting", "net", "config", "env", "observer", "schema",
    "errors",
}  # fmt: skip

REAL = {
    os.path.join("smartgo", "env", "real.py"),
    os.path.join("smartgo", "env", "disk.py"),
    os.path.join("smartgo", "env", "poller.py"),
    os.path.join("smartgo", "env", "reactorthread.py"),
    os.path.join("smartgo", "env", "refusedwrites.py"),
    os.path.join("smartgo", "env", "writeback.py"),
    os.path.join("smartgo", "spark", "files.py"),
    os.path.join("smartgo", "spark", "network", "wire.py"),
}
"""The doors to the world. Spark's executors have no environment, only files to read: these have a door of their own."""

DOORS = {
    "time",
    "random",
    "secrets",
    "threading",
    "select",
    "socket",
    "mmap",
    "fcntl",
    "ctypes",
    "pathlib",
    "tempfile",
    "shutil",
}
OS_NAMES_ALLOWED = {"path", "fspath", "environ"}


def sources(top: str) -> list[str]:
    """All Python files below a folder of the checkout, as paths relative to it; symlinks are not followed."""
    found = []
    for folder, _, names in os.walk(os.path.join(ROOT, top)):
        found += [os.path.relpath(os.path.join(folder, one), ROOT) for one in names if one.endswith(".py")]
    return sorted(found)


@cache
def imports(path: str) -> list[tuple[int, str]]:
    """Line and full name of everything a file imports; C{from a import b} gives C{a.b}."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                found.append((node.lineno, "." * node.level))
            else:
                found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


@cache
def calls(path: str) -> list[tuple[int, str]]:
    """Line and dotted name of everything a file calls or refers to by attribute."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.append((node.lineno, node.func.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.append((node.lineno, f"{node.value.id}.{node.attr}"))
    return found


def package(path: str) -> str:
    """The layer that a source file belongs to: C{smartgo/store/flush.py} is in C{store}."""
    part = path.split(os.sep)[1]
    return part.removesuffix(".py")


class LayerTests(SynchronousTestCase):
    """Imports go one way."""

    def test_walks(self) -> None:
        """The walk sees the packages that are there, so that an empty answer means no offence."""
        seen = {package(path) for path in sources("smartgo")}
        self.assertLessEqual({"errors", "env", "schema", "remoting", "store"}, seen)
        self.assertIn("smartgo.errors.StoreHeld", [name for _, name in imports("smartgo/env/disk.py")])
        self.assertIn("os.pread", [name for _, name in calls("smartgo/env/disk.py")])

    def test_packages(self) -> None:
        """No package of smartgo imports one that its row in the table does not name."""
        offences = []
        for path in sources("smartgo"):
            here = package(path)
            if here in ("__init__", "plugins"):
                continue
            allowed = MAY_IMPORT[here] | {here} | (SINK_MAY_IMPORT if path == SINK else set())
            for line, name in imports(path):
                parts = name.split(".")
                if name.startswith("."):
                    offences.append(f"{path}:{line} imports relatively")
                elif parts[0] in ("plugins", "tests", "benchmarks") or (
                    parts[0] == "smartgo" and len(parts) > 1 and parts[1] not in allowed
                ):
                    offences.append(f"{path}:{line} imports {name}")
        self.assertEqual(offences, [])

    def test_core(self) -> None:
        """Only the module that chooses imports the compiled core, and nothing of the core imports smartgo."""
        offences = [
            f"{path}:{line} imports {name}"
            for path in sources("smartgo")
            for line, name in imports(path)
            if path != os.path.join("smartgo", "core.py") and name.startswith("smartgo._core")
        ]
        self.assertEqual(offences, [])
        folder = os.path.join(ROOT, "smartgo", "_core")
        for one in sorted(os.listdir(folder)):
            if one.endswith((".h", ".c", ".pyx")) and one != "sends.c":
                with open(os.path.join(folder, one), encoding="utf-8") as file:
                    text = file.read()
                self.assertNotRegex(text, r"import smartgo|from smartgo", one)
                if not one.endswith(".pyx"):
                    self.assertNotRegex(text, "Python.h|Py[A-Z][a-z]+_", one)

    def test_ops(self) -> None:
        """Inside C{ops} too imports go one way; the framework in C{ops/web} knows no resource and no broker."""
        offences = []
        for folder, allowed in OPS_MAY_IMPORT.items():
            paths = sources(f"smartgo/ops/{folder}")
            self.assertNotEqual(paths, [])
            for path in paths:
                for line, name in imports(path):
                    inner = name.removeprefix("smartgo.")
                    if inner == name:
                        continue
                    if inner.startswith("ops.") and inner.split(".")[1] not in allowed | {folder}:
                        offences.append(f"{path}:{line} imports {name}")
                    published = any(inner == one or inner.startswith(f"{one}.") for one in OPS_WEB_MAY_IMPORT)
                    if folder == "web" and not published:
                        offences.append(f"{path}:{line} imports {name}")
        self.assertEqual(offences, [])
        left = dict(OPS_MAY_IMPORT)
        while left:  # those that import none of the others are taken away, until none is left
            lowest = [folder for folder, allowed in left.items() if not allowed & set(left)]
            self.assertNotEqual(lowest, [], f"{sorted(left)} import each other in a circle")
            for folder in lowest:
                del left[folder]

    def test_documented(self) -> None:
        """The table of packages in docs/architecture.rst has the packages that are there, and these arrows."""
        there = {package(path) for path in sources("smartgo")} - {"__init__", "plugins"}
        with open(os.path.join(ROOT, "docs", "architecture.rst"), encoding="utf-8") as file:
            page = file.read()
        rows = re.findall(r"^``(\w+)`` +((?:\w+, )*\w+)  +\S", page, re.MULTILINE)
        arrows = {name: set(builds_on.split(", ")) - {"nothing"} for name, builds_on in rows}
        self.assertEqual(set(arrows), there)
        for name in sorted(there, key=lambda name: len(MAY_IMPORT[name])):
            reached = arrows[name].union(*(MAY_IMPORT[one] & there for one in arrows[name]))
            self.assertEqual(reached, MAY_IMPORT[name] & there, f"docs/architecture.rst: what {name} builds on")
        drawing = page.split("lower line::\n\n")[1].split("\n\n")[0].splitlines()
        level = {name: number for number, line in enumerate(drawing) for name in line.split()}
        self.assertEqual(set(level), there)
        self.assertEqual([(a, b) for a in arrows for b in arrows[a] if level[a] >= level[b]], [])

    def test_plugins(self) -> None:
        """An extension touches the published interfaces alone, and names itself C{smartgo.plugins}."""
        offences = []
        for path in sources("plugins"):
            for line, name in imports(path):
                inner = name.removeprefix("smartgo.")
                published = any(inner == one or inner.startswith(one + ".") for one in PLUGINS_MAY_IMPORT)
                foreign = inner != name and not inner.startswith("plugins.") and not published
                if foreign or name.startswith("plugins"):
                    offences.append(f"{path}:{line} imports {name}")
        self.assertEqual(offences, [])

    def test_drop_ins(self) -> None:
        """A twistd drop-in imports nothing of smartgo: listing the commands must not load them."""
        paths = [path for path in sources("twisted") if not path.endswith("__init__.py")]
        names = [name for path in paths for _, name in imports(path) if name.startswith("smartgo")]
        self.assertEqual(names, [])


class DoorTests(SynchronousTestCase):
    """Effects pass through the environment (reliability T1)."""

    def test_modules(self) -> None:
        """The doors alone import a module with effects; C{node}, C{cli} and C{testing} alone import the reactor."""
        offences = []
        for path in sources("smartgo") + sources("plugins"):
            if path in REAL:
                continue
            for line, name in imports(path):
                if path in (SINK, EMBEDDED) and name.split(".")[0] == "threading":
                    continue
                if name.split(".")[0] in DOORS or name.startswith("twisted.internet.threads"):
                    offences.append(f"{path}:{line} imports {name}")
                if (
                    name.startswith("twisted.internet.reactor")
                    and path != SINK
                    and package(path) not in ("node", "cli", "testing")
                ):
                    offences.append(f"{path}:{line} imports {name}")
        self.assertEqual(offences, [])

    def test_calls(self) -> None:
        """Nobody else opens files, asks C{os} for them, or starts a C{LoopingCall} on the global reactor."""
        offences = []
        for path in sources("smartgo") + sources("plugins"):
            if path in REAL:
                continue
            seen = calls(path)
            for line, name in seen:
                if name in ("open", "deferToThread") or (
                    name.startswith("os.") and name.split(".")[1] not in OS_NAMES_ALLOWED and package(path) != "node"
                ):
                    offences.append(f"{path}:{line} uses {name}")
            if any(name == "LoopingCall" for _, name in seen) and not any(name.endswith(".clock") for _, name in seen):
                offences.append(f"{path} starts a LoopingCall without a clock")
        self.assertEqual(offences, [])

    def test_dangerous(self) -> None:
        """Nothing evaluates or unpickles outside data (reliability X16)."""
        offences = []
        for path in sources("smartgo") + sources("plugins"):
            for line, name in imports(path):
                if name.split(".")[0] in ("pickle", "marshal", "shelve"):
                    offences.append(f"{path}:{line} imports {name}")
            for line, name in calls(path):
                if name in ("eval", "exec", "yaml.load"):
                    offences.append(f"{path}:{line} uses {name}")
        self.assertEqual(offences, [])
