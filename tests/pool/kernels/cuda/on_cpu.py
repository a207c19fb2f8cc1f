"""Runs the kernels' sources on a CPU: compiled by g++ with shim.h, if wished under AddressSanitizer and UBSan."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from pathlib import Path

import torch

from pool._native import grid, pack_arguments
from pool.kernels.cuda import launcher
from pool.kernels.cuda.compiler import COMMON, PACKAGE, Source
from pool.kernels.cuda.launcher import Argument, Extent
from tests.support.paths import ROOT

SHIM = Path(__file__).parent / "shim.h"
BUILT = ROOT / "build/cuda-on-cpu"
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")


class CpuLauncher:
    """A Launcher. `threads`: of a block at most; `backward`: which thread runs first is the last one."""

    version = "g++"

    def __init__(self, *, sanitized: bool = False) -> None:
        self.sanitized = sanitized
        self.threads: int | None = None
        self.backward = False
        self.launched: list[str] = []

    def launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        for argument in arguments:
            assert not isinstance(argument, torch.Tensor) or argument.device.type == "cpu"
        self.launched.append(kernel)
        if extent.items == 0:
            return
        form = source.kernels[kernel]
        blocks, threads = grid(extent, self.threads or form.threads)
        words, sizes = pack_arguments(form.parameters, arguments)
        memory = ctypes.create_string_buffer(words, len(words))
        places = accumulate((-(-size // 8) * 8 for size in sizes[:-1]), initial=ctypes.addressof(memory))
        status = library(source, self.sanitized).launch(
            kernel.encode(),
            (ctypes.c_uint * 2)(*blocks),
            (ctypes.c_uint * 2)(*threads),
            (ctypes.c_void_p * len(sizes))(*places),
            (ctypes.c_uint * len(sizes))(*sizes),
            len(sizes),
            int(self.backward),
        )
        assert status == 0, f"{source}: {kernel}: {status}"


@contextmanager
def without_kernels() -> Iterator[None]:
    """Torch's own operations serve meanwhile."""
    launcher_factories, launcher.launcher_factories = launcher.launcher_factories, {}
    launcher.launcher.cache_clear()
    yield
    launcher.launcher_factories = launcher_factories
    launcher.launcher.cache_clear()


@cache
def library(source: Source, sanitized: bool) -> ctypes.CDLL:
    listed = ", ".join(f'shim::Caller<&{name}>::kernel("{name}")' for name in source.kernels)
    text = (
        f'#include "{SHIM}"\n#include "{source.file}"\n'
        f"const shim::Kernel shim::kKernels[] = {{{listed}}};\n"
        f"const unsigned shim::kKernelCount = {len(source.kernels)};\n"
    )
    flags = [
        "-std=c++20",
        "-O1",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-Wall",
        "-Wextra",
        "-Wno-unknown-pragmas",
    ]
    flags += [
        "-Werror",
        "-shared",
        "-fPIC",
        "-fno-gnu-unique",
        "-fvisibility=hidden",  # the sanitizer takes a name in two libraries for one variable
        *(f"-I{folder}" for folder in (source.path.parent, COMMON, PACKAGE)),
        *source.options,
        *(SANITIZED if sanitized else ()),
    ]
    parts = [text, SHIM.read_text(), source.text, *source.headers.values(), *flags]
    path = BUILT / f"{source.file}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:24]}.so"
    if not path.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")  # whole runs compile in several processes
        command = ["g++", *flags, "-x", "c++", "-", "-o", str(temporary)]
        without = {
            name: value for name, value in os.environ.items() if name != "LD_PRELOAD"
        }  # the sanitizer's libraries
        done = subprocess.run(command, input=text, env=without, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        temporary.rename(path)
    return ctypes.CDLL(str(path))
