"""The container file and the compose file: forms, and that their commands are what the programs understand."""

from __future__ import annotations

import json
import os
import re
import shlex
from typing import Any

import yaml

from tests.deploy.case import DEPLOY, ROOT, TWISTD, DeployCase, deployed

OPS_PORT = 10913


def health() -> tuple[dict[str, str], list[str]]:
    """The options of the image's health check, and its command."""
    (rest,) = (rest for name, rest in instructions("Containerfile") if name == "HEALTHCHECK")
    options, _, command = rest.partition("CMD ")
    return dict(re.findall(r"--([\w-]+)=(\S+)", options)), json.loads(command)


def instructions(name: str) -> list[tuple[str, str]]:
    """Each instruction of the container file from its last stage on."""
    text = deployed(name).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]
    last = max(at for at, (word, _) in enumerate(found) if word == "FROM")
    return found[last:]


class ContainerTests(DeployCase):
    def setUp(self) -> None:
        """The last stage."""
        self.stage = instructions("Containerfile")

    def one(self, word: str) -> str:
        """The only instruction of that name."""
        (found,) = (rest for name, rest in self.stage if name == word)
        return found

    def test_signals(self) -> None:
        """No shell stands between the engine and the program, which is not root's."""
        self.assertEqual(json.loads(self.one("ENTRYPOINT")), ["twistd", *TWISTD])
        self.configured(json.loads(self.one("CMD")))
        self.assertEqual(self.one("STOPSIGNAL"), "SIGTERM")
        self.assertNotEqual(self.one("USER").split(":")[0], "0")

    def test_health(self) -> None:
        """Health is asked of the API in Python that compiles, within the time that the engine gives."""
        options, words = health()
        self.assertEqual(words[:2], ["python", "-c"])
        compile(words[2], "health", "exec")
        self.assertIn(f":{OPS_PORT}/api/v1/ready", words[2])
        self.assertEqual(options["timeout"], "5s")

    def test_home(self) -> None:
        """The home, which is the volume, is the user's alone and empty: no files of a shell come to lie in a store."""
        (user,) = (rest for name, rest in self.stage if name == "RUN")
        self.assertIn("--no-create-home", user)
        self.assertIn("install -d -o smartgo -g smartgo -m 0700 " + self.one("VOLUME"), user)

    def test_context(self) -> None:
        """What setup.py needs is sent to the build, and no tests, stores or history."""
        kept = {line[1:] for line in deployed("Containerfile.dockerignore").splitlines() if line.startswith("!")}
        self.assertEqual(kept, {"LICENSE", "README.md", "pyproject.toml", "setup.py", "plugins", "smartgo", "twisted"})
        for name in kept:
            self.assertTrue(os.path.exists(os.path.join(ROOT, name)), name)


class ComposeTests(DeployCase):
    def setUp(self) -> None:
        """The services."""
        self.document: dict[str, Any] = yaml.safe_load(deployed("compose.yaml"))
        self.services: dict[str, dict[str, Any]] = self.document["services"]

    def test_commands(self) -> None:
        """
        Every program understands its command line; all brokers know all registries, no two are the same, and who asks
        from this machine is told the port that is published here.
        """
        tokens = "ops:admin:" + "0" * 64
        (network,) = self.document["networks"].values()
        gateway = network["ipam"]["config"][0]["gateway"]
        seen = set()
        for name, service in self.services.items():
            words = [
                "--set=opsTokens=" + tokens if word.startswith("--set=opsTokens=") else word
                for word in service["command"]
            ]
            found = self.configured(words)
            self.assertEqual((found.ops.place(0) or ("", 0))[1], OPS_PORT, name)
            if name.startswith("registry"):
                self.assertEqual(found.registry.listen_port, 9876)
                continue
            self.assertEqual(found.broker.namesrv_addr, ("registry-1:9876", "registry-2:9876"), name)
            self.assertLessEqual({"registry-1", "registry-2"}, set(service["depends_on"]), name)
            if name.startswith("broker"):
                seen.add((found.broker.broker_name, found.broker.broker_id))
                port = found.broker.listen_port
                self.assertEqual(service["ports"], [f"127.0.0.1:{port}:{port}"], name)
                self.assertEqual(found.broker.advertised_addresses, f"{gateway}/32=127.0.0.1:{port}", name)
                self.assertEqual(found.store.store_path_root_dir, "/var/lib/smartgo/store")
        self.assertEqual(seen, {("broker-a", 0), ("broker-b", 0), ("broker-a", 1)})

    def test_health(self) -> None:
        """
        The health check that others wait for stands in the compose file as well, as it is in the image: podman builds
        images without one unless it is told the format.
        """
        options, command = health()
        wanted = {name.replace("-", "_"): value for name, value in options.items()}
        for name, service in self.services.items():
            found = {key: str(value) for key, value in service["healthcheck"].items() if key != "test"}
            self.assertEqual((shlex.split(service["healthcheck"]["test"]), found), (command, wanted), name)

    def test_console_by_its_published_port(self) -> None:
        """The console is asked for by the address at which its port is published, which it must know for its own."""
        service = self.services["console"]
        words = [word for word in service["command"] if not word.startswith("--set=opsTokens=")]
        (published,) = service["ports"]
        address, port, _ = published.split(":")
        found = self.configured([*words, "--set=opsTokens=ops:admin:" + "0" * 64])
        self.assertEqual(found.ops.ops_hosts.split(";"), [f"{address}:{port}", f"localhost:{port}"])

    def test_forms(self) -> None:
        """Each has its own volume, time to stop, no more rights than it needs, and is open to this machine alone."""
        volumes = []
        for name, service in self.services.items():
            (volume,) = service["volumes"]
            volumes.append(volume.partition(":")[0])
            self.assertTrue(volume.endswith(":/var/lib/smartgo"), name)
            self.assertGreater(int(service["stop_grace_period"].rstrip("s")), 10)
            self.assertEqual((service["cap_drop"], service["read_only"], service["image"]), (["ALL"], True, "smartgo"))
            self.assertTrue(all(port.startswith("127.0.0.1:") for port in service["ports"]), name)
            build = service["build"]
            path = os.path.normpath(os.path.join(DEPLOY, build["context"]))
            self.assertEqual(path, ROOT)
            self.assertTrue(os.path.exists(os.path.join(path, build["dockerfile"])))
        self.assertEqual(sorted(volumes), sorted(self.document["volumes"]))
