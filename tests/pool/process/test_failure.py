"""What is said of an exception that ends a process: one line, with the place in the user's code."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from loader.errors import DataError
from loader.exit_codes import EXIT_DATA, EXIT_FAILED
from loader.plugins.error_text import MAX_MESSAGE_LENGTH, format_error_with_location
from pool.errors import ConfigError
from pool.process import lifeline
from pool.process.failure import Failure, describe_failure
from pool.shm.signals import ExceptionText

TASK = """
import json, torch
class Mute(Exception):
    def __str__(self): raise OSError("no")
class Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, gradient): raise ValueError("in backward")
def plain(): raise ValueError("bad")
def stop(): next(iter(()))
def leave(): raise SystemExit(3)
def interrupt(): raise KeyboardInterrupt
def recursion(): recursion()
def mute(): raise Mute
def many(): raise ExceptionGroup("two", [ValueError("one"), KeyError("other")])
def chained():
    try: plain()
    except ValueError as error: raise TypeError("second") from error
def lines(): raise ValueError("a\\nb\\t\\x1b[31m \\udc80 \\u2028")
def long(): raise ValueError("x" * 1_000_000)
def in_the_library(): json.loads("{")
def in_torch(): torch.zeros(2) @ torch.zeros(3)
def in_backward(): Through.apply(torch.zeros(1, requires_grad=True)).backward()
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("users") / "task.py"
    path.write_text(TASK, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("task", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def raised_by(call: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as info:  # noqa: PT011
        call()
    return info.value


@pytest.mark.parametrize(
    ("name", "said", "line"),
    [
        ("plain", "ValueError: bad", 10),
        ("stop", "StopIteration", 11),
        ("leave", "SystemExit: 3", 12),
        ("interrupt", "KeyboardInterrupt", 13),
        ("recursion", "RecursionError: maximum recursion depth exceeded", 14),
        ("mute", "Mute: its text can't be had: OSError", 15),
        ("chained", "TypeError: second", 19),
        ("lines", r"ValueError: a b \x1b[31m \udc80", 20),
        ("in_the_library", "JSONDecodeError: Expecting property name", 22),
        ("in_torch", "RuntimeError: inconsistent tensor size", 23),
    ],
)
def test_an_exception_is_told_with_type_text_and_the_place_in_the_users_file(
    name: str, said: str, line: int, task: ModuleType
) -> None:
    text = format_error_with_location(raised_by(getattr(task, name)))
    assert text.startswith(said)
    assert text.endswith(f"({task.__file__}:{line}, in {name})")
    assert len(text.splitlines()) == 1
    assert text.isprintable()


def test_an_exception_in_a_backward_of_the_users_own_has_its_place(task: ModuleType) -> None:
    assert (
        format_error_with_location(raised_by(task.in_backward))
        == f"ValueError: in backward ({task.__file__}:9, in backward)"
    )


def test_of_a_group_the_first_is_told(task: ModuleType) -> None:
    assert (
        format_error_with_location(raised_by(task.many))
        == "ExceptionGroup: two (2 sub-exceptions); the first: ValueError: one"
    )


def test_a_long_text_is_cut(task: ModuleType) -> None:
    text = format_error_with_location(raised_by(task.long))
    assert text.startswith("ValueError: " + "x" * MAX_MESSAGE_LENGTH + " [...] (")


def test_what_a_library_raises_by_itself_has_a_place_too() -> None:
    assert "test_failure.py" in format_error_with_location(raised_by(lambda: torch.zeros(2) @ torch.zeros(3)))


def test_errors_of_ours_are_certain_and_others_are_not(task: ModuleType) -> None:
    certain = describe_failure(ConfigError("task: no such\nthing"), started=False)
    assert certain == Failure("task: no such\\nthing", 2, False)
    assert describe_failure(DataError("f", "is damaged", 7), started=True) == Failure(
        "f: offset 7: is damaged", EXIT_DATA, True
    )
    one, other = (describe_failure(raised_by(getattr(task, name)), started=True) for name in ("plain", "chained"))
    assert (one.exit_code, one.started) == (EXIT_FAILED, True)
    assert "" != one.signature != other.signature


def test_an_exception_with_another_text_has_the_same_signature(task: ModuleType) -> None:
    errors = [raised_by(task.plain) for _ in range(2)]
    errors[1].args = ("<object at 0x7f12>",)
    assert len({describe_failure(error, started=True).signature for error in errors}) == 1


def test_what_a_process_leaves_is_there_when_it_is_dead_and_whoever_holds_its_end_open() -> None:
    """A process that a task has forked keeps the socket open: nobody may wait for its end."""
    ours, theirs = lifeline.create_pair()
    held = os.dup(theirs.fileno())
    assert lifeline.receive_failure(ours) is None
    failure = Failure("ValueError: é", 1, True, "here")
    lifeline.send_failure(theirs, failure)
    theirs.close()
    assert lifeline.receive_failure(ours) == failure
    assert lifeline.receive_failure(ours) is None
    os.close(held)
    lifeline.send_failure(theirs, failure)  # closed: nothing happens
    ours.close()


@pytest.mark.parametrize("data", [b"", b"5", b"note", b"\xff", json.dumps({"reason": 3}).encode(), b'{"reason":1}'])
def test_anything_else_in_the_socket_is_no_failure(data: bytes) -> None:
    assert Failure.from_bytes(data) is None


def test_a_failure_of_wrong_types_is_none() -> None:
    assert Failure.from_bytes(b'{"reason": [], "exit_code": 1, "started": true, "signature": ""}') is None


def test_what_a_worker_has_raised_is_about_one_attempt() -> None:
    words = np.zeros(12, np.int64)
    assert ExceptionText(words).read(0) == ExceptionText(words).read(7) == ""
    ExceptionText(words).write(7, "ValueError: ü")
    assert ExceptionText(words).read(7) == "ValueError: ü"
    assert ExceptionText(words).read(8) == ""
    ExceptionText(words).write(8, "x" * 500)
    assert ExceptionText(words).read(8) == "x" * 80
    words[1] = -5
    assert ExceptionText(words).read(8) == ""


def test_the_place_of_a_task_is_its_file_and_not_a_path_that_happens_to_look_like_ours(tmp_path: Path) -> None:
    path = tmp_path / "torch" / "pool" / "task.py"
    path.parent.mkdir(parents=True)
    path.write_text("def f(): raise ValueError\n", encoding="utf-8")
    scope: dict[str, Callable[[], object]] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    assert format_error_with_location(raised_by(scope["f"])) == f"ValueError ({path}:1, in f)"
