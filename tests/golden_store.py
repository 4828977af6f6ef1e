"""
The stores of C{tests/golden/store} for tests: in memory, or unpacked into a directory.

Nothing here is checked for safety: the archives are our own.
"""

from __future__ import annotations

import json
import lzma
import os
import tarfile
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

DIRECTORY = os.path.join(os.path.dirname(__file__), "golden", "store")
NAMES = ("store-a", "store-a-crash")
LOG_SIZE = 1048576
"""Bytes of a CommitLog file of these stores."""
QUEUE_SIZE = 2000
"""Bytes of a ConsumeQueue file."""
INDEX_SLOTS, INDEX_ENTRIES = 100, 400


class GoldenStore(NamedTuple):
    """
    One store.

    @ivar files: content by path below the store root, such as C{commitlog/00000000000000000000}.
    @ivar manifest: what the official decoder found in it, see the README.
    """

    files: dict[str, bytes]
    manifest: dict[str, Any]

    def logs(self) -> list[tuple[int, bytes]]:
        """The CommitLog files as (offset of the first byte, content), oldest first."""
        return [(int(name), data) for name, data in self.below("commitlog")]

    def queues(self) -> Iterator[tuple[str, int, int, bytes]]:
        """The ConsumeQueue files as (topic, queue id, offset of the first byte, content)."""
        for name, data in self.below("consumequeue"):
            topic, queue_id, offset = name.split("/")
            yield topic, int(queue_id), int(offset), data

    def below(self, directory: str) -> list[tuple[str, bytes]]:
        """The files of a directory as (path below it, content), sorted."""
        prefix = directory + "/"
        return sorted((path[len(prefix) :], data) for path, data in self.files.items() if path.startswith(prefix))


@lru_cache(maxsize=2)
def read(name: str) -> GoldenStore:
    """Read a store into memory. It is shared between tests: do not change it."""
    files = {}
    with tarfile.open(os.path.join(DIRECTORY, f"{name}.tar.xz")) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                files[member.name.partition("/")[2]] = content.read()
    with lzma.open(os.path.join(DIRECTORY, f"{name}.json.xz")) as manifest:
        return GoldenStore(files, json.load(manifest))


def unpack(name: str, directory: str) -> dict[str, Any]:
    """
    Write a store's files below C{directory}, which becomes the store root.

    @return: the manifest.
    """
    store = read(name)
    for path, data in store.files.items():
        target = os.path.join(directory, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
    return store.manifest


def properties() -> list[dict[str, Any]]:
    """Return the property strings of the broker's classes: C{sent}, C{stored}, C{tag_code}, C{wait}."""
    with open(os.path.join(DIRECTORY, "properties.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]
