"""
A container engine, podman, that believes to be alone: namespaces of its own for network, mounts and processes.

Nothing of it touches the machine's own network, images or containers, and all of it is gone after C{end}. No image is
downloaded: the base that the container file names is made of the Debian of L{tests.deploy.machines}.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess

from tests.chaos.rounds import until
from tests.deploy.case import deployed
from tests.deploy.machines import (
    BOOTED,
    OWN_CGROUPS,
    MachineFailed,
    debian,
    first_child,
    packages,
    run,
    sources,
)
from tests.deploy.machines import unavailable as no_machine

TOOLS = ("podman", "crun", "netavark", "aardvark-dns")
_PLACES = ("/usr/bin", "/usr/lib/podman", "/usr/libexec/podman")


def unavailable() -> str | None:
    """Return why no engine can be started; C{None} where it can."""
    reason = no_machine()
    if reason is not None:
        return reason
    absent = [tool for tool in TOOLS if not any(os.path.exists(os.path.join(place, tool)) for place in _PLACES)]
    return f"not installed: {', '.join(absent)}" if absent else None


class Engine:
    """
    The engine with the image C{smartgo}, built from the checkout by the container file.

    @ivar source: the checkout's copy that it was built from.
    """

    def __init__(self, folder: str) -> None:
        """
        @param folder: a new one, for images, volumes and logs.
        """
        os.mkdir(folder)
        self._folder = folder
        wait = "ip link set lo up && exec sleep infinity"
        alone = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--")
        self._said = os.path.join(folder, "said")
        with open(self._said, "wb") as said:
            self._process = subprocess.Popen(
                [*alone, "sh", "-c", OWN_CGROUPS, "engine", "sh", "-c", wait], stdin=subprocess.DEVNULL, stderr=said
            )
        try:
            until(self._up, BOOTED, "the engine's namespaces")
            self._configure()
            self.source = sources(folder)
            self._build()
        except BaseException:
            self.end()
            raise

    def _up(self) -> bool:
        if self._process.poll() is not None:
            with open(self._said, encoding="utf-8", errors="replace") as file:
                raise MachineFailed(f"no namespaces: {file.read()}")
        child = first_child(self._process.pid)
        if child is None:
            return False
        with open(f"/proc/{child}/comm", encoding="ascii") as file:
            return file.read() == "sleep\n"

    def _configure(self) -> None:
        limits = [
            f'"{name}={most}:{most}"'
            for name, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
            for most in [resource.getrlimit(number)[1]]
        ]
        settings = (
            f"[containers]\ndefault_ulimits = [{', '.join(limits)}]\n"
            f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{self._folder}/networks"\n'
            '[engine]\ncgroup_manager = "cgroupfs"\nruntime = "crun"\nevents_logger = "file"\n'
        )
        storage = (
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self._folder}/images"\nrunroot = "{self._folder}/running"\n'
        )
        for name, text in (("containers.conf", settings), ("storage.conf", storage)):
            with open(os.path.join(self._folder, name), "w", encoding="utf-8") as file:
                file.write(text)

    def _build(self) -> None:
        bases = {line.split()[1] for line in deployed("Containerfile").splitlines() if line.startswith("FROM ")}
        tree = debian()
        change = "ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        archive = os.path.join(self._folder, "base.tar")
        run("tar", "--create", f"--directory={tree}", f"--file={archive}", ".")
        for base in sorted(bases):
            self.podman("import", "--change", change, archive, base)
        os.remove(archive)
        wheels = os.path.join(self._folder, "wheels")
        packages(self.source, wheels)
        offline = os.path.join(self._folder, "pip.conf")
        with open(offline, "w", encoding="utf-8") as file:
            file.write("[global]\nno-index = true\nfind-links = /packages\n")
        mounts = ("--volume", f"{wheels}:/packages:ro", "--volume", f"{offline}:/etc/pip.conf:ro")
        ways = ("--format", "docker", "--isolation", "chroot", "--pull=never", *mounts)
        self.podman("build", *ways, "--file", "docs/deploy/Containerfile", "--tag", "smartgo", ".")

    def run(self, *command: str) -> str:
        """
        Run a program of the machine's next to the engine; its working directory is the checkout's copy.

        @raise MachineFailed: it failed.
        """
        child = first_child(self._process.pid) or ""
        conf = (
            f"CONTAINERS_CONF={self._folder}/containers.conf",
            f"CONTAINERS_STORAGE_CONF={self._folder}/storage.conf",
        )
        enter = ("nsenter", "--target", child, "--mount", "--net", "--pid", "--")
        return run(*enter, "env", f"--chdir={self.source}", *conf, *command)

    def podman(self, *words: str) -> str:
        """
        Have the engine do something.

        @raise MachineFailed: it failed.
        """
        return self.run("podman", *words)

    def start(self, name: str, *words: str) -> None:
        """Start a container with all that the image says; no cgroup, and no timer of systemd that asks for health."""
        self.podman("run", "--detach", "--name", name, "--pull=never", "--cgroups=disabled", *words)

    def healthy(self, name: str) -> bool:
        """Ask for health as an engine does that has a timer for it."""
        try:
            self.podman("healthcheck", "run", name)
        except MachineFailed:
            return False
        return True

    def end(self) -> None:
        """End every process in the namespaces, and remove what they wrote."""
        first = first_child(self._process.pid)
        # The first process of a namespace ends after all others in it, and its parent after that.
        if first is None:
            self._process.kill()
        else:
            os.kill(int(first), signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder)
