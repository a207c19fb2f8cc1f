"""NVIDIA's compiler and disassembler as Python packages, which need neither a GPU nor a driver: `make cuda-tools`."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from tests.support.paths import ROOT

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
FOLDER = Path(os.environ.get("CUDA_TOOLS", ROOT / "build/cuda-tools"))
_REGISTER = re.compile(r"\bR(\d+)\b")
_FUNCTION = re.compile(r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


def require() -> None:
    """Makes the packages importable. Skips without them; in CI fails."""
    if not (FOLDER / "cuda/bindings").is_dir():
        message = f"no {FOLDER}: make cuda-tools (CUDA_TOOLS names another folder)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
        (library,) = FOLDER.glob("nvidia/*/lib/libnvrtc.so.*")
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)  # it is looked for in the folders of installed packages only


def program(name: str, *arguments: str) -> str:
    (path,) = FOLDER.glob(f"nvidia/*/bin/{name}")
    path.chmod(0o755)
    return subprocess.check_output([path, *arguments], text=True, stderr=subprocess.STDOUT)


@dataclass(frozen=True)
class Resources:
    registers: int
    stack: int
    local: int

    @property
    def blocks(self) -> int:
        """Of 128 threads that a multiprocessor's 65,536 registers are enough for; they are given out by eights."""
        return 65_536 // (128 * -(-self.registers // 8) * 8)


@dataclass(frozen=True)
class MachineCode:
    """What a cubin holds."""

    file: Path

    @cached_property
    def resources(self) -> Mapping[str, Resources]:
        found = _FUNCTION.findall(program("cuobjdump", "--dump-resource-usage", str(self.file)))
        return {name: Resources(int(regs), int(stack), int(local)) for name, regs, stack, _, local in found}

    @cached_property
    def instructions(self) -> Mapping[str, list[str]]:
        """By kernel, in their order, without addresses."""
        found: dict[str, list[str]] = {}
        name = ""
        for line in program("nvdisasm", "-c", str(self.file)).splitlines():
            if line.startswith(".text."):
                name = line.removeprefix(".text.").rstrip(":")
            elif match := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;", line):
                found.setdefault(name, []).append(re.sub(r"^@!?U?P\w+\s+", "", match[1]))
        return found

    def accesses(self, kernel: str, kind: str) -> list[str]:
        """The instructions that load (LDG) or store (STG)."""
        return [words.split()[0] for words in self.instructions[kernel] if words.startswith(f"{kind}.")]


def loads_in_flight(instructions: list[str]) -> int:
    """The most loads of 128 bits that are on their way at a time: begun, and none of their registers used yet."""
    most, flying = 0, list[range]()
    for words in instructions:
        operation, _, operands = words.partition(" ")
        if operation.startswith(("BRA", "EXIT", "BSYNC", "RET")):
            flying = []
        used = set(_used(operation, operands))
        flying = [registers for registers in flying if not used & set(registers)]
        if operation.startswith("LDG") and ".128" in operation:
            first = _REGISTER.search(operands)
            if first is not None:
                flying.append(range(int(first[1]), int(first[1]) + 4))
        most = max(most, len(flying))
    return most


def _used(operation: str, operands: str) -> Iterator[int]:
    """Registers that an instruction reads or writes, but for a load's own."""
    if operation.startswith("LDG"):
        operands = operands.partition(",")[2]
    yield from map(int, _REGISTER.findall(operands))
