"""Values of registries: names and words of others stay what they are (reliability X12)."""

from __future__ import annotations

from smartgo.ops.security.principals import ADMIN
from tests.ops.security.case import SecurityCase


class ScriptTests(SecurityCase):
    """X12: names and words of others stay what they are."""

    def test_names(self) -> None:
        """Script text in a value comes back as JSON that no browser takes for a page."""
        boss = self.token("boss", ADMIN)
        text = "<script>alert(1)</script>"
        self.front.ask("PUT", "/kv/N/k", {"value": text}, token=boss)
        answer = self.front.ask("GET", "/kv/N/k", token=boss)
        self.assertEqual(answer.json["value"], text)
        self.assertEqual(answer.headers["content-type"], "application/json")
        problem = self.front.ask("GET", "//%3Cscript%3Ealert(1)%3C/script%3E")
        self.assertNotIn(b"<script>", problem.content)
