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

from .errors import BenchmarkError

SERVER = "4.9.7"
EXAMPLE = "5.5.0"
_SETS = {
    "lib": [("rocketmq-namesrv", SERVER), ("rocketmq-broker", SERVER)],
    "libbench": [("rocketmq-example", EXAMPLE)],
}
_OPENED = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmark</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = (
    "    <dependency><groupId>org.apache.rocketmq</groupId>"
    "<artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
)
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


def pom(name: str) -> str:
    """Return a Maven project that depends on one set of jars."""
    lines = (_DEPENDENCY.format(artifact=artifact, version=version) for artifact, version in _SETS[name])
    return _POM.format(name=name, dependencies="\n".join(lines))


class RocketMQ:
    """Command lines of the real programs; jars are resolved when a program first needs its set."""

    def __init__(self, cache: Path | None = None) -> None:
        """
        @param cache: holds C{lib} (server) and C{libbench} (benchmark programs); filled by Maven where they miss.
        """
        self._cache = cache or default_cache()

    def jars(self, name: str) -> Path:
        """
        Return the folder of one set of jars, resolving it if need be; a minute or two, once.

        @raise BenchmarkError: Maven is not here or fails.
        """
        folder = self._cache / name
        if any(folder.glob("*.jar")):
            return folder
        maven = shutil.which("mvn")
        if maven is None:
            raise BenchmarkError(
                f"no jars in {folder} and no mvn on the path to fetch them (Debian: apt-get install maven); "
                "or point --jars at a folder with lib/ and libbench/"
            )
        project = self._cache / f"pom-{name}.xml"
        fresh = self._cache / f"{name}.part"
        shutil.rmtree(fresh, ignore_errors=True)
        self._cache.mkdir(parents=True, exist_ok=True)
        project.write_text(pom(name))
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        line = [maven, "-q", "-B", "-f", str(project), goal, "-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not any(fresh.glob("*.jar")):
            raise BenchmarkError(f"Maven cannot resolve {name}:\n{(done.stdout + done.stderr).strip()[-2000:]}")
        fresh.replace(folder)
        return folder

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

    def environment(self, work: Path) -> dict[str, str]:
        """Return what the programs want in their environment: a home with log settings."""
        for program in ("namesrv", "broker"):
            _write(work / "home" / "conf" / f"logback_{program}.xml", _LOGBACK)
        return {"ROCKETMQ_HOME": str(work / "home")}

    def version(self) -> str:
        """Return the first line of C{java -version}."""
        done = subprocess.run([_java_program(), "-version"], capture_output=True, text=True, check=False)
        return (done.stderr or done.stdout).partition("\n")[0]

    def _java(self, work: Path, name: str) -> list[str]:
        self.jars(name)
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        return [
            _java_program(),
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


def _java_program() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        raise BenchmarkError("no java on the path (a JDK or JRE 11 or 17 runs RocketMQ)")
    return found


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
