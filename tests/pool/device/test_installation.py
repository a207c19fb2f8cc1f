"""What is found out about NVIDIA's software without opening a device, from the files that it leaves."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pool.device.installation import (
    count_installed_cards,
    explain_unusable_cards,
    format_cuda_version,
    is_mps_running,
    read_driver_version,
)

MODULE_LINE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC: 12.2.0"


def test_the_drivers_version_is_the_kernel_modules(tmp_path: Path) -> None:
    assert read_driver_version(tmp_path) == ""
    for name, text, version in (
        ("proc/driver/nvidia/version", MODULE_LINE, "580.65.06"),
        ("sys/module/nvidia/version", "570.1\n", "570.1"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
        assert read_driver_version(tmp_path) == version


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM], ids=str)
def test_a_multi_process_service_is_known_by_a_socket_that_somebody_listens_to(
    kind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears nothing of that."""
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    root = Path()
    assert not is_mps_running(root)
    (root / "tmp/nvidia-mps").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, kind) as daemon:
        daemon.bind("tmp/nvidia-mps/control")
        daemon.setblocking(False)
        if kind != socket.SOCK_DGRAM:
            daemon.listen()
        assert is_mps_running(root)
        with pytest.raises(BlockingIOError):
            daemon.recv(1) if kind == socket.SOCK_DGRAM else daemon.accept()
        monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "elsewhere")
        assert not is_mps_running(root)
        monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "tmp/nvidia-mps")
        assert is_mps_running()
    assert Path("tmp/nvidia-mps/control").is_socket(), "it is left over"
    assert not is_mps_running()


def test_a_pipe_folder_that_is_none_has_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "control")
    for folder in (tmp_path, tmp_path / "control", tmp_path / ("long" * 40)):
        monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(folder))
        assert not is_mps_running()


def test_a_version_of_cuda_is_the_drivers_number_in_words() -> None:
    assert [format_cuda_version(number) for number in (12040, 13000, 12090)] == ["12.4", "13.0", "12.9"]


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.mark.parametrize("trace", ["dev/nvidiactl", "proc/driver/nvidia/version", "usr/lib/wsl/lib/libcuda.so.1"])
def test_a_card_is_known_by_its_driver(trace: str, tmp_path: Path) -> None:
    make(tmp_path, "dev/dxg", "usr/lib/wsl/lib/libdxcore.so")  # of WSL, whatever the card
    assert count_installed_cards(tmp_path) == 0
    make(tmp_path, trace)
    assert count_installed_cards(tmp_path) == 1
    make(tmp_path, "dev/nvidia0", "dev/nvidia12", "dev/nvidia-uvm")
    assert count_installed_cards(tmp_path) == 2


TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver by downloading "
    "and installing a new version"
)


@pytest.mark.parametrize(
    ("said", "cuda", "files", "why"),
    [
        ("Torch not compiled with CUDA enabled", None, ["dev/nvidiactl"], "it is built without CUDA: install a CUDA"),
        ("Found no NVIDIA driver", "13.0", ["proc/driver/nvidia/version"], "start the container with --gpus all"),
        (TOO_OLD, "13.0", ["dev/nvidiactl"], "the driver serves CUDA 12.4, and it is built for CUDA 13.0: update the"),
        ("Error 802: system not yet initialized", "13.0", ["dev/nvidiactl"], "start NVIDIA's fabric manager"),
        ("CUDA unknown error", "13.0", ["dev/nvidiactl"], "CUDA unknown error: nvidia-smi shows whether"),
        ("", "13.0", ["dev/nvidiactl"], "it does not say why: nvidia-smi shows whether"),
    ],
)
def test_why_torch_can_not_use_a_card_is_told_with_what_to_do(
    said: str, cuda: str | None, files: list[str], why: str, tmp_path: Path
) -> None:
    make(tmp_path, *files)
    assert why in explain_unusable_cards(said, cuda, tmp_path)
