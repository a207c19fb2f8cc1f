"""The allocator's setting, in a process of its own: it can't be taken back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource
import numpy as np
from pool import _native

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(48 << 20, np.uint8).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

fresh = faults()
assert _native.keep_freed_memory()
faults()
again = faults()
assert fresh > 20 and again <= 2, (fresh, again)
"""


def test_memory_freed_once_is_used_again_without_page_faults() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


RETURNED = """
from pathlib import Path
import numpy as np
from pool import _native

def resident():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line)

assert _native.keep_freed_memory()
first, second = (np.ones(64 << 20, np.uint8) for _ in range(2))
full = resident()
del first
kept = resident()
_native.return_free_memory()
assert kept > full - 1024 and resident() < full - (60 << 10), (full, kept, resident())
assert second.all()
"""


def test_memory_freed_once_can_be_given_back() -> None:
    subprocess.run([sys.executable, "-c", RETURNED], check=True, timeout=60)


HUGE = """
from pathlib import Path
import numpy as np
from pool import _native

assert _native.keep_freed_memory()
array = np.empty(64 << 20, np.uint8)
address = array.ctypes.data + (32 << 20)
for line in Path("/proc/self/smaps").read_text().splitlines():
    first, dash, last = line.split()[0].partition("-")
    if dash:
        inside = int(first, 16) <= address < int(last, 16)
    elif inside and line.startswith("VmFlags:"):
        flags = line.split()
assert "hg" in flags, flags
"""


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").is_dir(), reason="a system without huge pages")
def test_the_heap_is_asked_for_in_huge_pages() -> None:
    subprocess.run([sys.executable, "-c", HUGE], check=True, timeout=60)
