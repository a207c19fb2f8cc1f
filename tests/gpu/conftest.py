"""Which devices the tests of this folder use: CUDA's, or those of a module that adds a kind of device to torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from benchmarks.gpu.machine import Machine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device-module", default="", help="as testing.device_module; small runs alone")
    parser.addoption("--needs-card", action="store_true", help="without a CUDA device nothing passes")


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("--needs-card", default=False):
        try:
            Machine.found("", dry=False)
        except SystemExit as none:
            pytest.exit(str(none), returncode=1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts what opens a card in this process behind all runs, which have the cards for themselves until then."""
    items.sort(key=lambda item: item.path.name in ("test_gpu_kernels.py", "test_gpu_waits.py"))


@dataclass(frozen=True)
class Gpus:
    kind: str
    count: int
    module: str

    def on(self, *devices: int) -> Mapping[str, Any]:
        """Settings of a run on these."""
        names = [f"{self.kind}:{index}" for index in devices]
        return {"pool.devices": names, "testing.device_module": self.module}


@pytest.fixture(scope="session")
def gpus(pytestconfig: pytest.Config) -> Gpus:
    module = pytestconfig.getoption("--device-module", default="")
    if module:
        return Gpus(module.rpartition(".")[2], 2, module)
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return Gpus("cuda", torch.cuda.device_count(), "")


@pytest.fixture
def several(gpus: Gpus) -> Gpus:
    if gpus.count < 2:
        pytest.skip("one card")
    return gpus
