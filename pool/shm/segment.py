"""One segment of shared memory: a sealed memfd, which the supervisor makes and processes map that inherit its
descriptor.

There is nothing to unlink, since the kernel frees the memory with the last process that has it (I6). A process that
only reads gets a descriptor that can't be mapped for writing (I4).
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pool.errors import PoolError

PAGE = mmap.PAGESIZE
_CHUNK = 64 << 20
_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23  # since Linux 5.14
_MADV_COLLAPSE = 25  # since Linux 6.1
_HUGE_PAGE = 2 << 20
_MAP_SHARED, _MAP_FIXED, _MAP_NORESERVE = 0x01, 0x10, 0x4000


def create_segment(name: str, size: int, before_chunk: Callable[[int], None]) -> int:
    """Creates a segment of shared memory: `size` bytes, zeros, physical memory reserved, size sealed. Returns its
    descriptor.

    `before_chunk(nbytes)` is called before each chunk is reserved, and may raise PoolError. Raises OSError (ENOSPC,
    ENOMEM) if there is too little memory. In a control group the process may be killed instead.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        for offset in range(0, size, _CHUNK):
            chunk = min(_CHUNK, size - offset)
            before_chunk(chunk)
            os.posix_fallocate(fd, offset, chunk)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except (OSError, PoolError):
        os.close(fd)
        raise
    return fd


def reopen_read_only(fd: int) -> int:
    """Returns a second descriptor of the same memory, which can't be mapped for writing."""
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


@dataclass(frozen=True)
class SegmentHandle:
    """The descriptor of a segment for one process, and how the process may map it."""

    fd: int
    writable: bool
    registered: bool = False  # the process only reads it, but maps it for writing until a device's driver has it


class Segment:
    """A mapping of a segment, which lasts until the process ends.

    `array` is always flagged writable, since torch takes no other. A write through a read-only mapping is a
    segmentation fault.
    """

    def __init__(self, fd: int, *, writable: bool, registered: bool = False) -> None:
        """Maps the segment. Raises OSError.

        `registered`: maps it for writing until `make_read_only`, though nobody writes it in this process, since the
        drivers of many devices register only such memory.
        """
        size = os.fstat(fd).st_size
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable or registered else 0)
        self._reserved, begin = _map_aligned(fd, size, protection)
        self._reserved.madvise(mmap.MADV_DONTDUMP)  # a core dump of a big ring would delay every recovery
        self._reserved.madvise(mmap.MADV_DONTFORK)  # a process that a task forks owns nothing of it (I4)
        self.size = size
        self.writable = writable
        self.array: npt.NDArray[np.uint8] = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(begin))

    def touch(self, *, huge_pages: bool = False) -> None:
        """Maps every page now, so that the first batches don't wait for it. Where the kernel can't, pages are mapped
        when they are used.

        `huge_pages`: first replaces pages by huge ones, for all processes, where the kernel can and has some. It pays
        for memory that is read in scattered places.
        """
        if huge_pages:
            self._advise(_MADV_COLLAPSE, self.size // _HUGE_PAGE * _HUGE_PAGE)
        self._advise(_MADV_POPULATE_WRITE if self.writable else _MADV_POPULATE_READ, self.size)

    def _advise(self, advice: int, nbytes: int) -> None:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(self.array.ctypes.data), ctypes.c_size_t(nbytes), advice)

    def make_read_only(self) -> None:
        """Makes the mapping read-only if this process only reads the segment. Raises OSError."""
        if self.writable:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self.array.ctypes.data), ctypes.c_size_t(self.size), mmap.PROT_READ) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def slots(self, offset: int, count: int, slot_bytes: int) -> list[npt.NDArray[np.uint8]]:
        """Returns `count` equal slots, uint8 [slot_bytes] each, that begin at byte `offset`."""
        return [self.array[offset + i * slot_bytes : offset + (i + 1) * slot_bytes] for i in range(count)]


def _map_aligned(fd: int, size: int, protection: int) -> tuple[mmap.mmap, int]:
    """Maps a segment at a multiple of the size of huge pages, so that they can be mapped as such.

    Returns the reserved addresses, which stay reserved as long as the object lives, and the address where the segment
    begins. Raises OSError.
    """
    reserved = mmap.mmap(-1, size + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | _MAP_NORESERVE, prot=mmap.PROT_READ)
    begin = -(-np.frombuffer(reserved, np.uint8).ctypes.data // _HUGE_PAGE) * _HUGE_PAGE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    address, length, offset = ctypes.c_void_p(begin), ctypes.c_size_t(size), ctypes.c_long(0)
    if libc.mmap(address, length, protection, _MAP_SHARED | _MAP_FIXED, fd, offset) != begin:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return reserved, begin
