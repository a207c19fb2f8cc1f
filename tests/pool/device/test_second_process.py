"""Whatever becomes of a second process is said: what its driver refuses, and apart from that what may pass."""

from __future__ import annotations

import os
import re
import time

import pytest

from pool.device.second_process import NotTriedError, SecondProcess

LONG = 60.0  # seconds


def second(opening: str = "", asked: str = "") -> SecondProcess:
    return SecondProcess("tests.pool.device.odd_process", opening, asked, deadline=time.monotonic() + LONG)


def test_it_answers_with_text_and_descriptors() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"there")
    with second() as process:
        assert process.request("hello") == ("hello", [])
        text, (fd,) = process.request("what is", reading)
    assert text == "what is there"
    os.close(writing)
    assert os.read(fd, 1) == b""
    os.close(fd)
    os.close(reading)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("CUDA error: CUDA_ERROR_NOT_SUPPORTED (cuMemCreate)", "RuntimeError: CUDA error: CUDA_ERROR_NOT_SUPPORTED"),
        ("SIGSEGV", "another process ended with SIGSEGV"),
    ],
)
def test_what_its_driver_refuses_or_crashes_of_is_an_error(what: str, said: str) -> None:
    with second(asked=what) as process, pytest.raises(RuntimeError, match=said):
        process.request("hello")


PASSING = {
    "full": ("CUDA error: out of memory (cuMemCreate)", "out of memory"),
    "no room": ("no room", "ResourceError: the coordinator has no room"),
    "taken": ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "busy or unavailable"),
    "killed": ("SIGKILL", "another process ended with SIGKILL"),
    "silent": ("end", "another process ended with exit code 0"),
}


@pytest.mark.parametrize(("what", "said"), PASSING.values(), ids=PASSING)
def test_what_may_pass_is_another(what: str, said: str) -> None:
    with second(asked=what) as process, pytest.raises(NotTriedError, match=re.escape(said)):
        process.request("hello")


@pytest.mark.parametrize("what", ["CUDA error: CUDA_ERROR_NOT_SUPPORTED", "SIGSEGV"])
def test_a_device_that_can_not_be_opened_says_nothing_of_what_would_have_been_asked(what: str) -> None:
    with second(opening=what) as process, pytest.raises(NotTriedError):
        process.request("hello")


@pytest.mark.parametrize("when", ["opening", "asked"])
def test_one_that_hangs_is_waited_for_until_its_deadline_and_is_gone_then(when: str) -> None:
    with second(**{when: "hang"}) as process:
        if when == "asked":
            process.wait_until_ready()
        process._deadline = time.monotonic()
        with pytest.raises(NotTriedError, match="no answer in time"):
            process.request("hello")
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_it_ends_when_the_socket_closes() -> None:
    process = second()
    process.wait_until_ready()
    process._channel.close()
    assert process._process.wait(LONG) == 0
    process.__exit__()


def test_a_process_that_can_not_be_had_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/not/there")
    with pytest.raises(NotTriedError, match="No such file"):
        second()
