"""Finds NVIDIA's software on a machine, without opening a device. Free of torch."""

from __future__ import annotations

import errno
import os
import re
import socket
from pathlib import Path

_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_TOO_OLD = re.compile(r"driver .* too old \(found version (\d+)\)")


def read_driver_version(root: Path = Path("/")) -> str:
    """Returns the version of NVIDIA's kernel module, such as 580.65.06, empty if it is not known."""
    for name in ("sys/module/nvidia/version", "proc/driver/nvidia/version"):
        try:
            text = (root / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        version = _VERSION.search(text)
        if version is not None:
            return version[0]
    return ""


def format_cuda_version(number: int) -> str:
    """Formats the driver's number of a version of CUDA, such as 12040, as the version, 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def is_mps_running(root: Path = Path("/")) -> bool:
    """Returns whether processes of this environment use NVIDIA's Multi-Process Service. Kernels of a killed process may
    go on there.

    The test connects a datagram socket to the service's socket. The socket of a living service has another type, which
    the error (EPROTOTYPE) shows, and the service does not notice the test. The socket of a service that has ended may
    be left over, and refuses.
    """
    folder = os.environ.get(_PIPES) or root / "tmp/nvidia-mps"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        try:
            client.connect(str(Path(folder) / "control"))
        except OSError as error:
            return error.errno == errno.EPROTOTYPE
    return True


def count_installed_cards(root: Path = Path("/")) -> int:
    """Returns a lower bound for the number of NVIDIA cards in the machine, whether or not torch can use them.

    It counts the cards' device files. Where no card has one, as in WSL2 and in some containers, it is 1 if NVIDIA's
    driver is installed.
    """
    num_device_files = len(list((root / "dev").glob("nvidia[0-9]*")))
    if num_device_files:
        return num_device_files
    driver_files = ("dev/nvidiactl", "proc/driver/nvidia/version", "usr/lib/wsl/lib/libcuda.so.1")
    return 1 if any((root / file).exists() for file in driver_files) else 0


def explain_unusable_cards(torch_error: str, torch_cuda_version: str | None, root: Path = Path("/")) -> str:
    """Returns, for the user, why torch can't use the machine's cards, and what to do.

    `torch_error`: torch's error when it is asked to use them; `torch_cuda_version`: the CUDA version that torch is
    built for, None for a build without CUDA.
    """
    if torch_cuda_version is None:
        return "it is built without CUDA: install a CUDA build of torch"
    if (root / "proc/driver/nvidia/version").exists() and not (root / "dev/nvidiactl").exists():
        return "there is no /dev/nvidiactl: start the container with --gpus all, or load the module nvidia-uvm"
    too_old = _TOO_OLD.search(torch_error)
    if too_old is not None:
        served = format_cuda_version(int(too_old[1]))
        return (
            f"the driver serves CUDA {served}, and it is built for CUDA {torch_cuda_version}: update the driver, or "
            f"install a build of torch for CUDA {served} or older"
        )
    if "not yet initialized" in torch_error:
        return f"{torch_error}: start NVIDIA's fabric manager (systemctl start nvidia-fabricmanager)"
    return f"{torch_error or 'it does not say why'}: nvidia-smi shows whether the driver works"
