"""Compiles kernels for one kind of GPU with NVRTC, and keeps compiled programs in the user's cache folder.

NVRTC is part of torch's CUDA builds, so no compiler needs to be installed. Free of torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pool.kernels.cuda.user_cache import cache_folder, write_cached

log = logging.getLogger(__name__)

COMMON = Path(__file__).parent / "src"
PACKAGE = Path(__file__).parent.parent.parent
RULES = "kernels/rules.cuh"  # the path by which sources include it
# No contraction: a product is rounded before it is added, as in the CPU's kernels. Divisions and roots are IEEE's.
OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
_KERNEL = re.compile(r"KERNEL\((\d+), \d+\)\s*(\w+)\(([^)]*)\)")
_NUMBERS = {"uint32": "I", "uint64": "Q", "float": "f"}  # codes of struct
_DIGEST = 32  # bytes of the checksum with which a file in the cache begins
_TIMES = "compiled.txt"  # a line for each compiled program: seconds, architecture, source
_TAIL = 4096  # bytes that are read at the end of that file


@dataclass(frozen=True)
class Kernel:
    """The declaration of a kernel in a source."""

    threads: int  # greatest number of threads in a block
    parameters: str  # for each a code of module struct for a pointer or number, or "s" for a structure by value


@dataclass(frozen=True, eq=False)
class Source:
    """A source file and the constants that it is compiled for.

    Equal sources are the same object, so that a program is compiled once, and found by its identity at each launch.
    """

    path: Path
    constants: tuple[tuple[str, int | str], ...]

    @staticmethod
    def of(file: str | Path, **constants: int | str) -> Source:
        """Returns the source for a file and constants. `file`: the name of a file in `src`, or a path."""
        return _named(file, **constants)

    @property
    def file(self) -> str:
        return self.path.name

    @property
    def text(self) -> str:
        return _read_text(self.path)

    @property
    def headers(self) -> Mapping[str, str]:
        """Returns the texts of the headers that the file may include, by name: those of its own folder and the common
        ones."""
        return _read_headers(self.path.parent)

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """Returns the kernels of the file, by name."""
        return _find_kernels(self.path)

    @property
    def options(self) -> list[str]:
        return [f"-D{name}={value}" for name, value in self.constants]

    def __str__(self) -> str:
        return " ".join([self.file, *(f"{name}={value}" for name, value in self.constants)])


@cache
def _named(file: str | Path, **constants: int | str) -> Source:
    return _source(COMMON / file, tuple(sorted(constants.items())))


@cache
def _source(path: Path, constants: tuple[tuple[str, int | str], ...]) -> Source:
    return Source(path, constants)


@cache
def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _read_headers(folder: Path) -> Mapping[str, str]:
    paths = sorted(path for where in {folder, COMMON} for path in where.glob("*.cuh"))
    return {RULES: _read_text(PACKAGE / RULES), **{path.name: _read_text(path) for path in paths}}


@cache
def _find_kernels(path: Path) -> Mapping[str, Kernel]:
    kernels: dict[str, Kernel] = {}
    for threads, name, parameters in _KERNEL.findall(_read_text(path)):
        codes = map(_parameter_code, parameters.split(","))
        kernels[name] = Kernel(int(threads), "".join(codes))
    return kernels


def _parameter_code(parameter: str) -> str:
    """Returns the code of a kernel's parameter (`Kernel.parameters`). `parameter`: its declaration in C++."""
    if "*" in parameter:
        return "P"
    return _NUMBERS.get(parameter.removeprefix("const ").split()[0], "s")


class CompileError(Exception):
    """There is no compiler for this kind of GPU, or it has refused a source.

    The text is one line. The log has all that the compiler says.
    """


class Compiler:
    """Compiles kernels for one architecture, and keeps the programs."""

    def __init__(self, architecture: str, cache: Path | None) -> None:
        """Loads NVRTC. Raises ImportError without cuda-bindings, CompileError without NVRTC or if it does not know the
        architecture.

        `architecture`: `sm_90`, ...; `cache`: the folder for compiled programs, None to keep none.
        """
        self._nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
        self._architecture = architecture
        self._cache = cache
        try:
            self._version = ".".join(map(str, self._call(self._nvrtc.nvrtcVersion)))
        except RuntimeError as error:  # the library can't be found
            raise CompileError(str(error).splitlines()[0]) from error
        supported = self._call(self._nvrtc.nvrtcGetSupportedArchs)
        if int(architecture.removeprefix("sm_")) not in supported:
            raise CompileError(
                f"NVRTC {self.version} compiles for sm_{min(supported)} to sm_{max(supported)}, not for {architecture}"
            )

    @property
    def version(self) -> str:
        """Returns the version of NVRTC."""
        return self._version

    def get_program(self, source: Source) -> bytes:
        """Returns the compiled program (cubin) of a source, from the cache or compiled now. Raises CompileError."""
        program = self._read_cached(source)
        if program is None:
            program = self.compile(source)
            self._write_cached(source, program)
        return program

    def is_cached(self, source: Source) -> bool:
        """Returns whether the cache has the compiled program of a source."""
        return self._read_cached(source) is not None

    def drop_cached(self, source: Source) -> None:
        """Removes the compiled program of a source from the cache, because it can't be used."""
        file = self._cache_path(source)
        with contextlib.suppress(OSError):
            if file is not None:
                file.unlink(missing_ok=True)

    def compile(self, source: Source) -> bytes:
        """Compiles a source and returns the program (cubin). Raises CompileError with the compiler's first error."""
        names, texts = list(source.headers), [text.encode() for text in source.headers.values()]
        program = self._call(
            self._nvrtc.nvrtcCreateProgram,
            source.text.encode(),
            source.file.encode(),
            len(names),
            texts,
            [name.encode() for name in names],
        )
        try:
            options = [option.encode() for option in self._options(source)]
            (status,) = self._nvrtc.nvrtcCompileProgram(program, len(options), options)
            if status != self._nvrtc.nvrtcResult.NVRTC_SUCCESS:
                output = self._read_log(program)
                log.error("%s for %s: NVRTC says:\n%s", source, self._architecture, output)
                raise CompileError(
                    f"{source} for {self._architecture}: NVRTC {self.version}: {_find_first_error(output)}"
                )
            cubin: bytes = b" " * self._call(self._nvrtc.nvrtcGetCUBINSize, program)
            self._call(self._nvrtc.nvrtcGetCUBIN, program, cubin)
        finally:
            self._nvrtc.nvrtcDestroyProgram(program)
        return cubin

    def _options(self, source: Source) -> list[str]:
        return [f"--gpu-architecture={self._architecture}", *OPTIONS, *source.options]

    def _read_log(self, program: Any) -> str:
        log: bytes = b" " * self._call(self._nvrtc.nvrtcGetProgramLogSize, program)
        self._call(self._nvrtc.nvrtcGetProgramLog, program, log)
        return log.decode(errors="replace").rstrip("\0 \n")

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        status, *values = function(*arguments)
        if status != self._nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"{function.__name__}: {status.name}")
        return values[0] if len(values) == 1 else tuple(values)

    def _cache_path(self, source: Source) -> Path | None:
        if self._cache is None:
            return None
        parts = [self._version, *self._options(source), source.text, *source.headers.values()]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return self._cache / f"{Path(source.file).stem}-{self._architecture}-{digest[:32]}.cubin"

    def _read_cached(self, source: Source) -> bytes | None:
        """Returns the program of a source from the cache, or None if there is none or it is damaged."""
        file = self._cache_path(source)
        with contextlib.suppress(OSError):
            if file is not None:
                data = file.read_bytes()
                if hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]:
                    return data[_DIGEST:]
        return None

    def _write_cached(self, source: Source, cubin: bytes) -> None:
        """Writes a program to the cache, whole or not at all.

        If the folder can't be written, the next process compiles again, and nothing else is lost.
        """
        file = self._cache_path(source)
        try:
            if file is not None:
                write_cached(file, hashlib.sha256(cubin).digest() + cubin)
        except OSError as error:
            log.warning("%s is not kept, each start compiles it again: %s: %s", source, file, error.strerror)


def _find_first_error(output: str) -> str:
    """Returns the first line of the compiler's output that names an error, else its first line."""
    lines = output.splitlines()
    errors = [line.strip() for line in lines if "error" in line]
    return next(iter([*errors, *lines]), "no reason given")


def kernel_cache_folder() -> Path | None:
    """Returns the folder of compiled programs, which all processes of this user share. None if there is no cache
    folder."""
    return cache_folder("kernels")


def record_compile_time(seconds: float, source: object, architecture: str, cache: Path | None) -> None:
    """Appends to a file in the cache how long compiling took. Several processes may do so at a time. A failure costs
    nothing."""
    with contextlib.suppress(OSError):
        if cache is not None:
            with (cache / _TIMES).open("a", encoding="utf-8") as file:
                file.write(f"{seconds:.2f} {architecture} {source}\n")


def explain_missing_kernels(architecture: str) -> str:
    """Returns why kernels can't be compiled for `architecture` (`sm_90`), and what to do. Empty if they can."""
    try:
        Compiler(architecture, None)
    except ImportError as error:
        return f"{error}: pip install 'sparsepool[gpu]'"
    except CompileError as error:
        return str(error)
    return ""


def describe_kernels(architecture: str, cache: Path | None = None) -> str:
    """Returns a line for the user about what is compiled for `architecture` (`sm_90`) and how long the last program
    took.

    `cache`: the folder of compiled programs, the user's if None. Raises what `Compiler` does if none can be compiled.
    """
    cache = cache or kernel_cache_folder()
    version = Compiler(architecture, None).version
    line = f"NVRTC {version} compiles for {architecture} what a worker needs first and is not kept"
    if cache is None:
        return f"{line}; there is no folder to keep them"
    num_programs = sum(1 for _ in cache.glob(f"*-{architecture}-*.cubin"))
    line += f"; {num_programs} programs are kept"
    seconds = _read_last_time(architecture, cache)
    return line if seconds is None else f"{line}; the last took {seconds:.1f} s"


def _read_last_time(architecture: str, cache: Path) -> float | None:
    """Returns how many seconds the last compilation for an architecture took, or None if that is not known."""
    with contextlib.suppress(OSError, ValueError):
        lines = (cache / _TIMES).read_bytes()[-_TAIL:].decode(errors="replace").splitlines()
        entries = [line.split() for line in lines if f" {architecture} " in line]
        return float(entries[-1][0]) if entries else None
    return None
