"""
Install the wheel into a clean environment and ask for the commands, away from the checkout.

Run by C{tox -e packaging}; prints one line a check and exits 1 at the first that fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMANDS = ("smartgo", "smartgo-broker", "smartgo-ops", "smartgo-registry", "smartgo-slave")
SOURCES = (
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "plugins",
    "pyproject.toml",
    "setup.py",
    "smartgo",
    "twisted",
)


def say(line: str) -> None:
    """Report one check."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(*command: str, cwd: str, ok: bool = True) -> str:
    """Run a program away from the checkout; return what it prints."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TOX", "VIRTUAL"))}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ok and done.returncode:
        say(done.stdout)
        sys.exit(f"FAILED: {' '.join(command)} ended with {done.returncode}")
    return done.stdout


def expect(condition: bool, what: str) -> None:
    """Say what holds, or end."""
    if not condition:
        sys.exit(f"FAILED: {what}")
    say(f"ok: {what}")


def copy_of_the_sources(folder: str) -> str:
    """A tar archive of the sources, unpacked: what a release tarball is, with its symbolic link."""
    archive = os.path.join(folder, "smartgo.tar")

    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        name = os.path.basename(member.name)
        return (
            None if name == "__pycache__" or name.endswith((".pyc", ".egg-info")) or name == "dropin.cache" else member
        )

    with tarfile.open(archive, "w") as tar:
        for name in SOURCES:
            tar.add(os.path.join(ROOT, name), f"smartgo-source/{name}", filter=wanted)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="tar")
    return os.path.join(folder, "smartgo-source")


def check_core(source: str, folder: str, python: str, away: str) -> None:
    """Check that the core was compiled where a compiler is, and that no compiler is needed."""
    ask = "from smartgo.core import CORE; print(CORE)"
    if shutil.which("cc") or shutil.which("gcc"):
        expect(run(python, "-c", ask, cwd=away).strip() == "compiled", "the installed core is compiled")
    for setting, tag in (("CC=/bin/false", ".whl"), ("SMARTGO_PURE=1", "-py3-none-any.whl")):
        wheels = os.path.join(folder, setting[:2])
        pip = ("python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, source)
        run("env", setting, sys.executable, *pip[1:], cwd=folder)
        (wheel,) = os.listdir(wheels)
        run(
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--force-reinstall",
            os.path.join(wheels, wheel),
            cwd=folder,
        )
        said = run(python, "-c", ask, cwd=away).strip()
        expect(wheel.endswith(tag) and said.endswith("it was not compiled"), f"{setting}: Python does without the core")


def main() -> None:
    """Build, install, ask, uninstall."""
    folder = tempfile.mkdtemp(prefix="smartgo-packaging-")
    try:
        source = copy_of_the_sources(folder)
        dist = os.path.join(folder, "dist")
        run(sys.executable, "-m", "build", "--outdir", dist, source, cwd=folder)
        wheel = next(os.path.join(dist, name) for name in os.listdir(dist) if name.endswith(".whl"))
        expect(
            any(name.endswith(".tar.gz") for name in os.listdir(dist)),
            "sdist and wheel build, the wheel from the sdist",
        )
        clean = os.path.join(folder, "venv")
        venv.create(clean, with_pip=True)
        binaries = os.path.join(clean, "bin")
        python = os.path.join(binaries, "python")
        run(python, "-m", "pip", "install", "-q", wheel, cwd=folder)
        away = os.path.join(folder, "away")
        os.mkdir(away)
        listing = run(os.path.join(binaries, "twistd"), "--help", cwd=away)
        for command in COMMANDS:
            expect(f"    {command} " in listing, f"twistd lists {command}")
            text = run(os.path.join(binaries, "twistd"), command, "--help", cwd=away)
            expect("--config" in text, f"twistd {command} --help explains itself")
        expect("demo" in run(os.path.join(binaries, "smartgo"), "--help", cwd=away), "smartgo --help lists demo")
        code = "import smartgo, sys; print('light', 'twisted' in sys.modules); from smartgo import *; print(Producer)"
        said = run(python, "-c", code, cwd=away)
        expect(
            "light False" in said and "smartgo.client.producer" in said,
            "the public names load, and only when asked for",
        )
        check_core(source, folder, python, away)
        spark = os.path.join(binaries, "smartgo-spark")
        expect("STORE_DIR" in run(spark, "--help", cwd=away), "smartgo-spark explains itself without Spark")
        said = run(spark, "store", "--out", "report", cwd=away, ok=False)
        expect("pip install" in said and "Traceback" not in said, "smartgo-spark says what it lacks")
        code = (
            "import smartgo.plugins, sys; from twisted.plugin import getPlugins, IPlugin; "
            "list(getPlugins(IPlugin, smartgo.plugins)); print('found', 'pyspark' in sys.modules)"
        )
        expect("found False" in run(python, "-c", code, cwd=away), "the extensions are found, Spark is not loaded")
        code = (
            "from smartgo.ops.console.files import console_pages; pages = console_pages(); "
            "kinds = {path.rpartition('.')[2] for path in pages}; print('/' in pages, sorted(kinds - {'/'}))"
        )
        console = run(python, "-c", code, cwd=away)
        expect("True ['css', 'js', 'json', 'md', 'mjs', 'svg', 'txt']" in console, "the console is in the wheel, whole")
        files = run(python, "-m", "pip", "show", "-f", "smartgo", cwd=away)
        expect("tests/" not in files and "benchmarks/" not in files, "no tests are installed")
        expect("twisted/plugins/__init__.py" not in files, "Twisted's own files are left alone")
        run(python, "-m", "pip", "uninstall", "-q", "-y", "smartgo", cwd=away)
        run(python, "-c", "import twisted.plugins, twisted.internet.reactor", cwd=away)
        say("ok: Twisted remains importable after uninstalling")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
