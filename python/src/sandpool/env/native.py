"""The calls of the interpreter and the C library that Python itself does not offer."""

from __future__ import annotations

import errno
import os

from sandpool.env.folders import ISOLATED

CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_NEWNS = 0x8000, 0x200000, 0x1000000, 0x20000
SIGCHLD = 17
MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MNT_DETACH = 2, 4, 32, 4096, 2
PR_SET_DUMPABLE, PR_GET_TID_ADDRESS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 4, 40, 47, 4
CAPABILITY_VERSION_3 = 0x20080522
MOVE_MOUNT, MOVE_MOUNT_F_EMPTY_PATH, AT_FDCWD = 429, 4, -100
PROT_READ, PROT_WRITE, PROT_EXEC, MAP_SHARED, MAP_PRIVATE, MAP_FIXED = 1, 2, 4, 1, 2, 0x10
CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220}
KCMP_NUMBERS = {"x86_64": 312, "aarch64": 272}


class Native:
    """The calls of the interpreter and the C library that Python itself does not offer. They are made with the interpreter's lock held."""

    def __init__(self) -> None:
        import ctypes

        self.ctypes = ctypes
        self.library = ctypes.PyDLL(None, use_errno=True)
        self.can_clone = all(hasattr(self.library, f"PyOS_{name}") for name in ("BeforeFork", "AfterFork_Child", "AfterFork_Parent"))
        if self.can_clone:
            self.before_fork, self.after_fork_child = self.library.PyOS_BeforeFork, self.library.PyOS_AfterFork_Child
            self.after_fork_parent = self.library.PyOS_AfterFork_Parent
            for function in (self.before_fork, self.after_fork_child, self.after_fork_parent):
                function.restype, function.argtypes = None, []
        self.clone_number = CLONE_NUMBERS.get(os.uname().machine)
        long = ctypes.c_long
        self.syscall = self.library.syscall
        self.syscall.restype, self.syscall.argtypes = long, [long] * 6
        self.write = self.library.write
        self.write.restype, self.write.argtypes = ctypes.c_ssize_t, [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
        self.prctl = self.library.prctl
        self.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        # Made here, for what a fork makes for itself is copied page by page.
        self.addressof = ctypes.addressof
        self.texts = {text: ctypes.create_string_buffer(text.encode()) for text in ("", *ISOLATED)}
        self.capability_header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        self.capabilities = (ctypes.c_uint32 * 6)()  # twice: effective, permitted, inheritable
        address, size = ctypes.c_void_p, ctypes.c_size_t
        self.library.mmap.restype = address
        self.library.mmap.argtypes = [address, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, long]
        self.library.mprotect.argtypes = [address, size, ctypes.c_int]
        self.library.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p]

    def last_errno(self) -> int:
        return int(self.ctypes.get_errno())

    def thread_id_address(self) -> int:
        address = self.ctypes.c_void_p()
        failed = self.prctl(PR_GET_TID_ADDRESS, self.ctypes.addressof(address), 0, 0, 0)
        return 0 if failed else (address.value or 0)

    def check(self, result: int, what: str) -> None:
        if result != 0:
            raise OSError(self.last_errno(), f"{what}: {os.strerror(self.last_errno())}")

    def unshare_mounts(self) -> None:
        self.check(self.library.unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)")

    def bind(self, source: str, target: str) -> None:
        """Show a folder at another place, without setuid programs and devices; bind and flags take two calls."""
        flags = MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV
        self.check(self.library.mount(source.encode(), target.encode(), None, MS_BIND, None), f"bind {source} on {target}")
        self.check(self.library.mount(None, target.encode(), None, flags, None), f"remount {target}")

    def detach(self, target: str) -> None:
        """Let go of the mount where the agent keeps all rows' quotas: held here too, they would outlive their rows."""
        if self.library.umount2(target.encode(), MNT_DETACH) != 0 and self.last_errno() != errno.EINVAL:
            raise OSError(self.last_errno(), f"umount {target}: {os.strerror(self.last_errno())}")

    def attach(self, mount: int, target: str) -> None:
        """Show a detached mount at a place."""
        places = (self.addressof(self.texts[""]), AT_FDCWD, self.addressof(self.texts[target]))
        self.check(self.syscall(MOVE_MOUNT, mount, *places, MOVE_MOUNT_F_EMPTY_PATH), f"move_mount to {target}")

    def is_same_file(self, left: int, right: int) -> bool | None:
        """Whether two descriptors lead to one open file description; None where the kernel does not say."""
        number = KCMP_NUMBERS.get(os.uname().machine)
        own = os.getpid()
        order = self.syscall(number, own, own, 0, left, right) if number is not None else -1
        return None if order < 0 else order == 0

    def map_at(self, address: int, length: int, protection: int, flags: int, descriptor: int, offset: int) -> None:
        """Put a file's pages where others are mapped now."""
        found = self.library.mmap(address, length, protection, flags | MAP_FIXED, descriptor, offset)
        self.check(0 if found == address else -1, f"mmap {length} bytes at {address:#x}")

    def protect(self, address: int, length: int, protection: int) -> None:
        self.check(self.library.mprotect(address, length, protection), f"mprotect {length} bytes at {address:#x}")

    def set_dumpable(self) -> None:
        self.check(self.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")

    def clear_ambient(self) -> None:
        self.check(self.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl(PR_CAP_AMBIENT_CLEAR_ALL)")

    def set_capabilities(self, effective: bool, permitted: bool) -> None:
        """Keep what is permitted or drop it for ever, make all of it effective or nothing; nothing stays inheritable."""
        header, data = self.capability_header, self.capabilities
        self.check(self.library.capget(header, data), "capget")
        for place in (0, 3):
            kept = data[place + 1] if permitted else 0
            data[place], data[place + 1], data[place + 2] = (kept if effective else 0), kept, 0
        self.check(self.library.capset(header, data), "capset")


_native_once: list[Native] = []


def native_calls() -> Native:
    if not _native_once:
        _native_once.append(Native())
    return _native_once[0]
