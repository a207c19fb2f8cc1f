"""Do the tests notice? Each seeded bug of the table is put into a copy of the sources, and its test must fail there.

`python -m tests.chaos.mutants [--only NAME]` prints who caught which, and exits with 1 if one was not caught, if a
test fails without a bug, or if a row's old text does not occur exactly once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.mutant_table import MUTANTS, Mutant
from tests.support.paths import ROOT

FOLDERS = ("loader", "pool", "sparsepool", "configs", "tests")
NATIVE = ("loader._native", "pool._native")
TIMEOUT = 600  # seconds; a bug that makes a test stand still is caught too
TAKEN_FROM_ELSEWHERE = 97

# Goes into every process that runs in a copy: the installation must not be what it imports.
SITE = f"""
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
import loader, pool
for module in (loader, pool):
    if os.path.dirname(os.path.dirname(module.__file__)) != here:
        os.write(2, b"not the copy: " + module.__file__.encode())
        os._exit({TAKEN_FROM_ELSEWHERE})
"""


class Copy:
    """The sources in a folder of their own, to break and to mend."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in FOLDERS:
            ignored = shutil.ignore_patterns("__pycache__", "native", "*.so")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for name in NATIVE:
            spec = importlib.util.find_spec(name)
            assert spec is not None
            assert spec.origin is not None, f"{name} is not built"
            (folder / name.partition(".")[0] / Path(spec.origin).name).symlink_to(spec.origin)
        shutil.copy(ROOT / "pyproject.toml", folder)
        (folder / "sitecustomize.py").write_text(SITE)

    def passes(self, command: tuple[str, ...]) -> bool:
        """Whether `python -m COMMAND` ends well and in time."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            errors = process.communicate(timeout=TIMEOUT)[1]
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode != TAKEN_FROM_ELSEWHERE, errors
        return process.returncode == 0

    @contextlib.contextmanager
    def broken(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.file
        text = path.read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"{mutant.name}: the old text must occur once in {mutant.file}"
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def copy() -> Iterator[Copy]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        yield Copy(Path(folder))


def occurrences(mutant: Mutant) -> int:
    """Of the old text in the sources; 1, or the row is out of date."""
    return (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old)


def _run(sources: Copy, mutants: list[Mutant]) -> bool:
    """True if every test passes without a bug and fails with it."""
    well = True
    width = max(len(mutant.name) for mutant in mutants)
    for command in sorted({mutant.caught_by for mutant in mutants}):
        if not sources.passes(command):
            sys.stdout.write(f"fails without a bug: {' '.join(command)}\n")
            well = False
    for mutant in mutants:
        begin = time.monotonic()
        if occurrences(mutant) != 1:
            verdict = f"OUT OF DATE: its old text occurs {occurrences(mutant)} times in {mutant.file}"
            well = False
        else:
            with sources.broken(mutant):
                survived = sources.passes(mutant.caught_by)
            verdict = f"{'SURVIVED' if survived else 'caught by'} {' '.join(mutant.caught_by)}"
            well &= not survived
        sys.stdout.write(f"{mutant.name:{width}}  {time.monotonic() - begin:6.1f} s  {verdict}\n")
        sys.stdout.flush()
    return well


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutants", description=__doc__)
    parser.add_argument("--only", metavar="NAME", choices=[mutant.name for mutant in MUTANTS])
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.only in (None, mutant.name)]
    with copy() as sources:
        return 0 if _run(sources, chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
