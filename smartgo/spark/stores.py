"""
The files of the stores that are read: which there are, by their names alone.

A path is the root of a store, or a directory of CommitLog files by itself. Nothing is locked and nothing is written, so
a store may be read while its broker runs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from smartgo.errors import BadBody, SettingError
from smartgo.schema import index, regions
from smartgo.schema.regions import Region
from smartgo.spark import files
from smartgo.spark.nearest import nearest

_NAME: Final = re.compile("[0-9]{20}")
_NUMBER: Final = re.compile("[0-9]{1,10}")
_PATTERN: Final = re.compile(r"[*?\[]")
_REGIONS_LIMIT: Final = 64 << 20
_LOOKS: Final = 20

_T = TypeVar("_T")


class NamedFile(NamedTuple):
    """
    A file named by the offset of its first byte: of a log or of a queue.

    @ivar base: that offset, in bytes.
    @ivar size: its length, in bytes.
    """

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        """Offset after its last byte."""
        return self.base + self.size


@dataclass(frozen=True)
class Store:
    """
    One store.

    @ivar root: its directory, absolute.
    @ivar log: the directory of its CommitLog.
    """

    root: str
    log: str

    def log_files(self) -> list[NamedFile]:
        """Return the files of the CommitLog, oldest first."""
        return named_files(self.log)

    def queues(self) -> Iterator[tuple[str, int, str]]:
        """Go through the ConsumeQueues, see L{queues_below}."""
        return queues_below(self.root)

    def index_files(self) -> list[str]:
        """Return the paths of the index files, oldest first."""
        above = posixpath.join(self.root, "index")
        return [posixpath.join(above, name) for name in files.names(above) if index.is_file_name(name)]

    def regions(self) -> list[Region]:
        """
        Return the damaged regions that the store knows of.

        @raise SettingError: its list of them cannot be read.
        """
        path = posixpath.join(self.root, regions.PATH)
        raw = files.read_whole(path, _REGIONS_LIMIT)
        try:
            return [] if raw is None else regions.decode(raw)
        except BadBody as error:
            raise SettingError(f"{self.root}: {error}") from None


def queues_below(root: str) -> Iterator[tuple[str, int, str]]:
    """Go through the ConsumeQueues of a store, as (topic, queue id, directory)."""
    above = posixpath.join(root, "consumequeue")
    for topic in files.names(above):
        for number in files.names(posixpath.join(above, topic)):
            if _NUMBER.fullmatch(number):
                yield topic, int(number), posixpath.join(above, topic, number)


def named_files(directory: str) -> list[NamedFile]:
    """
    Return the files of a log or a queue, oldest first; what has another name is left out.

    Empty files at the end are left out too: a broker has just made them. An empty one before others lost its bytes.

    @raise FileNotFoundError: files were removed again and again while they were listed.
    """
    found = looked_again(lambda: _listed(directory))
    while found and not found[-1].size:
        found.pop()
    return found


def looked_again(look: Callable[[], _T]) -> _T:
    """
    Return what a look at files finds; where retention removed one of them meanwhile, look again.

    @raise FileNotFoundError: that happened again and again.
    """
    for _ in range(_LOOKS - 1):
        with suppress(FileNotFoundError):
            return look()
    return look()


def _listed(directory: str) -> list[NamedFile]:
    found = []
    for name in files.names(directory):
        path = posixpath.join(directory, name)
        if _NAME.fullmatch(name) and not files.is_directory(path):
            found.append(NamedFile(path, int(name), files.size(path)))
    return found


def find_stores(paths: Iterable[str]) -> list[Store]:
    """
    Return the stores at some paths, each once.

    @param paths: directories, or shell patterns that match some.
    @raise SettingError: there is no store at one of them.
    """
    found: dict[str, Store] = {}
    for path in paths:
        if _PATTERN.search(path) and not files.is_directory(path):
            stores = [store for one in files.matching(path) if (store := _store_at(one)) is not None]
            if not stores:
                raise SettingError(f"path {path} matches no directory with a commitlog in it")
        else:
            if not files.is_directory(path):
                raise SettingError(f"path {path} is not a directory")
            one = _store_at(path)
            if one is None:
                raise SettingError(f"path {path} is not a store: there is no directory commitlog in it")
            stores = [one]
        for store in stores:
            found[store.root] = store
    return list(found.values())


def check_named(stores: Iterable[Store], named: Iterable[str], option: str) -> None:
    """
    Refuse directories that an option names and that are none of the stores that are read.

    @raise SettingError: it names the first.
    """
    roots = {store.root for store in stores}
    for path in named:
        if path not in roots:
            raise SettingError(f"option {option}: {path} is not one of the stores that are read{nearest(path, roots)}")


def check_topics(stores: Iterable[Store], named: Iterable[str], subscribed: frozenset[str] | None, option: str) -> None:
    """
    Refuse topics to whose queues an option gives offsets, and that are neither subscribed to by name nor in any store.

    @param subscribed: topics that are subscribed to by name, C{None} for none.
    @raise SettingError: it names the first.
    """
    wanted = [topic for topic in named if subscribed is None or topic not in subscribed]
    if not wanted:
        return
    known = {topic for store in stores for topic, _, _ in store.queues()}
    for topic in wanted:
        if known and topic not in known:
            raise SettingError(
                f"option {option}: topic {topic} is not subscribed to, and no store has it{nearest(topic, known)}"
            )


def _store_at(path: str) -> Store | None:
    root = posixpath.abspath(path)
    log = posixpath.join(root, "commitlog")
    if files.is_directory(log):
        return Store(root, log)
    return Store(root, root) if named_files(root) else None
