"""
The real RocketMQ: its jars, resolved once by Maven into a cache, and command lines of its programs.

Broker and name server are 4.9.7, the newest 4.9 published as jars. The benchmark programs are those of
C{rocketmq-example} 5.5.0, as no 4.9 example jar is published; their client speaks the same protocol.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from . import maven
from .errors import BenchmarkError
from .maven import Artifact

SERVER = "4.9.7"
EXAMPLE = "5.5.0"
_GROUP = "org.apache.rocketmq"
SETS = {
    "lib": [Artifact(_GROUP, "rocketmq-namesrv", SERVER), Artifact(_GROUP, "rocketmq-broker", SERVER)],
    "libbench": [Artifact(_GROUP, "rocketmq-example", EXAMPLE)],
}
"""The sets of jars by the name of their folder: those of the servers, and those of the benchmark programs."""

_OPENED = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")
_LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>${logRoot}/rocketmq.log</file>
    <encoder><pattern>%d %p %t %logger - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""


def default_cache() -> Path:
    """Return where jars are kept: C{$SMARTGO_BENCH_JARS}, or a folder of the user's cache."""
    given = os.environ.get("SMARTGO_BENCH_JARS")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(given) if given else Path(home) / "smartgo-benchmarks" / "rocketmq"


class RocketMQ:
    """Command lines of the real programs; jars are resolved when a program first needs its set."""

    def __init__(self, cache: Path | None = None) -> None:
        """
        @param cache: holds C{lib} (server) and C{libbench} (benchmark programs); filled by Maven where they miss.
        """
        self._cache = cache or default_cache()

    @property
    def cache(self) -> Path:
        """The folder that the jars are kept in."""
        return self._cache

    def jars(self, name: str) -> Path:
        """
        Return the folder of one set of jars, resolving it if need be; a minute or two, once.

        @raise BenchmarkError: Maven is not here or fails.
        """
        return maven.resolve(self._cache, name, SETS[name])

    def name_server(self, work: Path, port: int) -> list[str]:
        """Return the command of a name server; it writes below C{work}."""
        settings = work / "namesrv.properties"
        _write(settings, f"listenPort={port}\n")
        heap = ["-Xms256m", "-Xmx256m"]
        return [*self._java(work, "lib"), *heap, *self._main("lib", "namesrv.NamesrvStartup"), "-c", str(settings)]

    def broker(self, work: Path, settings: Path) -> list[str]:
        """Return the command of a broker with the settings of a properties file."""
        heap = ["-Xms1g", "-Xmx2g", "-Xmn512m", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=2g"]
        return [*self._java(work, "lib"), *heap, *self._main("lib", "broker.BrokerStartup"), "-c", str(settings)]

    def benchmark(self, program: str, work: Path, registry: str) -> list[str]:
        """
        Return the command of Apache's benchmark C{Producer} or C{Consumer}, to be followed by its options.

        Both set C{rocketmq.serialize.type=ROCKETMQ} themselves: they send binary headers.
        """
        flags = ["-Xms512m", "-Xmx512m", f"-Drocketmq.namesrv.addr={registry}"]
        return [*self._java(work, "libbench"), *flags, *self._main("libbench", f"example.benchmark.{program}")]

    def client_program(self, source: Path, work: Path) -> list[str]:
        """
        Compile a program for the client of the server's jars, and return its command, to be followed by its arguments.

        @param source: a file with one public class, which has the name of the file.
        @param work: a folder for the classes and for what the client logs.
        @raise BenchmarkError: it does not compile, or there is no C{javac}.
        """
        classes, jars = work / "classes", self.jars("lib")
        settings = work / "logback.xml"
        _write(settings, _LOGBACK)
        classes.mkdir(parents=True, exist_ok=True)
        line = [java_program("javac"), "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(source)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchmarkError(f"{source.name} does not compile:\n{done.stderr.strip()[-2000:]}")
        logging = f"-Dlogback.configurationFile={settings}"
        return [*self._java(work, "lib"), logging, "-Xmx512m", "-cp", f"{classes}:{jars}/*", source.stem]

    def environment(self, work: Path) -> dict[str, str]:
        """Return what the programs want in their environment: a home with log settings."""
        for program in ("namesrv", "broker"):
            _write(work / "home" / "conf" / f"logback_{program}.xml", _LOGBACK)
        return {"ROCKETMQ_HOME": str(work / "home")}

    def version(self) -> str:
        """Return the first line of C{java -version}."""
        done = subprocess.run([java_program(), "-version"], capture_output=True, text=True, check=False)
        return (done.stderr or done.stdout).partition("\n")[0]

    def _java(self, work: Path, name: str) -> list[str]:
        self.jars(name)
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        return [
            java_program(),
            *opened,
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            "-Djava.net.preferIPv4Stack=true",
            "-Duser.language=en",
            "-Duser.country=US",
            f"-Duser.home={work}",
            f"-DlogRoot={work}/logs",
            f"-Drocketmq.client.logRoot={work}/logs",
            "-Drocketmq.client.logLevel=WARN",
        ]

    def _main(self, name: str, program: str) -> list[str]:
        return ["-cp", f"{self.jars(name)}/*", f"org.apache.rocketmq.{program}"]


def java_program(name: str = "java") -> str:
    """
    Return the path of a program of the JDK: that of C{$JAVA_HOME}, or one on the path.

    @raise BenchmarkError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / name) if home else shutil.which(name)
    if found is None:
        raise BenchmarkError(f"no {name} on the path (a JDK 11 or 17 runs RocketMQ)")
    return found


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
