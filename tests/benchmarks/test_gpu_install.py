"""What `make gpu-bench` does on a machine with nothing but the checkout, Python and torch: pip and cmake are stubs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.gpu import install
from benchmarks.gpu.install import InstallError, install_native, install_packages, is_there, name_of, pip
from tests.support.paths import ROOT


class Machine:
    """Writes down what is run; a package is there once pip was asked for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: dict[str, str], needs: dict[str, list[str]]) -> None:
        self.ran: list[Sequence[str]] = []
        self.there = there
        monkeypatch.setattr(install, "versions", lambda: self.there)
        monkeypatch.setattr(install, "needs_of", lambda name: iter(needs.get(name, [])))

    def __call__(self, command: Sequence[str]) -> None:
        if install.FIND_NATIVE in command:
            if not all((install.ROOT / module).exists() for module in install.MODULES):
                raise subprocess.CalledProcessError(1, command)
            return
        self.ran.append(command)
        if "pip" in command:
            self.there |= {name_of(each): "999" for each in command[command.index(str(install.SITE)) + 1 :]}

    @property
    def installed(self) -> list[list[str]]:
        """By call of pip."""
        calls = (list(command) for command in self.ran if "pip" in command)
        return [[each for each in call if "==" in each or each in ("left-pad",)] for call in calls]


def test_what_is_missing_is_installed_in_its_tested_version_with_what_it_needs_and_torch_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch, {"numpy": "2.5.2"}, {"pyzmq": ["torch", "numpy", "left-pad; extra"], "left-pad": []})
    install_packages(["torch>=2.11", "numpy>=2.0", "pyzmq>=26"], None, machine)
    first, second = machine.installed
    assert [each.partition("==")[0] for each in first] == ["pyzmq"]
    assert second == []
    assert machine.ran[1][-1] == "left-pad; extra"
    assert all("--no-deps" in command and "--no-index" not in command for command in machine.ran)


def test_nothing_is_run_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {"numpy": "2.5.2"}, {})
    install_packages(["numpy>=2.0"], None, machine)
    assert machine.ran == []


@pytest.mark.parametrize(
    ("requirement", "version", "there"),
    [
        ("numpy>=2.0", "2.5.2", True),
        ("numpy>=2.0", "1.26", False),
        ("scikit_build-core", "1", False),
        ("a", "1", False),
    ],
)
def test_a_version_that_is_too_old_is_not_there(requirement: str, version: str, there: bool) -> None:
    assert is_there(requirement, {"numpy": version}) is there


def test_a_folder_of_wheels_is_the_only_source_if_it_is_named(tmp_path: Path) -> None:
    command = pip(tmp_path, ["x==1"])
    assert command[command.index("--no-index") :] == ["--no-index", "--find-links", str(tmp_path), "x==1"]


@pytest.mark.parametrize(("wheels", "where"), [(Path("/wheels"), "in /wheels"), (None, "WHEELS=FOLDER")])
def test_what_can_not_be_had_is_named(wheels: Path | None, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, {}, {})

    def fail(command: Sequence[str]) -> None:
        raise subprocess.CalledProcessError(1, command)

    with pytest.raises(InstallError, match=r"not to be had .*: pyzmq$") as error:
        install_packages(["pyzmq>=26"], wheels, fail)
    assert where in str(error.value)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("pool", "loader", "wheels"):
        (tmp_path / folder).mkdir()
    (tmp_path / "CMakeLists.txt").touch()
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setattr(install, "NATIVE", tmp_path / "native")
    return tmp_path


def test_native_modules_come_from_a_wheel_if_one_fits(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {}, {})
    for name, modules in (
        ("sparsepool-0-other.whl", ("pool/_native.other.so",)),
        ("sparsepool-1.whl", install.MODULES),
    ):
        with zipfile.ZipFile(checkout / "wheels" / name, "w") as wheel:
            for module in modules:
                wheel.writestr(module, module)
    install_native(checkout / "wheels", machine)
    install_native(None, machine)  # what a wheel has brought stays
    assert machine.ran == []
    assert [(checkout / module).read_text() for module in install.MODULES] == list(install.MODULES)


def test_native_modules_are_compiled_where_there_are_none(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {"nanobind": "2", "cmake": "4", "ninja": "1"}, {})

    def build(command: Sequence[str]) -> None:
        machine(command)
        if "--build" in command:
            for module in install.MODULES:
                folder, _, name = module.partition("/")
                built = checkout / "native" / folder / "native" / name
                built.parent.mkdir(parents=True, exist_ok=True)
                built.write_text(f"compiled for {folder}")

    install_native(None, build)
    assert [command[0] for command in machine.ran] == ["cmake", "cmake"]
    assert f"-DPython_EXECUTABLE={sys.executable}" in machine.ran[0]
    assert [(checkout / module).read_text() for module in install.MODULES] == [
        "compiled for pool",
        "compiled for loader",
    ]
    install_native(None, build)
    assert len(machine.ran) == 2, "they are there now"
    (checkout / "pool/fold.cpp").write_text("other")
    install_native(None, build)
    assert len(machine.ran) == 4, "their sources have changed"
    install_native(None, build)
    assert len(machine.ran) == 4


@pytest.mark.usefixtures("checkout")
def test_a_compiler_that_is_missing_is_said_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, {"nanobind": "2", "cmake": "4", "ninja": "1"}, {})

    def fail(_: Sequence[str]) -> None:
        raise FileNotFoundError(2, "No such file or directory", "cmake")

    with pytest.raises(InstallError, match=r"can't be compiled .*Debian's packages are g\+\+"):
        install_native(None, fail)


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(install.__file__)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_a_folder_of_wheels_that_is_not_there_is_one_line() -> None:
    done = call("--wheels", "/not/there", "--", "-c", "print(1)")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: WHEELS: no folder /not/there\n"


def test_gpu_check_without_a_card_fails_in_one_line() -> None:
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "--needs-card", "tests/gpu", "--ignore=tests/gpu/fake"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 1
    (line,) = (line for line in done.stdout.splitlines() if "sees no CUDA device" in line)
    assert "GPU_PYTHON" in line


def test_what_runs_on_a_card_needs_no_package_that_is_not_a_wheel() -> None:
    """A folder of wheels has no chess, which its maker gives as sources alone."""
    modules = [f"tests.gpu.{path.stem}" for path in (ROOT / "tests/gpu").glob("test_*.py")]
    code = f"import sys, importlib; sys.modules['chess'] = None; [importlib.import_module(name) for name in {modules}]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
