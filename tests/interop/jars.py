"""
The official jars, resolved by Maven on first use, and our Java program compiled against them.

Everything lands in a cache outside the work tree: C{SMARTGO_INTEROP_CACHE}, else C{smartgo-interop} under
C{XDG_CACHE_HOME} or C{~/.cache}. A folder is named after the content it was made from, so a changed pom or source makes
a new one.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

_JAVA = Path(__file__).parent / "java"
_OPENS = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")


class Unavailable(Exception):
    """The Java side cannot run here; the text is the reason for a skip."""


class Generation:
    """
    One generation of official jars.

    @ivar name: C{"4.9"}, C{"5.3"}, C{"5.5"} or C{"4.9-its"}.
    """

    def __init__(self, name: str, sources: str = "interop") -> None:
        """
        @param sources: the folder of our classes that are compiled against the jars.
        """
        self.name = name
        self._sources = sources
        self._pom = _JAVA / f"pom-{name}.xml"

    @functools.cached_property
    def jars(self) -> Path:
        """
        The folder of jars; resolved now if it is not there yet.

        @raise Unavailable: no Maven, or it could not resolve them.
        """
        content = self._pom.read_bytes()
        return _made(f"jars-{self.name}", content, self._resolve)

    @functools.cached_property
    def classes(self) -> Path:
        """
        Our program, compiled against these jars.

        @raise Unavailable: no compiler, or the jars are missing.
        """
        sources = sorted((_JAVA / self._sources).glob("*.java"))
        jars = self.jars
        content = b"".join(path.read_bytes() for path in sources) + self._pom.read_bytes() + java_version().encode()

        def compile_into(folder: Path) -> None:
            path = f"{jars}/*"
            _run([_tool("javac"), "-nowarn", "-Xlint:none", "-d", str(folder), "-cp", path, *map(str, sources)])

        return _made(f"classes-{self.name}", content, compile_into)

    def _resolve(self, folder: Path) -> None:
        command = [_tool("mvn"), "-q", "-B", "-f", str(self._pom), "dependency:copy-dependencies"]
        _run([*command, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"])


GENERATIONS = {name: Generation(name) for name in ("4.9", "5.3")}

#: The broker and the name server of RocketMQ 5.
SERVERS_5 = Generation("5.5")

#: RocketMQ's own integration tests, 4.9.7, for a cluster that runs.
INTEGRATION_TESTS = Generation("4.9-its", "its")


@functools.cache
def unavailable() -> str | None:
    """Return why the Java side cannot run here, or C{None}; resolves and compiles what is missing."""
    try:
        for generation in GENERATIONS.values():
            _ = generation.classes
    except Unavailable as error:
        return str(error)
    return None


def java_command(*flags: str) -> list[str]:
    """Return the start of a command line for the JVM, with the doors open that the jars need on a newer JDK."""
    opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENS]
    exports = ["--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED"]
    # without preferIPv4Stack the ids of clients depend on whether the machine's first address is IPv6
    quiet = ["-Djava.net.preferIPv4Stack=true", "-Xlog:disable", "-Xlog:all=error:stderr", "-XX:+UseSerialGC"]
    return [_tool("java"), *opens, *exports, *quiet, *flags]


@functools.cache
def java_version() -> str:
    """Return the first line of C{java -version}."""
    told = subprocess.run([_tool("java"), "-version"], capture_output=True, text=True, check=False)
    return told.stderr.partition("\n")[0]


def java_major() -> int:
    """Return the major version of the JVM, such as 17."""
    found = re.search(r'"(\d+)', java_version())
    return int(found.group(1)) if found else 0


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    if home and name != "mvn" and os.access(os.path.join(home, "bin", name), os.X_OK):
        return os.path.join(home, "bin", name)
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not installed")
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        last = lines[-1] if lines else "no output"
        wrong = next((line for line in lines if "ERROR" in line or "error:" in line), last)
        raise Unavailable(f"{os.path.basename(command[0])} failed: {wrong}")


def _cache() -> Path:
    told = os.environ.get("SMARTGO_INTEROP_CACHE")
    if told:
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smartgo-interop"


def _made(name: str, content: bytes, make: Callable[[Path], None]) -> Path:
    """Return the folder made from C{content}; made aside and renamed, so that half a folder is never seen."""
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
            try:
                make(aside)
                aside.rename(folder)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
    return folder
