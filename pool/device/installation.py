"""Finds NVIDIA's software on a machine, without opening a device. Free of torch."""

from __future__ import annotations

import errno
import os
import re
import socket
from pathlib import Path

_NUMBER = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_TOO_OLD = re.compile(r"driver .* too old \(found version (\d+)\)")


def driver_version(root: Path = Path("/")) -> str:
    """Returns the version of NVIDIA's kernel module, such as 580.65.06, empty if it is not known."""
    for name in ("sys/module/nvidia/version", "proc/driver/nvidia/version"):
        try:
            text = (root / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if number := _NUMBER.search(text):
            return number[0]
    return ""


def cuda_version(number: int) -> str:
    """Returns the version of CUDA, such as 12.4, for the driver's number of it, such as 12040."""
    return f"{number // 1000}.{number % 1000 // 10}"


def mps_serves(root: Path = Path("/")) -> bool:
    """Returns whether processes of this environment use NVIDIA's Multi-Process Service. Kernels of a killed process may
    go on there.

    The test connects a datagram socket to the service's socket. A service that lives does not notice it, since its
    socket has another type, which the error tells (EPROTOTYPE). The socket of a service that has ended may be left
    over, and refuses.
    """
    folder = os.environ.get(_PIPES) or root / "tmp/nvidia-mps"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(str(Path(folder) / "control"))
        except OSError as error:
            return error.errno == errno.EPROTOTYPE
    return True


def count_installed_cards(root: Path = Path("/")) -> int:
    """Returns a lower bound for the number of NVIDIA cards in the machine, whether or not torch can use them.

    It counts the cards' device files. Where no card has one, as in WSL2 and in some containers, it is 1 if NVIDIA's
    driver is installed.
    """
    traces = ("dev/nvidiactl", "proc/driver/nvidia/version", "usr/lib/wsl/lib/libcuda.so.1")
    return len(list((root / "dev").glob("nvidia[0-9]*"))) or int(any((root / trace).exists() for trace in traces))


def explain_unusable_cards(said: str, cuda_of_torch: str | None, root: Path = Path("/")) -> str:
    """Returns, for the user, why torch can't use the machine's cards, and what to do.

    `said`: torch's error when it is asked to use them; `cuda_of_torch`: the CUDA version that torch is built for, None
    for a build without CUDA.
    """
    if cuda_of_torch is None:
        return "it is built without CUDA: install a CUDA build of torch"
    if (root / "proc/driver/nvidia/version").exists() and not (root / "dev/nvidiactl").exists():
        return "there is no /dev/nvidiactl: start the container with --gpus all, or load the module nvidia-uvm"
    if found := _TOO_OLD.search(said):
        served = cuda_version(int(found[1]))
        return (
            f"the driver serves CUDA {served}, and it is built for CUDA {cuda_of_torch}: update the driver, or install "
            f"a build of torch for CUDA {served} or older"
        )
    if "not yet initialized" in said:
        return f"{said}: start NVIDIA's fabric manager (systemctl start nvidia-fabricmanager)"
    return f"{said or 'it does not say why'}: nvidia-smi shows whether the driver works"
