"""Sets of jars, resolved once by Maven into a cache."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .errors import BenchmarkError

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
    "    <dependency><groupId>{group}</groupId>"
    "<artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
)


class Artifact(NamedTuple):
    """The coordinates of a jar in Maven's repositories."""

    group: str
    artifact: str
    version: str


def pom(name: str, artifacts: Iterable[Artifact]) -> str:
    """Return a Maven project that depends on some jars."""
    lines = (_DEPENDENCY.format(**each._asdict()) for each in artifacts)
    return _POM.format(name=name, dependencies="\n".join(lines))


def resolve(cache: Path, name: str, artifacts: Iterable[Artifact]) -> Path:
    """
    Return the folder C{name} of a cache, which holds some jars and what they need; Maven fills it where it is empty.

    @raise BenchmarkError: it is empty, and Maven is not here or fails.
    """
    folder = cache / name
    if any(folder.glob("*.jar")):
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise BenchmarkError(
            f"no jars in {folder} and no mvn on the path to fetch them (Debian: apt-get install maven); "
            f"or point --jars at a folder with {name}/"
        )
    project = cache / f"pom-{name}.xml"
    fresh = cache / f"{name}.part"
    shutil.rmtree(fresh, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    project.write_text(pom(name, artifacts))
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    line = [maven, "-q", "-B", "-f", str(project), goal, "-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not any(fresh.glob("*.jar")):
        raise BenchmarkError(f"Maven cannot resolve {name}:\n{(done.stdout + done.stderr).strip()[-2000:]}")
    fresh.replace(folder)
    return folder
