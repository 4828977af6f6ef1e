"""A real browser before a real node: Chromium without a window, driven by Playwright from a thread of its own, once."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import blockingCallFromThread, deferToThreadPool
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import TestCase

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumeLater, ConsumerSettings
from smartgo.client.messages import Message
from smartgo.client.producer import Producer
from smartgo.schema.bodies import ConsumeFromWhere, TopicConfig
from tests.ops.live import TOKEN, Live

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Playwright

CHROMIUM: Final = "/usr/bin/chromium"
SECONDS: Final = 60
"""For anything to be there that must come."""
MARK: Final = "window.ranScriptOfAMessage = true"
"""What no page may ever run."""

T = TypeVar("T")
C = TypeVar("C", bound="ConsoleCase")


def missing() -> str | None:
    """Say why no browser can be driven here; C{None} where one can."""
    if os.environ.get("SMARTGO_BROWSER") == "0":
        return "switched off by SMARTGO_BROWSER=0"
    if find_spec("playwright") is None:
        return "playwright is not installed"
    return None if os.access(CHROMIUM, os.X_OK) else f"there is no {CHROMIUM}"


def in_browser(**options: Any) -> Callable[[Callable[[C, Page], None]], Callable[[C], Deferred[None]]]:
    """
    Make a test of a function that is given a page of the console, logged in.

    @param options: of the browser's context; C{login} false leaves the login to the test, C{errors} says the statuses
        of answers that the test asks for, as browsers tell of them as errors.
    """

    def mark(body: Callable[[C, Page], None]) -> Callable[[C], Deferred[None]]:
        @functools.wraps(body)
        def test(self: C) -> Deferred[None]:
            return self.browse(functools.partial(body, self), **options)

        return test

    return mark


class BrowserThread:
    """
    The browser of this process and its thread: started for the first test that needs it, ended with the reactor.

    A test has a context of its own in it, which shares neither cookies nor storage nor caches with others. A browser
    that ended is started anew for the next test.
    """

    def __init__(self) -> None:
        from twisted.internet import reactor

        self._reactor: Any = reactor
        self._threads = ThreadPool(1, 1, "browser")
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._threads.start()
        self._reactor.addSystemEventTrigger("during", "shutdown", self._stop)

    def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> Deferred[T]:
        """Run something in the thread, where alone the browser may be used."""
        ran: Deferred[T] = deferToThreadPool(self._reactor, self._threads, function, *arguments, **named)
        return ran

    def browser(self) -> Browser:
        """Return the browser, in its thread."""
        from playwright.sync_api import sync_playwright

        if self._playwright is None:
            self._playwright = sync_playwright().start()
        if self._browser is None or not self._browser.is_connected():
            self._browser = self._playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox"], timeout=3 * SECONDS * 1000
            )
        return self._browser

    def _stop(self) -> None:
        self._threads.callInThread(self._close)
        self._threads.stop()  # which waits for what the thread has still to do

    def _close(self) -> None:
        if self._browser is not None:
            self._browser.close()
        if self._playwright is not None:
            self._playwright.stop()


browser_thread: Final = functools.cache(BrowserThread)
"""Returns the one of this process."""


def _deferred(result: Any) -> Any:
    return result if isinstance(result, Deferred) else Deferred.fromCoroutine(result)


class ConsoleCase(TestCase):
    """
    A node with something in it, and a browser.

    @ivar live: the node.
    @cvar settings: of the node, besides the usual ones.
    """

    settings: ClassVar[Mapping[str, str]] = {}
    timeout = 600
    skip = missing()

    def setUp(self) -> Deferred[None]:  # type: ignore[override]
        """Start the node."""
        return Deferred.fromCoroutine(self.prepare())

    async def prepare(self) -> None:
        """Start the node."""
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.folder = os.path.abspath(self.mktemp())
        os.makedirs(self.folder)
        await self.start()

    async def start(self) -> None:
        """Start a node on what is in the folder, and a client of it."""
        self.live = Live(self.folder, **self.settings)
        await self.live.start()
        self.client = Client(self.live.env, f"127.0.0.1:{self.live.registry_port}", "test")
        self.producer = Producer(self.client, "producers")
        await self.producer.start()

    async def stop(self) -> None:
        """Stop them."""
        await self.client.stop()
        await self.live.stop()

    def tearDown(self) -> Deferred[None]:  # type: ignore[override]
        """Stop everything."""
        return Deferred.fromCoroutine(self.stop())

    # -- in the thread -----------------------------------------------------------------------------------------------

    def do(self, function: Callable[..., Coroutine[Any, Any, T] | Deferred[T]], *arguments: Any) -> T:
        """Run something on the reactor from the browser's thread, and return what it gives."""
        asked: Any = blockingCallFromThread
        result: T = asked(self.reactor, lambda: _deferred(function(*arguments)))
        return result

    def browse(self, body: Callable[[Page], None], **options: Any) -> Deferred[None]:
        """Run something with a page."""
        return browser_thread().run(self._browse, body, **options)

    def _browse(
        self, body: Callable[[Page], None], login: bool = True, errors: Iterable[int] = (), **options: Any
    ) -> None:
        wrong: list[str] = []
        settings = {"viewport": {"width": 1440, "height": 900}, "locale": "en-GB", **options}
        context = browser_thread().browser().new_context(**settings)
        try:
            context.set_default_timeout(SECONDS * 1000)
            page = context.new_page()
            self.watch(page, wrong, {str(one) for one in errors})
            if login:
                self.log_in(page)
            body(page)
            self.assertIsNone(page.evaluate("window.ranScriptOfAMessage ?? null"))
        finally:
            context.close()
        self.assertEqual(wrong, [])

    def watch(self, page: Page, wrong: list[str], allowed: set[str]) -> None:
        """Note every error in a page, and every request to somebody else."""

        def said(message: Any) -> None:
            status = re.search(r"status of (\d+)", message.text)
            if message.type in ("error", "warning") and not (status and status[1] in allowed):
                wrong.append(f"{message.type}: {message.text} ({message.location['url']})")

        def asked(request: Any) -> None:
            if not request.url.startswith((self.live.url + "/", "blob:", "data:")):
                wrong.append(f"asked {request.url}")

        page.on("console", said)
        page.on("pageerror", lambda error: wrong.append(f"raised {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        page.on("request", asked)

    def log_in(self, page: Page) -> None:
        """Log in as a person does."""
        page.goto(self.live.url + "/")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in", exact=True).click()
        page.get_by_role("heading", name="Overview").wait_for()

    def go(self, page: Page, place: str) -> None:
        """Go to a place in the console."""
        page.goto(f"{self.live.url}/#/{place}")

    def until(self, page: Page, condition: str, argument: Any = None) -> None:
        """
        Wait until JavaScript finds something to hold.

        The page's policy forbids the evaluation of text, by which Playwright would wait.
        """
        for _ in range(SECONDS * 10):
            if page.evaluate(condition, argument):
                return
            page.wait_for_timeout(100)
        self.fail(f"not within {SECONDS} s: {condition}")

    def press(self, page: Page, keys: str, shown: Locator) -> None:
        """Press two keys, one after the other, until something is shown: a busy machine may be too late for a pair."""
        for _ in range(5):
            for key in keys:
                page.keyboard.press(key)
            page.wait_for_timeout(500)
            if shown.is_visible():
                break
        shown.wait_for()

    def listed(self, page: Page, first: int, last: int, total: int) -> None:
        """Wait for a list to say which rows it shows."""
        page.get_by_text(f"{first}\N{EN DASH}{last} of {total}", exact=True).wait_for()

    # -- on the reactor ----------------------------------------------------------------------------------------------

    async def make_topic(self, name: str, queues: int = 4) -> None:
        """Make a topic."""
        config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6)
        await self.ops.admin.topics.update(config, None)
        self.ops.view.forget()

    @property
    def ops(self) -> Any:
        """The API."""
        return self.live.node.ops

    async def send(self, topic: str, *bodies: bytes, **more: Any) -> list[Any]:
        """Send messages; return what became of them."""
        return [await self.producer.send(Message(topic=topic, body=body, **more)) for body in bodies]

    async def consume(self, group: str, topic: str, count: int, dead: bool = False) -> list[bytes]:
        """
        Consume so many messages, and leave; return their bodies.

        @param dead: they are put aside at once.
        """
        got: list[bytes] = []
        done: Deferred[None] = Deferred()

        async def listener(messages: Any) -> None:
            got.extend(one.body for one in messages)
            if len(got) >= count and not done.called:
                done.callback(None)
            if dead:
                raise ConsumeLater(-1)

        client = Client(self.live.env, f"127.0.0.1:{self.live.registry_port}", f"{group}-member")
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, stop_timeout=SECONDS)
        consumer = PushConsumer(client, group, listener, settings)
        consumer.subscribe(topic, "*")
        await consumer.start()
        try:
            await done.addTimeout(SECONDS, self.reactor)
        finally:
            await client.stop()  # which waits for what is put aside to be there
        self.ops.view.forget()
        return got

    async def join(self, group: str, topic: str, got: list[bytes]) -> Client:
        """Let a member consume until the client that is returned is stopped."""

        async def listener(messages: Any) -> None:
            got.extend(one.body for one in messages)

        client = Client(self.live.env, f"127.0.0.1:{self.live.registry_port}", f"{group}-member")
        consumer = PushConsumer(client, group, listener, ConsumerSettings())
        consumer.subscribe(topic, "*")
        await consumer.start()
        return client
