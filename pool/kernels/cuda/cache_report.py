"""Which kernels the cache holds, and how long compiling took: for people, before a run. Free of torch."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pool.kernels.cuda.compiler import CompileError, Compiler, kept_in
from pool.kernels.cuda.source import FOLDER

_TIMES = "compiled.txt"  # a line for each program that was compiled: seconds, what, for which architecture
_READ = 4096  # bytes of its end


def note_compiled(seconds: float, source: object, architecture: str, cache: Path | None) -> None:
    """Several processes may do so at a time; that it can't be written costs nothing."""
    with contextlib.suppress(OSError):
        if cache is not None:
            with (cache / _TIMES).open("a", encoding="utf-8") as file:
                file.write(f"{seconds:.2f} {architecture} {source}\n")


def in_words_of(architecture: str, cache: Path | None = None) -> str:
    """`architecture`: `sm_90`; `cache`: where programs are kept, the user's if None."""
    cache = cache or kept_in()
    try:
        version = Compiler(architecture, None).version
    except (ImportError, CompileError) as error:
        return f"none, torch's own operations serve: {error}"
    files = sorted(path.stem for path in FOLDER.glob("*.cu"))
    kept = [name for name in files if cache is not None and any(cache.glob(f"{name}-{architecture}-*.cubin"))]
    words = f"NVRTC {version} compiles for {architecture} what a worker needs first and is not kept"
    words += (
        f"; kept of {len(kept)} of {len(files)} files" if cache is not None else "; there is no folder to keep them"
    )
    last = _last(architecture, cache)
    return f"{words}; the last took {last:.1f} s" if last is not None else words


def _last(architecture: str, cache: Path | None) -> float | None:
    """Seconds."""
    with contextlib.suppress(OSError, ValueError):
        if cache is not None:
            lines = (cache / _TIMES).read_bytes()[-_READ:].decode(errors="replace").splitlines()
            mine = [line.split() for line in lines if f" {architecture} " in line]
            return float(mine[-1][0]) if mine else None
    return None
