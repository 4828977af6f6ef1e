"""The six faces of the product: what REST, console, command, doctor, alerts and metrics say on a subject, and when."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.scenarios.cluster import TOKEN, ScenarioCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES: Final = ("REST", "console", "CLI", "doctor", "alerts", "metrics")
LIMIT: Final = 150.0
"""Seconds within which every face must have said it, on a machine that is busy with other tests."""

_PAUSE: Final = 0.2  # seconds between two looks at all faces

Look = Callable[[], str | None]
"""Returns the sentence of a face about a subject; C{None} while it says nothing of it."""


class Row(NamedTuple):
    """
    What a face said.

    @ivar seconds: from the fault until it said so first; C{None}: it did not in time.
    """

    face: str
    sentence: str
    seconds: float | None


def line_of(text: str, pattern: str) -> str | None:
    """Return the first line that a pattern is found in, spaces joined; C{None}: none."""
    for line in text.splitlines():
        if re.search(pattern, line):
            return " ".join(line.split())
    return None


class Faces:
    """The six faces of a cluster. The console is a page that is left open: nobody reloads it."""

    def __init__(self, cluster: ScenarioCluster, browser: Browser) -> None:
        self._cluster = cluster
        self._browser = browser
        self._page: Page | None = None
        self._pool = ThreadPoolExecutor(2)

    def close(self) -> None:
        """Close the page, and wait for commands that run."""
        self._pool.shutdown()
        if self._page is not None:
            self._page.context.close()

    # -- what each says --------------------------------------------------------------------------------------

    def rest(self, path: str, say: Callable[[Any], str | None]) -> Look:
        """Look at a resource; C{say} makes the sentence of it."""

        def look() -> str | None:
            try:
                return say(self._cluster.rest(path))
            except urllib.error.HTTPError:
                return None

        return look

    def console(self, place: str, pattern: str) -> Look:
        """Look at a page of the console, which is opened now; wait for it to be there."""
        page = self._open(place)

        def look() -> str | None:
            return line_of(page.locator("main").inner_text(), pattern)

        return look

    def cli(self, pattern: str, *words: str) -> Look:
        """Look at the output of a command."""
        return lambda: line_of(self._cluster.command(*words)[1], pattern)

    def doctor(self, pattern: str, status: int | None = None) -> Look:
        """Look at the findings of C{smartgo doctor}. @param status: the exit status that it must have, too."""

        def look() -> str | None:
            ended, output = self._cluster.command("doctor", "--quiet")
            found = line_of(output, pattern)
            return found if found is None or status in (None, ended) else None

        return look

    def alerts(self, rule: str, subject: str) -> Look:
        """Look for an alert that fires or is pending."""

        def look() -> str | None:
            for one in self._cluster.rest("/alerts?limit=200")["items"]:
                if (one["rule"], one["subject"]) == (rule, subject) and one["state"] != "resolved":
                    return f"{one['severity']} {one['rule']} {one['subject']} ({one['state']})"
            return None

        return look

    def metrics(self, pattern: str) -> Look:
        """Look for a sample in C{/metrics} of the process that watches the cluster."""
        return lambda: line_of(self._cluster.ops.get("/metrics"), pattern)

    # -- watching --------------------------------------------------------------------------------------------

    def silent(self, looks: Mapping[str, Look]) -> dict[str, str]:
        """Return what faces say of a subject already, by face."""
        found = {face: look() for face, look in looks.items()}
        return {face: sentence for face, sentence in found.items() if sentence is not None}

    def watch(self, looks: Mapping[str, Look], begun: float, limit: float = LIMIT) -> list[Row]:
        """
        Look at all faces again and again until each has said it, or the time is over.

        @param begun: when the fault was made, by the monotonic clock.
        @return: a row for each face, in the order of C{looks}.
        """
        rows: dict[str, Row] = {}
        running: dict[str, tuple[Future[str | None], float]] = {}
        while len(rows) < len(looks) and time.monotonic() - begun < limit:
            for face, look in looks.items():
                if face in rows:
                    continue
                if face in ("CLI", "doctor"):
                    sentence = self._in_thread(running, face, look)
                else:
                    sentence = look()
                if sentence is not None:
                    rows[face] = Row(face, sentence, time.monotonic() - begun)
            threading.Event().wait(_PAUSE)
        return [rows.get(face, Row(face, "", None)) for face in looks]

    def _in_thread(self, running: dict[str, tuple[Future[str | None], float]], face: str, look: Look) -> str | None:
        """Run a command beside the other looks; return what the last one that ended said."""
        if face not in running:
            running[face] = self._pool.submit(look), time.monotonic()
            return None
        future, _ = running[face]
        if not future.done():
            return None
        del running[face]
        return future.result()

    def _open(self, place: str) -> Page:
        if self._page is None:
            context = self._browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
            context.set_default_timeout(60_000)
            self._page = page = context.new_page()
            page.goto(self._cluster.ops.url + "/")
            page.get_by_label("Token").fill(TOKEN)
            page.get_by_role("button", name="Log in", exact=True).click()
            page.get_by_role("heading", name="Overview").wait_for()
        page = self._page
        page.goto(f"{self._cluster.ops.url}/#/{place}")
        page.locator("main").wait_for()
        return page


def table(scenario: str, rows: list[Row]) -> str:
    """Return the table of a scenario as text, a line a face."""
    lines = []
    for row in rows:
        when = "never" if row.seconds is None else f"{row.seconds:.1f} s"
        lines.append(f"{scenario:<34} {row.face:<8} {when:>8}  {row.sentence}")
    return "\n".join(lines)


def encoded(scenario: str, rows: list[Row]) -> str:
    """Return the rows as a line of JSON."""
    return json.dumps({"scenario": scenario, "rows": [row._asdict() for row in rows]})
