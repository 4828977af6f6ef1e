"""Build the load generator from C{load/*.c} when it is first used, or when its sources changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import BenchmarkError, NoCompiler

SOURCES = Path(__file__).parent / "load"
BINARIES = Path(__file__).parent / "bin"
FLAGS = ("-O2", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")


def stamp(sources: Path, compiler: str, flags: tuple[str, ...]) -> str:
    """Return a name for what these sources, built this way, give: twelve hex digits."""
    digest = hashlib.sha256(repr((compiler, flags)).encode())
    for path in sorted(sources.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def generator(sources: Path = SOURCES, binaries: Path = BINARIES) -> Path:
    """
    Return the path of the load generator, built if need be; older builds are removed.

    The compiler is C{$CC}, else gcc, else cc.

    @raise NoCompiler: there is none on the path.
    @raise BenchmarkError: it does not compile.
    """
    wanted = os.environ.get("CC")
    compiler = next((found for name in ([wanted] if wanted else ["gcc", "cc"]) if (found := shutil.which(name))), None)
    if compiler is None:
        raise NoCompiler(
            f"no C compiler: {wanted or 'gcc'} is not on the path; the load generator is built from {sources} on "
            "first use (Debian: apt-get install gcc libc6-dev; or set CC)"
        )
    binary = binaries / f"load-{stamp(sources, compiler, FLAGS)}"
    if binary.exists():
        return binary
    binaries.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binaries) as scratch:
        fresh = Path(scratch) / "load"
        command = [compiler, *FLAGS, "-o", str(fresh), *sorted(map(str, sources.glob("*.c")))]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise BenchmarkError(f"the load generator does not compile:\n{' '.join(command)}\n{built.stderr.strip()}")
        for old in binaries.glob("load-*"):
            old.unlink()
        fresh.replace(binary)
    return binary
