"""
Contexts: named connection settings of clusters, kept in a file of the user.

The file is TOML, C{smartgo/contexts.toml} below C{XDG_CONFIG_HOME} (C{~/.config})::

    current = "prod"

    [contexts.prod]
    registry = "10.0.0.1:9876;10.0.0.2:9876"
    tls = true
    ca = "/etc/smartgo/ca.pem"
"""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from typing import Final

import msgspec

from smartgo.auth.keyfile import load_key_file
from smartgo.client.client import Client
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.net.tls import ClientTLS

DEFAULT_REGISTRY: Final = "127.0.0.1:9876"
KEY_FILE_VARIABLE: Final = "SMARTGO_ACCESS_KEY_FILE"
FILE_VARIABLE: Final = "SMARTGO_CONTEXTS"
CONTEXT_VARIABLE: Final = "SMARTGO_CONTEXT"
REGISTRY_VARIABLE: Final = "NAMESRV_ADDR"

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ClusterContext(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """
    The connection settings of one cluster.

    @ivar registry: C{host:port} of each registry, separated by semicolons.
    @ivar tls: use TLS; C{ca}, C{cert}, C{key}: paths of PEM files; C{server_name}: the host name expected in
        certificates.
    @ivar access_key_file: the file with the key that requests are signed with (L{smartgo.auth.keyfile}).
    """

    registry: str = DEFAULT_REGISTRY
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None
    access_key_file: str | None = None

    def client(self, env: IEnvironment) -> Client:
        """
        Make a client; with TLS if C{tls}, a file or C{server_name} is set. Its requests are signed if
        C{access_key_file} or C{SMARTGO_ACCESS_KEY_FILE} of the environment names a file.

        @raise SettingError: an address or a file cannot be used.
        """
        tls = None
        if self.tls or self.ca or self.cert or self.key or self.server_name:
            tls = ClientTLS(env, self.ca, self.cert, self.key, name=self.server_name)
        path = self.access_key_file or env.host.variable(KEY_FILE_VARIABLE)
        return Client(env, self.registry, tls=tls, access_key=load_key_file(env.files, path) if path else None)


class ContextFile(msgspec.Struct, forbid_unknown_fields=True):
    """
    All contexts of a user.

    @ivar current: the context that is used if none is named.
    """

    current: str | None = None
    contexts: dict[str, ClusterContext] = {}

    def get(self, name: str) -> ClusterContext:
        """Return a context by name. @raise SettingError: it does not exist."""
        found = self.contexts.get(name)
        if found is None:
            known = ", ".join(sorted(self.contexts)) or "none yet; create one with: smartgo context set NAME"
            raise SettingError(f"there is no context {name}; known contexts: {known}")
        return found


def check_context_name(name: str) -> None:
    """Check a context name. @raise SettingError: it is empty, too long, or has characters not in C{A-Za-z0-9._-}."""
    if not _NAME.fullmatch(name):
        raise SettingError(f"context {name!r}: a name has 1 to 64 letters, digits and . _ -")


def contexts_path(env: IEnvironment) -> str:
    """Return the path of the context file."""
    named: str | None = env.host.variable(FILE_VARIABLE)
    if named:
        return named
    root = env.host.variable("XDG_CONFIG_HOME") or posixpath.join(env.host.home(), ".config")
    return posixpath.join(root, "smartgo", "contexts.toml")


def load_contexts(env: IEnvironment) -> ContextFile:
    """Read the context file; a missing file has no contexts. @raise SettingError: it cannot be read."""
    path = contexts_path(env)
    try:
        data: bytes = env.files.read(path)
    except FileNotFoundError:
        return ContextFile()
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror or error}") from None
    try:
        return msgspec.convert(tomllib.loads(data.decode()), ContextFile)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SettingError(f"{path}: {error}") from None


def save_contexts(env: IEnvironment, contexts: ContextFile) -> None:
    """Write the context file. @raise SettingError: it cannot be written."""
    path = contexts_path(env)
    lines = []
    if contexts.current is not None:
        lines.append(f"current = {_toml(contexts.current)}")
    for name, context in sorted(contexts.contexts.items()):
        lines += ["", f"[contexts.{_toml(name)}]"]
        members = {"registry": context.registry, **msgspec.to_builtins(context)}
        lines += [f"{key} = {_toml(value)}" for key, value in members.items()]
    try:
        env.files.make_directories(posixpath.dirname(path) or ".")
        env.files.replace(path, ("\n".join(lines).lstrip("\n") + "\n").encode(), backup=False)
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror or error}") from None


def _toml(value: str | bool) -> str:
    """Return a TOML value: a JSON string is a TOML string, except that TOML needs DEL escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def choose(env: IEnvironment, registry: str | None, name: str | None) -> ClusterContext:
    """
    Return the connection settings from C{--registry}, C{--context}, the environment or the context file, in that order.

    @param registry: the value of C{--registry}; it replaces the addresses of a context that is also named.
    @param name: the value of C{--context}.
    @raise SettingError: the context does not exist, or the file cannot be read.
    """
    name = name or env.host.variable(CONTEXT_VARIABLE)
    if name:
        found = load_contexts(env).get(name)
        return msgspec.structs.replace(found, registry=registry) if registry else found
    registry = registry or env.host.variable(REGISTRY_VARIABLE)
    if registry:
        return ClusterContext(registry)
    contexts = load_contexts(env)
    return ClusterContext() if contexts.current is None else contexts.get(contexts.current)
