"""Tests of L{smartgo.node.front}: C{twistd smartgo-ops} with access control."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.loading import FRONT, Surroundings, load
from smartgo.env.real import RealNetwork
from smartgo.node.accesscontrol import access_service
from smartgo.node.ops import assemble
from smartgo.ops.service import Ops
from tests.broker.fakecluster import REGISTRY, Cluster
from tests.node.securedcluster import FILE, RULES, SecuredCluster
from tests.node.test_notify import ROOT, TWISTD
from tests.ops.front import PORT, Front

ADMIN = {"Authorization": "Basic " + base64.b64encode(b"an-admin:an-admin-secret").decode()}
SENDER = {"Authorization": "Basic " + base64.b64encode(b"a-sender:a-sender-secret").decode()}


class Assembled(Front):
    """An API that its program has assembled."""

    def __init__(self, cluster: Cluster, ops: Ops) -> None:
        self.cluster = cluster
        self.env = cluster.env
        self._port = PORT
        self.ops = ops
        ops.startService()
        cluster.pump()


class FrontTests(SynchronousTestCase):
    """An API before a cluster with access control, in memory."""

    def test_accounts(self) -> None:
        """Nobody reads unknown; accounts have their rights, and the API asks the cluster with its own key."""
        cluster = SecuredCluster()
        flags = {
            "namesrvAddr": REGISTRY, "aclEnable": "true", "aclPath": os.path.dirname(FILE), "opsPath": "/ops",
            "accessKey": "an-admin", "secretKey": "an-admin-secret",
        }  # fmt: skip
        configuration = load(Surroundings("testhost", "/home/test", lambda name: None), FRONT, flags=flags)
        access = access_service(cluster.env, configuration)
        assert access is not None
        place = ("127.0.0.1", PORT)
        front = Assembled(
            cluster, assemble(cluster.env, configuration, place, (), cluster.sweeper, access=access.control)
        )
        self.addCleanup(front.stop)
        self.assertEqual(
            [front.ask("GET", path).status for path in ("/topics", "/metrics", "/health")], [401, 401, 200]
        )
        self.assertEqual(front.ask("GET", "/topics", headers=ADMIN).status, 200)
        self.assertEqual(front.ask("GET", "/brokers", headers=SENDER).status, 403)
        login = front.ask("POST", "/session", {"accessKey": "a-sender", "secretKey": "a-sender-secret"})
        self.assertEqual((login.status, login.json["name"]), (200, "account a-sender"))
        self.assertIn(b"smartgo_access_files_refused 0.0", front.ask("GET", "/metrics", headers=ADMIN).content)


class ProcessTests(SynchronousTestCase):
    """The process itself."""

    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        os.mkdir(self.folder)
        self.url = f"127.0.0.1:{RealNetwork(None).free_port()}"
        self.command = [
            sys.executable, "-c", TWISTD, "--nodaemon", "--pidfile=", "smartgo-ops", "--registry=127.0.0.1:1",
            f"--listen={self.url}", f"--set=opsPath={self.folder}/ops", "--set=aclEnable=true",
            f"--set=aclPath={self.folder}",
        ]  # fmt: skip
        self.more: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": ROOT}, "cwd": self.folder}

    def session(self, headers: dict[str, str]) -> dict[str, Any]:
        """Return who one is."""
        with urlopen(Request(f"http://{self.url}/api/v1/session", headers=headers), timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def test_refused(self) -> None:
        """A process whose files cannot be used, or whose key is no administrator's in them, does not start."""
        done = subprocess.run(self.command, capture_output=True, text=True, check=False, **self.more)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (78, 1), done.stderr)
        self.assertIn("aclEnable=true:", done.stderr)
        self.write()
        command = [*self.command, "--set=accessKey=a-sender", "--set=secretKey=a-sender-secret"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self.more)
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn("has to be an administrator's", done.stderr)

    def write(self) -> None:
        """Write the rules."""
        with open(os.path.join(self.folder, "plain_acl.yml"), "w", encoding="utf-8") as file:
            file.write(RULES)

    def test_served(self) -> None:
        """It knows the accounts of its files, and shows nobody else anything."""
        self.write()
        with subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True, **self.more) as process:
            try:
                assert process.stdout is not None
                self.assertTrue(any("REST API and console at" in line for line in process.stdout))
                nobody, admin = self.session({}), self.session(ADMIN)
                self.assertEqual((nobody["scopes"], nobody["loginNeeded"], nobody["accounts"]), ([], True, True))
                self.assertEqual(admin["name"], "account an-admin")
                error = self.assertRaises(HTTPError, urlopen, f"http://{self.url}/api/v1/topics", timeout=60)
                self.assertEqual(error.code, 401)
                error.close()
            finally:
                process.terminate()
