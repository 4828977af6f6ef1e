"""
The token that C{smartgo dev} leaves for the commands of the same person: a file in its data directory, mode 0600.

The token is valid while that process runs. Its file has the port of the REST API in its name, so that a command finds
the token of the process that it asks.
"""

from __future__ import annotations

import os.path
import shlex
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from smartgo.config.settings import OPS_PORT
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.schema.address import is_loopback_host

if TYPE_CHECKING:
    from smartgo.ops.service import Ops

DATA: Final = "./smartgo-data"
"""The data directory of C{smartgo dev} if none is given; commands look for a token there."""


def token_path(directory: str, port: int) -> str:
    """Return the path of the token for the REST API at a port, in a data directory."""
    return os.path.join(directory, f"cli-{port}.token")


def find_token(env: IEnvironment, url: str) -> tuple[str, str] | None:
    """
    Return the token for a REST API on this machine and the file that it is from; C{None} if there is none.

    @param url: of the REST API. The token is sent to this machine only.
    """
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        return None
    if port is None or not is_loopback_host(parts.hostname or ""):
        return None
    path = token_path(DATA, port)
    try:
        data: bytes = env.files.read(path)
    except OSError:
        return None
    return data.decode("latin-1").strip(), path


class LocalToken:
    """The token of one process, from the start of its REST API to its end."""

    def __init__(self, env: IEnvironment, directory: str, ops: Ops) -> None:
        """
        Make the token and write its file. A file that a killed process left is replaced.

        @param directory: the data directory; it exists.
        @param ops: the REST API, which listens.
        @raise SettingError: the file cannot be written.
        """
        self._files = env.files
        self._url = ops.url.rstrip("/")
        self._port = urlsplit(ops.url).port or 0
        self._directory = directory
        self.path = token_path(directory, self._port)
        try:
            self.remove()
            env.files.create(self.path, f"{ops.tokens.make_local(self.path)}\n".encode(), sync=False)
        except OSError as error:
            raise SettingError(f"{self.path}: {error.strerror or error}") from None

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self._files.exists(self.path):
            self._files.remove(self.path)

    def variables(self) -> list[str]:
        """Return the variables by which commands in a shell find the REST API and the token, as far as needed."""
        found = [] if self._port == OPS_PORT else [f"SMARTGO_API={self._url}"]
        if self._directory != os.path.abspath(DATA):
            found.append(f'SMARTGO_TOKEN="$(cat {shlex.quote(self.path)})"')
        return found

    def command(self) -> str:
        """Return the command that prints another login link, for a person in the present directory."""
        words = ["smartgo console"]
        if self._port != OPS_PORT:
            words.append(f"--api {self._url}")
        if self._directory != os.path.abspath(DATA):
            words.append(f"--token-file {shlex.quote(self.path)}")
        return " ".join(words)
