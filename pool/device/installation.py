"""NVIDIA's software on a machine, found out without opening a device. Free of torch."""

from __future__ import annotations

import os
import re
from pathlib import Path

_NUMBER = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"


def driver_version(root: Path = Path("/")) -> str:
    """Returns the version of the kernel module, as 580.65.06; empty if it is not known."""
    for name in ("sys/module/nvidia/version", "proc/driver/nvidia/version"):
        try:
            text = (root / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if number := _NUMBER.search(text):
            return number[0]
    return ""


def mps_serves(root: Path = Path("/")) -> bool:
    """Tells whether processes of this environment find a Multi-Process Service: kernels of a killed one may then go
    on."""
    folder = os.environ.get(_PIPES) or root / "tmp/nvidia-mps"
    return (Path(folder) / "control").exists()
