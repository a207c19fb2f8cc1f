"""The allocator's setting, in a process of its own: it can't be taken back."""

from __future__ import annotations

import subprocess
import sys

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
