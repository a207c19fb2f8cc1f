"""What is found out about NVIDIA's software without opening a device, from the files that it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.device.installation import driver_version, has_cards, mps_serves, why_unusable

MODULE_LINE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC: 12.2.0"


def test_the_drivers_version_is_the_kernel_modules(tmp_path: Path) -> None:
    assert driver_version(tmp_path) == ""
    for name, text, version in (
        ("proc/driver/nvidia/version", MODULE_LINE, "580.65.06"),
        ("sys/module/nvidia/version", "570.1\n", "570.1"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
        assert driver_version(tmp_path) == version


def test_a_multi_process_service_is_found_by_its_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    assert not mps_serves(tmp_path)
    (tmp_path / "tmp/nvidia-mps").mkdir(parents=True)
    (tmp_path / "tmp/nvidia-mps/control").touch()
    assert mps_serves(tmp_path)
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "elsewhere"))
    assert not mps_serves(tmp_path)


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.mark.parametrize("trace", ["dev/nvidiactl", "proc/driver/nvidia/version", "usr/lib/wsl/lib/libcuda.so.1"])
def test_a_card_is_known_by_its_driver(trace: str, tmp_path: Path) -> None:
    make(tmp_path, "dev/dxg", "usr/lib/wsl/lib/libdxcore.so")  # of WSL, whatever the card
    assert not has_cards(tmp_path)
    make(tmp_path, trace)
    assert has_cards(tmp_path)


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
    assert why in why_unusable(said, cuda, tmp_path)
