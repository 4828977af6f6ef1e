"""Resources for debugging (reliability X13)."""

from __future__ import annotations

from smartgo.ops.security.principals import ADMIN
from tests.ops.front import Front
from tests.ops.security.case import SecurityCase


class DebugTests(SecurityCase):
    """X13: what is for debugging."""

    def test_off(self) -> None:
        """There is nothing of it unless a setting says so."""
        token = self.token("boss", ADMIN)
        for path in ("/debug/stacks", "/debug/memory"):
            self.assertEqual(self.front.ask("GET", path, token=token).status, 404)

    def test_on(self) -> None:
        """Where it is on, admins on this machine are told, and nobody else."""
        self.front.stop_api()
        front = Front(self.front.cluster, opsDebug="true", opsTrustedProxies="127.0.0.1")
        self.addCleanup(front.stop_api)
        token = front.admin()
        frames = "\n".join(line for one in front.get("/debug/stacks", token=token) for line in one["lines"])
        self.assertIn("test_on", frames)
        self.assertGreater(front.get("/debug/memory", token=token)["blocks"], 1000)
        self.assertEqual(front.ask("GET", "/debug/stacks").status, 401)
        far = front.ask("GET", "/debug/stacks", token=token, headers={"X-Forwarded-For": "8.8.8.8"})
        self.assertEqual((far.status, far.code), (403, "not-local"))
