"""
The file with the key that a program signs its own requests with.

The form is that of C{conf/tools.yml}, from which RocketMQ's C{mqadmin} takes its key: C{accessKey}, C{secretKey} and,
where a service wants one, C{securityToken}.
"""

from __future__ import annotations

from typing import Final

from smartgo.auth.yamltext import NotYaml, load_yaml
from smartgo.env.interfaces import IFiles
from smartgo.errors import SettingError
from smartgo.schema.signature import AccessKey

LARGEST: Final = 64 * 1024
"""Bytes of a key file."""


def read_key_file(text: str) -> AccessKey:
    """
    Return the key that a file holds.

    @raise SettingError: it holds none; the message never shows what the file holds.
    """
    try:
        content = load_yaml(text)
    except NotYaml:
        raise SettingError("it is no YAML") from None
    if not isinstance(content, dict):
        raise SettingError("it has no accessKey and secretKey")
    values = []
    for name in ("accessKey", "secretKey", "securityToken"):
        value = content.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is not None and (not isinstance(value, str) or not value):
            raise SettingError(f"its {name} is no text for YAML, put it in quotes")
        values.append(value)
    access_key, secret_key, token = values
    if access_key is None or secret_key is None:
        raise SettingError(f"it has no {'accessKey' if access_key is None else 'secretKey'}")
    return AccessKey(access_key, secret_key, token)


def load_key_file(files: IFiles, path: str) -> AccessKey:
    """
    Read the key that a program signs its requests with; blocking.

    @raise SettingError: there is no such file, or it holds no key.
    """
    try:
        return read_key_file(files.read(path, LARGEST).decode())
    except OSError as error:
        raise SettingError(f"key file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SettingError(f"key file {path}: it is no UTF-8") from None
    except SettingError as error:
        raise SettingError(f"key file {path}: {error}") from None
