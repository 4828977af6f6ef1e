"""
Machines that systemd runs: a Debian of its own, booted in a container on a network of this machine.

Each starts from the same tree, which it does not change, and forgets at its end what it wrote. Nothing is installed or
started on the machine that the tests run on.

  - C{SMARTGO_DEPLOY=1}: such tests run; without it they are skipped by name.
  - C{SMARTGO_DEPLOY_TREE}: a folder that keeps the Debian for the next run, which else takes some minutes to make.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache

from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.network import Host, Network
from tests.chaos.network import unavailable as no_network
from tests.chaos.rounds import until
from tests.deploy.case import DEPLOY, ROOT
from tests.packaging.check import copy_of_the_sources

TOOLS = ("debootstrap", "systemd-nspawn", "unshare")
PACKAGES = "python3-venv,systemd,systemd-sysv,dbus,iproute2,procps"
SUITE, PYTHON = "bookworm", "3.11"
BOOTED = 300.0
"""Seconds that a machine may take, on a slow one, until all its services run."""
OWN_CGROUPS = (
    "{ umount -R /sys/fs/cgroup || umount -l /sys/fs/cgroup; } 2> /dev/null;"
    ' mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'
)
"""Machines with both versions of cgroups cannot boot what knows one alone."""


class MachineFailed(Exception):
    """A command did not do its work; the text holds it and what it said."""


def unavailable() -> str | None:
    """Return why no machine can be booted; C{None} where it can."""
    if os.environ.get("SMARTGO_DEPLOY") != "1":
        return "machines with systemd are booted by tox -e deploy, or with SMARTGO_DEPLOY=1"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(absent)}" if absent else no_network()


def run(*command: str, timeout: float = 1200) -> str:
    """
    Run a program to its end and return what it printed.

    @raise MachineFailed: it failed.
    """
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout,
    )
    if done.returncode:
        raise MachineFailed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def first_child(process: int) -> str | None:
    """Return the process that another one has begun namespaces with; C{None} where it has not yet, or has ended."""
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{process}/task/{process}/children") as file:
        return file.read().split(" ")[0] or None
    return None


@cache
def folder() -> str:
    """Return a new folder for what all tests of a run share."""
    path = os.path.abspath("deploy")
    os.mkdir(path)
    return path


def debian() -> str:
    """Return a folder with a Debian that has systemd and Python: the one that is kept, or a new one."""
    tree = os.environ.get("SMARTGO_DEPLOY_TREE") or os.path.join(folder(), "debian")
    if not os.path.exists(tree):
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, f"{tree}.new")
        os.symlink("/usr/bin/python3", f"{tree}.new/usr/local/bin/python")  # as images of Python have it
        os.rename(f"{tree}.new", tree)
    return tree


def sources(target: str) -> str:
    """Return a new folder in another with the checkout: what it is built from, and the files of docs/deploy."""
    source = copy_of_the_sources(target)
    shutil.copytree(DEPLOY, os.path.join(source, "docs", "deploy"))
    return source


def packages(source: str, target: str) -> None:
    """Have the pip of this machine fetch all that an installation needs, so that it asks for nothing elsewhere."""
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", "-q", "--no-deps", "-w", target, source)
    (wheel,) = glob.glob(os.path.join(target, "smartgo-*.whl"))
    with open(os.path.join(source, "pyproject.toml"), "rb") as file:
        building = tomllib.load(file)["build-system"]["requires"]
    run(*pip, "download", "-q", "-d", target, "--only-binary=:all:", "--python-version", PYTHON, wheel, *building)


def instructions(heading: str) -> str:
    """Return the commands that docs/running.rst shows first under a heading."""
    with open(os.path.join(ROOT, "docs", "running.rst"), encoding="utf-8") as file:
        section = file.read().partition(f"\n{heading}\n-")[2]
    lines = section.partition("::\n\n")[2].split("\n")
    block = lines[: next(at for at, line in enumerate(lines) if line and not line.startswith("    "))]
    return "\n".join(line.strip() for line in block)


@cache
def installed() -> str:
    """Return the tree of a Debian on which smartgo was installed by the words of docs/running.rst."""
    tree = os.path.join(folder(), "installed")
    run("cp", "-a", debian(), tree)
    work = os.path.join(folder(), "sources")
    os.mkdir(work)
    shutil.copytree(sources(work), os.path.join(tree, "root", "smartgo"), symlinks=True)
    packages(os.path.join(work, "smartgo-source"), os.path.join(tree, "root", "wheels"))
    with open(os.path.join(tree, "etc", "hosts"), "w", encoding="utf-8") as file:
        file.write("127.0.0.1 localhost\n10.77.0.1 registry-1\n10.77.0.2 registry-2\n")
    network = Network()
    try:
        machine = Machine(tree, network.add("install"), keeps=True)
        try:
            pip = "export PIP_NO_INDEX=1 PIP_FIND_LINKS=/root/wheels"
            commands = instructions("Install as a systemd service")
            machine.run("sh", "-exc", f"cd /root/smartgo; {pip}\n{commands}")
        finally:
            machine.end()
    finally:
        network.remove()
    return tree


class Machine:
    """One that was booted; all of it is gone after C{end}."""

    def __init__(self, tree: str, host: Host, keeps: bool = False) -> None:
        """
        @param tree: its root.
        @param host: whose network it has.
        @param keeps: what it writes stays in the tree.
        """
        self.host = host
        self._console = open(f"{tree}.{host.network}.log", "wb")  # noqa: SIM115  closed by end
        alone = ("unshare", "--mount", "--", "sh", "-c", OWN_CGROUPS, "boot")
        boot = ("systemd-nspawn", "--quiet", "--boot", f"--directory={tree}", f"--machine={host.network}")
        ways = ("--register=no", "--keep-unit", "--link-journal=no", "--console=pipe", "--resolv-conf=off")
        state = () if keeps else ("--volatile=overlay",)
        self._process = subprocess.Popen(
            [*alone, *boot, *ways, *state, f"--network-namespace-path=/run/netns/{host.network}"],
            stdin=subprocess.DEVNULL,
            stdout=self._console,
            stderr=subprocess.STDOUT,
        )
        try:
            until(self._up, BOOTED, f"{host.name} has booted")
        except BaseException:
            self.end()
            raise

    def _up(self) -> bool:
        if self._process.poll() is not None:
            with open(self._console.name, encoding="utf-8", errors="replace") as file:
                raise MachineFailed(f"{self.host.name} does not boot:\n{file.read()}")
        with contextlib.suppress(MachineFailed):
            return "running" in self.run("systemctl", "is-system-running", "--wait")
        return False

    def _enter(self) -> list[str]:
        child = first_child(self._process.pid)
        if child is None:
            raise MachineFailed(f"{self.host.name} has no first process")
        path = "PATH=/opt/smartgo/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return ["nsenter", "--target", child, "--all", "--", "env", "-i", path]

    def run(self, *command: str) -> str:
        """
        Run a command inside and return what it printed.

        @raise MachineFailed: it failed.
        """
        return run(*self._enter(), *command, timeout=BOOTED)

    def property(self, unit: str, name: str) -> str:
        """Return what systemd says of a unit, such as its C{MainPID}."""
        return self.run("systemctl", "show", f"--property={name}", "--value", unit).strip()

    def journal(self, unit: str) -> str:
        """Return what a unit logged, and what systemd did with it."""
        return self.run("journalctl", "--no-pager", "--output=cat", "--unit", unit)

    def active(self, unit: str) -> bool:
        """Return whether a unit has started."""
        return self.property(unit, "ActiveState") == "active"

    def end(self) -> None:
        """Shut it down in order, or else at once."""
        self._process.terminate()
        try:
            self._process.wait(90)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._console.close()


class MachineCase(SynchronousTestCase):
    """A test on booted machines; skipped by name where it is not asked for or cannot run."""

    def setUp(self) -> None:
        """A network without machines."""
        self.network = Network()
        self.addCleanup(self.network.remove)

    def boot(self, name: str) -> Machine:
        """Return another machine, which ends with the test; its address is the next from 10.77.0.1 on."""
        machine = Machine(installed(), self.network.add(name))
        self.addCleanup(machine.end)
        return machine
