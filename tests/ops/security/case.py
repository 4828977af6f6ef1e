"""The shared parts of tests of security."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.ops.front import HOST, Front

ORIGIN = f"http://{HOST}"
TOPIC = {"name": "Orders"}


class SecurityCase(SynchronousTestCase):
    """A front, and logins."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)

    def token(self, name: str, *scopes: str) -> str:
        """Make a token."""
        secret = self.front.ops.tokens.create(name, scopes)[1]
        self.front.cluster.pump()
        return secret

    def login(self, secret: str) -> tuple[str, str]:
        """Log in by a token; return the cookie and the CSRF token."""
        answer = self.front.ask("POST", "/session", {"token": secret})
        self.assertEqual(answer.status, 200, answer.content)
        return answer.headers["set-cookie"].split(";")[0], answer.json["csrfToken"]
