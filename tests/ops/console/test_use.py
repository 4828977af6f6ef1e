"""Using the console: login, keyboard shortcuts, theme, language, search, history after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smartgo.env.product import product_version
from tests.ops.console.browser import ConsoleCase, in_browser
from tests.ops.live import TOKEN

if TYPE_CHECKING:
    from playwright.sync_api import Page


class UseTests(ConsoleCase):
    """The console as a whole."""

    @in_browser(login=False, errors=(401,))
    def test_login(self, page: Page) -> None:
        """A wrong token is refused with a reason, a right one is accepted, and logging out ends the session."""
        page.goto(self.live.url + "/")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in", exact=True).click()
        page.get_by_text("the token or code is wrong").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in", exact=True).click()
        page.get_by_role("heading", name="Overview").wait_for()
        cookies = page.context.cookies()
        self.assertEqual([(one["httpOnly"], one["sameSite"]) for one in cookies], [(True, "Strict")])
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").wait_for()

    @in_browser(login=False, errors=(401,))
    def test_login_link(self, page: Page) -> None:
        """The printed link logs in once, and its code is removed from the address."""
        link = self.ops.login_url()
        page.goto(link)
        page.get_by_role("heading", name="Overview").wait_for()
        self.assertNotIn("login=", page.url)
        page.get_by_text("login-link").wait_for()
        self.assertEqual(page.locator("[data-test=version]").inner_text(), f"smartgo {product_version()}")
        page.context.clear_cookies()
        page.goto("about:blank")
        page.goto(link)
        page.get_by_text("The login link did not work.").wait_for()
        page.get_by_label("Token").wait_for()

    @in_browser()
    def test_theme(self, page: Page) -> None:
        """The theme is chosen by a button or a key and kept over a reload, and charts follow it."""
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.locator("[data-test=theme]").click()  # light, whatever the system says
        page.keyboard.press("t")
        self.until(page, f"() => {ground} !== {light!r} && document.documentElement.dataset.theme === 'dark'")
        dark = page.evaluate(ground)
        page.reload()
        page.get_by_role("heading", name="Overview").wait_for()
        self.assertEqual(page.evaluate(ground), dark)
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "dark")

    @in_browser()
    def test_language(self, page: Page) -> None:
        """The language is chosen by a button and kept over a reload."""
        page.locator("[data-test=language]").click()
        page.get_by_role("heading", name="概览").wait_for()
        page.reload()
        page.get_by_role("heading", name="概览").wait_for()
        self.assertEqual(page.evaluate("document.documentElement.lang"), "zh-CN")

    @in_browser(login=False, locale="zh-CN")
    def test_language_of_the_browser(self, page: Page) -> None:
        """A browser that prefers Chinese gets the Chinese texts."""
        page.goto(self.live.url + "/")
        page.get_by_role("heading", name="登录 smartgo").wait_for()

    @in_browser()
    def test_keys(self, page: Page) -> None:
        """Pages, the filter, rows, the search and help can be used with the keyboard."""
        self.do(self.make_topic, "Alpha")
        self.do(self.make_topic, "Beta")
        self.press(page, "gt", page.get_by_role("heading", name="Topics", level=1))
        self.listed(page, 1, 2, 2)
        page.keyboard.press("/")
        page.keyboard.type("b")
        self.listed(page, 1, 1, 1)
        page.locator("tbody tr").first.focus()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Beta").wait_for()
        page.keyboard.press("?")
        page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        page.keyboard.press("Control+k")
        page.keyboard.type("alp")
        page.get_by_role("option", name="Alpha").wait_for()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Alpha").wait_for()

    @in_browser()
    def test_keys_in_lists(self, page: Page) -> None:
        """Arrow keys reach the rows of a list from anywhere and from its filter; Ctrl-K replaces the old text."""
        for name in ("Alpha", "Beta"):
            self.do(self.make_topic, name)
        self.go(page, "topics")
        self.listed(page, 1, 2, 2)
        row = "document.activeElement.closest('tr')?.querySelector('.name')?.textContent"
        page.keyboard.press("ArrowDown")
        self.until(page, f"{row} === 'Alpha'")
        page.keyboard.press("ArrowDown")
        self.until(page, f"{row} === 'Beta'")
        for key in ("Enter", "ArrowDown"):
            page.keyboard.press("/")
            page.keyboard.press(key)
            self.until(page, f"{row} === 'Alpha'")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Alpha", level=1).wait_for()
        for text in ("alp", "bet"):
            page.keyboard.press("Control+k")
            page.keyboard.type(text)
        page.get_by_role("option", name="Beta").wait_for()
        self.assertEqual(page.locator("[data-search]").input_value(), "bet")

    @in_browser()
    def test_nowhere(self, page: Page) -> None:
        """An address that leads nowhere has a title of its own, and the zone of all times is said."""
        self.go(page, "topics")
        page.get_by_role("heading", name="Topics", level=1).wait_for()
        self.go(page, "nowhere")
        page.get_by_text("Page not found").wait_for()
        self.until(page, "document.title === 'Page not found · smartgo'")
        self.assertRegex(page.locator("[data-test=zone]").inner_text(), r"^Times in \w+")

    @in_browser(locale="en-US", timezone_id="America/New_York")
    def test_locale(self, page: Page) -> None:
        """Dates are written as the browser's language and zone have them, as in its own fields for dates."""
        zone = page.locator("[data-test=zone]").inner_text()
        self.assertRegex(zone, r"^Times in America/New_York, E[SD]T$")
        self.do(self.make_topic, "Orders")
        self.do(self.send, "Orders", b"x")
        self.go(page, "topics/Orders")
        self.assertRegex(page.locator("tbody tr a").first.inner_text(), r"^\d\d/\d\d/\d{4}, \d\d:\d\d:\d\d\.\d{3}$")
        month = page.evaluate("new Date().getMonth() + 1")
        self.assertEqual(int(page.locator("tbody tr a").first.inner_text()[:2]), month)

    @in_browser()
    def test_focus(self, page: Page) -> None:
        """The first Tab stop skips the navigation, and the focus is visible."""
        page.reload()
        page.get_by_role("heading", name="Overview").wait_for()
        page.keyboard.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.textContent"), "Skip to content")
        page.keyboard.press("Enter")
        self.until(page, "document.activeElement.id === 'main'")
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        self.assertNotEqual(outline, "none")

    @in_browser()
    def test_names_for_everything(self, page: Page) -> None:
        """Every control has an accessible name."""
        self.do(self.make_topic, "Orders")
        for place in ("overview", "topics", "topics/Orders", "groups", "messages?by=time", "send", "config", "tokens"):
            self.go(page, place)
            page.locator(".card").first.wait_for()
            nameless = page.evaluate(
                """() => [...document.querySelectorAll('button, a[href], input, select, textarea')].filter((one) =>
                    !(one.textContent.trim() || one.ariaLabel || one.title || one.labels?.length
                      || one.getAttribute('aria-label'))).map((one) => one.outerHTML.slice(0, 120))"""
            )
            self.assertEqual(nameless, [], place)

    async def test_history(self) -> None:
        """Charts keep their history over a restart."""
        figures = ("putTps", "getTps", "putBytes", "getBytes", "diskRatio", "logBytes")
        now = self.live.env.clock.wall_ms()
        for minute in range(10, 2, -1):
            self.ops.sampler.history.add("cluster", now - minute * 60_000, figures, [7.0] * len(figures))
        await self.stop()
        await self.start()
        await self.browse(self.look_at_history)

    def look_at_history(self, page: Page) -> None:
        """Check that the points are present."""
        self.until(page, "Number(document.querySelector('.chart').dataset.points) >= 7")
