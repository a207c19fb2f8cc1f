"""Trains a whole run from Python. The run's supervisor is a child process, so that `train` works in threads, notebooks
and asyncio."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from loader.exit_codes import EXIT_DONE, EXIT_SIGNALLED
from sparsepool.errors import RunFailedError, translate_errors
from sparsepool.plain import encode_json, task_name
from sparsepool.result import Result

_START = "import sys; from sparsepool.child import main; sys.exit(main())"
_PIECE = 1 << 16  # most bytes of the child's output read at once
_SECONDS = 0.2  # longest wait for output
_PREFIX = "pool: "  # how an error line of the child begins


def train(
    config: str | os.PathLike[str] | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    task: Any = None,
    resume: bool = False,
    quiet: bool = False,
    allow_different_numerics: bool = False,
) -> Result:
    """Trains to the end, as `pool train` does, waits for it, and returns the result.

    In asyncio, use `await asyncio.to_thread(train, ...)`.

    config: a TOML file, or its content as a mapping; keys may be dotted: {"train.steps": 500}.
    overrides: changes to it, as `--set`; values as in Python.
    task: what is trained, instead of the key `task`: a module, a class or an object of a module, or its name. Other
        processes import it from that module, which must not be the script or notebook itself.
    resume: go on from the last checkpoint in run.dir, if there is one.
    quiet: show nothing; else the run's output is this process's own (`sys.stdout` in a notebook).
    allow_different_numerics: resume although torch, CPU, GPU or build differ; from there on the weights have other
        bits.

    KeyboardInterrupt lets the run finish its step and write a checkpoint, and is then raised; a second one stops the
    run at once. Any other exception that is raised in this call (by the handler of an alarm, by a `sys.stdout` that
    fails, by another thread) stops the run in the same way. A run whose caller dies stops by itself, with a checkpoint.

    Raises SparsepoolError for a run that can't be started. Raises RunFailedError, with the exit code, the line or lines
    and the folder, for a run that ends before its last step.
    """
    changes = {**(overrides or {}), **({} if task is None else {"task": task_name(task)})}
    asked = {
        "parent": os.getpid(),
        "config": config if isinstance(config, Mapping) else None,
        "path": None if isinstance(config, Mapping) else os.fspath(config),
        "overrides": changes,
        "resume": resume,
        "allow_different_numerics": allow_different_numerics,
    }
    answer, theirs = os.pipe()
    try:
        with translate_errors():
            child = _started(encode_json({**asked, "answer": theirs}), theirs, quiet)
    except BaseException:
        os.close(answer)
        raise
    finally:
        os.close(theirs)
    with os.fdopen(answer, "rb") as said, _Attendance(child, quiet) as attendance:
        code, lines = attendance.wait()
        place = said.read().decode(errors="surrogateescape")
    run_dir = Path(place) if place else None
    if code != EXIT_DONE or run_dir is None:
        raise RunFailedError(lines or _ended_by(code), code if code >= 0 else EXIT_SIGNALLED - code, run_dir)
    return Result(run_dir)


def _started(asked: bytes, answer: int, quiet: bool) -> subprocess.Popen[bytes]:
    """Starts the child process and writes to it what to do. The child gets a process group of its own, so that Ctrl-C
    on a terminal reaches only this process, which passes it on."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", _START],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
        pass_fds=[answer],
        process_group=0,
        stdout=_output(quiet),
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    try:
        with suppress(BrokenPipeError):
            child.stdin.write(asked + b"\n")
            child.stdin.flush()
    except BaseException:
        _close(child)
        raise
    return child


def _close(child: subprocess.Popen[bytes]) -> None:
    """Ends the child's standard input, which stops its run, and waits for it."""
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    child.wait()


def _output(quiet: bool) -> int | None:
    """Returns the child's standard output for `subprocess.Popen`: None (this process's own) if `sys.stdout` is a file,
    else PIPE; DEVNULL if quiet."""
    if quiet:
        return subprocess.DEVNULL
    with suppress(AttributeError, OSError, ValueError):  # in a notebook `sys.stdout` is no file
        if sys.stdout.fileno() == 1:
            sys.stdout.flush()
            return None
    return subprocess.PIPE


class _Attendance:
    """Passes on the output of a child process until it has ended. A context manager: leaving it closes the child's
    standard input, which stops a run that still goes on."""

    def __init__(self, child: subprocess.Popen[bytes], quiet: bool) -> None:
        self._child = child
        self._quiet = quiet
        self._errors = bytearray()
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._exception: BaseException | None = None  # the first exception raised here while waiting
        self._signals_due = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._child)

    def wait(self) -> tuple[int, str]:
        """Waits for the child's end. Returns its exit code and what it has written to stderr about its end. An
        exception that is raised here meanwhile (KeyboardInterrupt, by the handler of an alarm, by a standard output
        that fails, by another thread) stops the run as Ctrl-C does. It is raised again when the run has ended."""
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            while True:
                try:
                    self._send_due_signals()
                    while selector.get_map():
                        self._read_some(selector)
                    code = self._child.wait()
                    break
                except BaseException as error:
                    self._stop(error)
        said = self._errors.decode(errors="replace").strip()
        if self._exception is not None:
            raise self._exception
        if said and code == 0 and not self._quiet:
            sys.stderr.write(f"{said}\n")  # warnings of libraries, as the run itself went well
        return code, said.removeprefix(_PREFIX)

    def _register(self, selector: selectors.BaseSelector) -> None:
        for stream, take in ((self._child.stdout, self._show), (self._child.stderr, self._errors.extend)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, take)

    def _stop(self, error: BaseException) -> None:
        """Records an exception and lets the child be interrupted. While the run is being stopped only another
        KeyboardInterrupt interrupts it again, which stops it at once."""
        if self._exception is None:
            self._exception = error
            self._signals_due += 1
        elif isinstance(error, KeyboardInterrupt):
            self._signals_due += 1

    def _send_due_signals(self) -> None:
        while self._signals_due > 0:
            self._child.send_signal(signal.SIGINT)
            self._signals_due -= 1

    def _read_some(self, selector: selectors.BaseSelector) -> None:
        """Reads output of the child, waiting at most _SECONDS for it, since an exception that another thread raises in
        this one is delivered only between waits. Unregisters outputs that have ended."""
        for key, _ in selector.select(_SECONDS):
            if data := os.read(key.fd, _PIECE):
                key.data(data)
            else:
                selector.unregister(key.fileobj)

    def _show(self, data: bytes) -> None:
        """Writes output of the child to `sys.stdout`, unless writing may be what has failed."""
        if self._exception is not None and not isinstance(self._exception, KeyboardInterrupt):
            return  # standard output may be what has failed
        sys.stdout.write(self._text.decode(data))
        sys.stdout.flush()


def _import_path() -> list[str]:
    """Returns the folders where this process finds modules and a new one would not: the script's folder, and what was
    added to sys.path. The current folder is left out, as it is searched only for the modules that settings name."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    known = [*map(sysconfig.get_path, names), *site.getsitepackages(), site.getusersitepackages()]
    package = Path(__file__).parent.parent
    entries = [Path(entry).absolute() for entry in sys.path if entry and Path(entry).is_dir()]
    added = [entry for entry in entries if entry not in (Path.cwd(), package)]
    ours = [package] if package in (Path.cwd(), *entries) else []  # else the installation finds it
    return [str(entry) for entry in (*added, *ours) if not any(entry.is_relative_to(place) for place in known)]


def _ended_by(code: int) -> str:
    """Returns an error message for a run that ended with this code and without a line of its own."""
    number = -code if code < 0 else code - EXIT_SIGNALLED
    with suppress(ValueError):
        name = signal.Signals(number).name
        how = "was killed" if code < 0 else "was stopped"
        return f"the run {how} by {name}; resume=True goes on with it from its last checkpoint"
    return f"the run ended with exit code {code}, and without a word"
