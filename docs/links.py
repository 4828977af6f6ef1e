"""
The link check of the built documentation: C{python docs/links.py FOLDER ...}, a folder for each site.

Each link of each page is read, with its anchor. A link into the site must lead to a file of the site, and its anchor to
an element of that page. A link to another host must be well-formed; nothing is fetched, as the check needs no network.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from twisted.internet.abstract import isIPv6Address

_NAME: Final = re.compile(r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_URL: Final = re.compile(r"[\w.~:/?#@!$&'()*+,;=%\[\]-]+", re.ASCII)
_OTHERS: Final = ("mailto:", "data:", "javascript:")
_LINKS: Final = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src", "object": "data"}
"""The attribute of each element that may lead to a file."""


class Page(NamedTuple):
    """The links and the anchors of one page."""

    links: list[str]
    anchors: set[str]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page([], set())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element's anchor and its link."""
        found = {name: value or "" for name, value in attrs}
        self.page.anchors.update(value for name, value in found.items() if name in ("id", "name") and value)
        link = found.get(_LINKS.get(tag, ""))
        if link is not None and "preconnect" not in found.get("rel", ""):
            self.page.links.append(link)


def read_page(text: str) -> Page:
    """Return the links and the anchors of a page in HTML."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.page


def malformed(url: str) -> str:
    """Return why no browser could follow a link to another host; empty if it is well-formed."""
    if not _URL.fullmatch(url):
        return "has characters that no URL may have"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https"):
        return f"has the scheme {parts.scheme or 'of the page'}, neither http nor https"
    if not (isIPv6Address(host) if ":" in host else _NAME.fullmatch(host)):
        return f"has no valid host: {host!r}"
    return "ends with a mark of the sentence" if url[-1] in ".,;:!" else ""


def broken(pages: Mapping[str, Page], files: set[str]) -> Iterator[str]:
    """
    Yield a sentence for each broken link.

    @param pages: the pages by their paths from the root of the site.
    @param files: the paths of all files of the site, the pages included.
    """
    for path, page in sorted(pages.items()):
        for link in dict.fromkeys(page.links):
            if link.startswith(_OTHERS):
                continue
            if re.match(r"[a-zA-Z][\w+.-]*:|//", link):
                if why := malformed(link):
                    yield f"{path}: {link} {why}"
                continue
            target, _, anchor = link.partition("#")
            name = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(target.partition("?")[0])))
            name = name if target else path
            if name not in files:
                yield f"{path}: {link} leads to no file"
            elif anchor and name in pages and unquote(anchor) not in pages[name].anchors:
                yield f"{path}: {link} leads to no element of {name}"


def check(folder: Path) -> tuple[int, list[str]]:
    """Return the number of links of a site, and a sentence for each broken one."""
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    pages = {name: read_page((folder / name).read_text("utf-8")) for name in files if name.endswith(".html")}
    return sum(len(page.links) for page in pages.values()), list(broken(pages, files))


def main(folders: list[str]) -> int:
    """Check the sites in some folders, print what is broken, and return the exit status."""
    status = 0
    for folder in folders:
        count, wrong = check(Path(folder))
        print(*wrong, f"{folder}: {count} links, {len(wrong)} broken", sep="\n")
        if wrong or not count:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
