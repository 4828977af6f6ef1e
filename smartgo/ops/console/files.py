"""
The console's files by the paths at which they are served.

C{/} is C{static/index.html}; all other files of C{static} and C{vendor} are below C{/assets/VERSION/}, where VERSION
is a digest of all their bytes. So browsers may cache them for good: another version has other paths. The files are read
once, at start, and the modules and the style sheets are joined, so that a page needs few requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from smartgo.ops.console.joined import joined
from smartgo.ops.web.routes import Raw

TYPES: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "md": "text/plain; charset=utf-8",
}

_FOLDERS: Final = ("static", "vendor")
_SCRIPT: Final = "static/app/console.js"
_STYLE: Final = "static/css/console.css"
_FIRST: Final = "static/app/main.js"
_ALONE: Final = ("static/early.js", "vendor/uPlot.mjs")
"""Files that are not joined: the script that runs before the module, and a library that few pages need."""
_SHEETS: Final = ("vendor/uPlot.css", *(f"static/css/{name}.css" for name in ("base", "shell", "parts", "pages")))

_FOR_GOOD: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_ASK: Final = {"Cache-Control": "no-cache"}


def console_pages() -> dict[str, Raw]:
    """Return the console's files by path, and the icon of the API's own page. Blocking."""
    root = files("smartgo.ops") / "console"
    found: dict[str, tuple[bytes, str]] = {}
    for folder in _FOLDERS:
        found.update(collected(root / folder, folder))
    modules = {
        path: found.pop(path)[0].decode()
        for path in sorted(found)
        if path.endswith(("js", "mjs")) and path not in _ALONE
    }
    found[_SCRIPT] = joined(modules, _FIRST, _SCRIPT).encode(), TYPES["js"]
    found[_STYLE] = b"\n".join(found.pop(path)[0] for path in _SHEETS), TYPES["css"]
    digest = hashlib.sha256()
    for path, (content, _) in sorted(found.items()):
        digest.update(b"%s\0%d\0%s" % (path.encode(), len(content), content))
    base = f"/assets/{digest.hexdigest()[:16]}"
    index, kind = found.pop("static/index.html")
    page = index.replace(b"{{base}}", base.encode())
    pages = {f"{base}/{path}": Raw(content, kind, _FOR_GOOD) for path, (content, kind) in found.items()}
    icon = Raw((root / "static" / "icon.svg").read_bytes(), TYPES["svg"], _ASK)
    return {"/": Raw(page, kind, _ASK), "/docs/icon.svg": icon, **pages}


def collected(folder: Traversable, path: str) -> Iterator[tuple[str, tuple[bytes, str]]]:
    """Yield the files below a folder: path, content and type of each. Blocking."""
    for one in folder.iterdir():
        below = f"{path}/{one.name}"
        if one.is_dir():
            yield from collected(one, below)
            continue
        kind = TYPES.get(one.name.rpartition(".")[2])
        if kind is not None:
            yield below, (one.read_bytes(), kind)
