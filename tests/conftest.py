"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import typer

from loader.command_line.program import Program
from pool import _native
from tests.support.paths import FAKEGPU, ROOT
from tests.support.runs import Ended, WholeRun, run_well, toml

# Tests start hundreds of runs; none need compile the sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell has jobs in the background ignore it, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected

# No test depends on time: machines are busy.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What is there now stays: no collection of garbage looks at it again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _commands_are_built_once() -> Iterator[None]:
    """Typer builds all commands of a program for each command line: 60 ms, which a process has once elsewhere."""
    app = Program.app
    built = cache(lambda program, _: app(program))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "app", lambda self: built(self, sys.stdout is not None and sys.stdout.isatty()))
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Results of other programs to compare with, not part of the project. Tests skip without them; in CI they fail,
    unless WITHOUT_SHARED says that there are none: a clone by itself has none."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        message = f"no {folder}: results of other programs to compare with, which are not part of the project"
        if os.environ.get("CI") == "true" and not os.environ.get("WITHOUT_SHARED"):
            pytest.fail(message)
        pytest.skip(message)
    return folder


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> WholeRun:
    """By its settings, a run in which nothing happens: to compare others with, or to copy. Each is done once."""
    done: dict[str, Ended] = {}

    def of(settings: Mapping[str, Any]) -> Ended:
        key = toml(settings)
        if key not in done:
            done[key] = run_well(tmp_path_factory.mktemp("whole") / "run", settings)
        return done[key]

    return of


@pytest.fixture(scope="session")
def fakegpu_is_built() -> None:
    """The fake GPU is built by `make`; without it its tests skip, in CI they fail."""
    if FAKEGPU.exists():
        return
    message = f"no {FAKEGPU.relative_to(ROOT)}: make build/fakegpu/libfakegpu.so"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def _one_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def cache_of_tests(_one_cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs note of the fake GPU is no concern of the user's, and once is enough to try it."""
    monkeypatch.setenv("XDG_CACHE_HOME", _one_cache)


@pytest.fixture(params=_native.simd_levels())
def simd_level(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs with the pool's kernels at every level that this CPU has."""
    before = _native.simd_level()
    _native.set_simd_level(request.param)
    yield request.param
    _native.set_simd_level(before)


@pytest.fixture
def best_level() -> Iterator[None]:
    """Puts the level back that was in force before the test."""
    before = _native.simd_level()
    yield
    _native.set_simd_level(before)
