"""Runs Python with what the project needs, on a machine with nothing but this checkout, Python and torch with CUDA:

    python3 benchmarks/gpu/install.py [--wheels FOLDER] -- -m benchmarks.gpu

What is missing goes to build/gpu, nothing else is touched and no torch is fetched: packages from the index, or from a
folder of wheels if the machine has no network; the native modules from a wheel of this project in that folder, or they
are compiled. Standard library and pip alone.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
SITE = ROOT / "build/gpu/site"
NATIVE = ROOT / "build/gpu/native"
SOURCES = "sources.sha256"  # in NATIVE: of those that lay here when the modules were put beside the code
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
MODULES = (f"pool/_native{SUFFIX}", f"loader/_native{SUFFIX}")
TESTS = ("pytest", "pytest-timeout", "hypothesis")
BUILD = ("nanobind", "cmake", "ninja")
NEVER = ("torch",)  # the machine's own is what is to be tried
FIND_NATIVE = (  # exits with 1, and without words, where one is missing
    "import sys; from importlib.util import find_spec; "
    "sys.exit(None in (find_spec('pool._native'), find_spec('loader._native')))"
)
HEADERS = "Debian's packages are g++ and python3-dev"

Run = Callable[[Sequence[str]], object]


class InstallError(Exception):
    """In one line, what to do."""


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def constraints() -> dict[str, str]:
    """By name, the versions that are tested; another may be there already."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return {name_of(line): line for line in lines if line and not line.startswith("#")}


def versions() -> dict[str, str]:
    """Of all that can be imported now."""
    path = [str(SITE), *sys.path]
    found = ((each.metadata["Name"], each.version) for each in importlib.metadata.distributions(path=path))
    return {name_of(name): version for name, version in found if name}


def requirement_of(line: str) -> Any:
    """Of pip's own library, which is there where pip is. Raises InstallError."""
    try:
        return importlib.import_module("pip._vendor.packaging.requirements").Requirement(line)
    except ImportError:
        raise InstallError(f"{sys.executable} has no pip: {sys.executable} -m ensurepip") from None


def needs_of(name: str) -> Iterator[str]:
    """What an installed package needs on this machine, without extras."""
    path = [str(SITE), *sys.path]
    for each in importlib.metadata.distributions(path=path, name=name):
        for line in each.requires or ():
            requirement = requirement_of(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                yield str(requirement)
        return


def is_there(requirement: str, there: dict[str, str]) -> bool:
    version = there.get(name_of(requirement))
    return version is not None and bool(requirement_of(requirement).specifier.contains(version, prereleases=True))


def pip(wheels: Path | None, requirements: Iterable[str]) -> list[str]:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--upgrade", "--target", str(SITE)]
    command += [] if wheels is None else ["--no-index", "--find-links", str(wheels)]
    return [*command, *requirements]


def install_packages(wanted: Iterable[str], wheels: Path | None, run: Run) -> None:
    """With all that they need. Raises InstallError."""
    pinned, todo, seen = constraints(), [each for each in wanted if name_of(each) not in NEVER], set[str]()
    while todo:
        there = versions()
        missing = list({name_of(each): each for each in todo if not is_there(each, there)}.values())
        if missing:
            print(f"installing into {SITE.relative_to(ROOT)}: {' '.join(map(name_of, missing))}", flush=True)
            source = f"in {wheels}" if wheels is not None else "in the package index (WHEELS=FOLDER names a folder)"
            try:
                run(pip(wheels, [pinned.get(name_of(each), each) for each in missing]))
            except (OSError, subprocess.CalledProcessError):
                raise InstallError(f"not to be had {source}: {', '.join(map(name_of, missing))}") from None
        seen |= {name_of(each) for each in todo}
        further = {need for each in missing for need in needs_of(name_of(each))}
        todo = sorted(need for need in further if name_of(need) not in {*seen, *NEVER})


def install_native(wheels: Path | None, run: Run) -> None:
    """Puts the native modules beside the code, if this Python finds none, or those there are of older sources. Raises
    InstallError."""
    beside = [ROOT / module for module in MODULES]
    if any(path.exists() for path in beside) and not built_from_these_sources():
        for path in beside:
            path.unlink(missing_ok=True)
    if native_is_there(run):
        return
    if not unpack_native(wheels):
        compile_native(wheels, run)
    NATIVE.mkdir(parents=True, exist_ok=True)
    (NATIVE / SOURCES).write_text(digest_of_sources(), encoding="utf-8")


def compile_native(wheels: Path | None, run: Run) -> None:
    """Raises InstallError."""
    install_packages(BUILD, wheels, run)
    print("compiling the native modules: minutes", flush=True)
    build = str(NATIVE)
    try:
        settings = ["-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}"]
        run(["cmake", "-S", str(ROOT), "-B", build, "-G", "Ninja", *settings])
        run(["cmake", "--build", build])
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallError(f"the native modules can't be compiled ({error}): {HEADERS}") from None
    for module in MODULES:
        folder, _, name = module.partition("/")
        built = next((NATIVE / folder).rglob(name), None)
        if built is None:
            raise InstallError(f"compiling has made no {name} in {NATIVE / folder}")
        (ROOT / module).write_bytes(built.read_bytes())


def digest_of_sources() -> str:
    """Returns a digest of all that the native modules are compiled from."""
    digest = hashlib.sha256()
    files = (path for package in ("loader", "pool") for path in (ROOT / package).rglob("*"))
    sources = (path for path in files if path.suffix in (".cpp", ".h", ".cuh", ".txt"))
    for path in sorted([ROOT / "CMakeLists.txt", *sources]):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def built_from_these_sources() -> bool:
    """Tells whether the modules beside the code were put there with the sources that lie there now."""
    note = NATIVE / SOURCES
    return note.exists() and note.read_text(encoding="utf-8") == digest_of_sources()


def native_is_there(run: Run) -> bool:
    """Tried in a process of its own: an installed project has them elsewhere than beside the code."""
    try:
        run([sys.executable, "-c", FIND_NATIVE])
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def unpack_native(wheels: Path | None) -> bool:
    """From a wheel of this project for this Python, if there is one."""
    for wheel in sorted(wheels.glob("sparsepool-*.whl")) if wheels is not None else ():
        with zipfile.ZipFile(wheel) as archive:
            if all(module in archive.namelist() for module in MODULES):
                for module in MODULES:
                    (ROOT / module).write_bytes(archive.read(module))
                return True
    return False


def environment() -> dict[str, str]:
    folders = [str(ROOT), str(SITE), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join((str(SITE / "bin"), os.environ.get("PATH", "")))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders)), "PATH": path}


def run_in_environment(command: Sequence[str]) -> None:
    """Raises CalledProcessError, OSError."""
    subprocess.run(command, check=True, env=environment(), cwd=ROOT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, help="folder of wheels, for a machine without a network")
    parser.add_argument("python", nargs="+", metavar="ARGUMENT", help="what Python is then called with")
    arguments = parser.parse_args()
    wheels = None if arguments.wheels is None else arguments.wheels.resolve()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    try:
        if wheels is not None and not wheels.is_dir():
            raise InstallError(f"WHEELS: no folder {wheels}")
        if "torch" not in versions():
            raise InstallError(f"{sys.executable} has no torch: GPU_PYTHON=... names a Python that has, with CUDA")
        install_packages([*project["dependencies"], *TESTS], wheels, run_in_environment)
        install_native(wheels, run_in_environment)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return subprocess.run([sys.executable, *arguments.python], env=environment(), cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
