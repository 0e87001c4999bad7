"""Files whose pages lie in a process's memory: a fork shares the pages with its source, so they are mapped again from the copy's files."""

from __future__ import annotations

import os
import re
import stat
import sys
from typing import TYPE_CHECKING

from sandpool.env.descriptors import find_inode
from sandpool.env.folders import without_mark
from sandpool.env.native import MAP_PRIVATE, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE, native_calls
from sandpool.env.reopening import make_unnamed, open_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandpool.env.descriptors import OpenFile
    from sandpool.env.folders import Folders

_LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ([r-])([w-])([x-])([sp]) ([0-9a-f]+) \S+ (\d+) *(.*)$", re.MULTILINE)
CHUNK_BYTES = 1 << 20


class Mapping:
    """Consecutive pages of a file in one of the three folders."""

    def __init__(self, parts: tuple[str, ...]) -> None:
        first, last, readable, writable, executable, kind, offset, inode, name = parts
        self.start, self.length = int(first, 16), int(last, 16) - int(first, 16)
        self.protection = (readable == "r") * PROT_READ | (writable == "w") * PROT_WRITE | (executable == "x") * PROT_EXEC
        self.shared = kind == "s"
        self.offset, self.inode, self.name = int(offset, 16), int(inode), name
        self.path: str | None = None  # one that leads to the file
        self.file: OpenFile | None = None  # else a descriptor that does; else only its pages are known


def survey_mappings(folders: Folders, files: list[OpenFile]) -> tuple[list[Mapping], list[str]]:
    """The mappings that a copy maps again, and the names of shared memory that it could not have of its own."""
    mappings, foreign = [], []
    with open("/proc/self/maps", "rb") as file:
        text = file.read()
    # Most of the hundreds of lines are neither shared nor ours, and not worth the time and memory of their parts.
    wanted = _lines_with(text, [b"-s ", b"xs ", *(b" " + os.fsencode(top) for top in folders.tops)])
    for parts in _LINE.findall(os.fsdecode(b"".join(wanted))):
        name = parts[-1].replace("\\012", "\n")
        if folders.holds(name):
            mapping = Mapping((*parts[:-1], name))
            _locate(mapping, folders, files)
            mappings.append(mapping)
        elif parts[5] == "s" and not _may_be_shared(name, writable=parts[3] == "w"):
            foreign.append(name)
    return mappings, sorted(set(foreign))


def _lines_with(text: bytes, needles: list[bytes]) -> list[bytes]:
    """The lines in which any of these stands, in their order."""
    starts = set()
    for needle in needles:
        place = text.find(needle)
        while place >= 0:
            starts.add(text.rfind(b"\n", 0, place) + 1)
            place = text.find(needle, text.index(b"\n", place))
    return [text[start : text.index(b"\n", start) + 1] for start in sorted(starts)]


def _locate(mapping: Mapping, folders: Folders, files: list[OpenFile]) -> None:
    path = without_mark(mapping.name)
    for candidate in (mapping.name, path):
        if os.path.lexists(candidate) and os.lstat(candidate).st_ino == mapping.inode:
            mapping.path = candidate
            return
    for file in files:
        if file.status.st_ino == mapping.inode and without_mark(file.link) == path:
            mapping.path, mapping.file = file.path, file
            return
    device = os.lstat(next(top for top in folders.tops if path == top or path.startswith(top + "/"))).st_dev
    mapping.path = find_inode(device, mapping.inode, folders)


def _may_be_shared(name: str, writable: bool) -> bool:
    """Files that nothing writes to, and those of the environment's own folder, which belong to all rows anyway."""
    if not name.startswith("/"):
        return False
    if any(name.startswith(folder + "/") for folder in _own_folders()):
        return True
    try:
        return not writable and stat.S_ISREG(os.stat(name).st_mode)
    except OSError:
        return False


def _own_folders() -> set[str]:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    programs = [main] if main else []
    return {os.path.dirname(os.path.realpath(path)) for path in programs}


class Remapping:
    """In the copy: puts its own files' pages where the source's are mapped."""

    def __init__(self, mappings: list[Mapping], source: Folders, copy: Folders) -> None:
        self.mappings = mappings
        self.source = source
        self.copy = copy
        self.unnamed: dict[int, int] = {}  # descriptors of files made from pages alone, by the source's inode

    def run(self) -> None:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            self.memory = memory.fileno()
            for mapping in self.mappings:
                backing, is_ours = self.backing_of(mapping)
                try:
                    self.map(mapping, backing)
                finally:
                    if is_ours:
                        os.close(backing)
        for descriptor in self.unnamed.values():
            os.close(descriptor)

    def backing_of(self, mapping: Mapping) -> tuple[int, bool]:
        """A descriptor of the copy's file, and whether it is to be closed again."""
        if mapping.path is not None:
            path = self.source.moved(mapping.path, self.copy)
            try:
                return os.open(path, os.O_RDWR | os.O_CLOEXEC), True
            except PermissionError:
                writes = mapping.shared and mapping.protection & PROT_WRITE
                return open_again(path, os.O_RDWR if writes else os.O_RDONLY), True
        if mapping.file is not None:
            return mapping.file.copied, False
        if mapping.inode not in self.unnamed:
            made = self.unnamed[mapping.inode] = make_unnamed(self.copy.place_for(self.source.moved(without_mark(mapping.name), self.copy)))
            for one in self.mappings:
                if one.inode == mapping.inode and one.name == mapping.name:
                    for offset, page in self.pages_of(one):
                        os.pwrite(made, page, one.offset + offset)
        return self.unnamed[mapping.inode], False

    def pages_of(self, mapping: Mapping) -> Iterator[tuple[int, bytes]]:
        """The bytes of a mapping, as far as the file reached."""
        offset = 0
        while offset < mapping.length:
            try:
                data = os.pread(self.memory, min(CHUNK_BYTES, mapping.length - offset), mapping.start + offset)
            except OSError:  # past the end of the file, where a read from memory would be a bus error
                return
            if not data:
                return
            yield offset, data
            offset += len(data)

    def map(self, mapping: Mapping, backing: int) -> None:
        native = native_calls()
        place = (mapping.start, mapping.length)
        if mapping.shared:
            native.map_at(*place, mapping.protection, MAP_SHARED, backing, mapping.offset)
            return
        changed = self.changed_pages(mapping, backing)
        if not changed:
            native.map_at(*place, mapping.protection, MAP_PRIVATE, backing, mapping.offset)
            return
        native.map_at(*place, PROT_READ | PROT_WRITE, MAP_PRIVATE, backing, mapping.offset)
        for offset, page in changed:
            native.ctypes.memmove(mapping.start + offset, page, len(page))
        native.protect(*place, mapping.protection)

    def changed_pages(self, mapping: Mapping, backing: int) -> list[tuple[int, bytes]]:
        """Pages of a private mapping that the process wrote to: those that differ from its file."""
        size = os.sysconf("SC_PAGESIZE")
        changed: list[tuple[int, bytes]] = []
        for offset, data in self.pages_of(mapping):
            known = os.pread(backing, len(data), mapping.offset + offset)
            known += bytes(len(data) - len(known))
            if known != data:
                starts = range(0, len(data), size)
                changed += [(offset + at, data[at : at + size]) for at in starts if known[at : at + size] != data[at : at + size]]
        return changed
