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
_READ_BYTES = 1 << 16  # of the child's output that are read at once, at most
_POLL_SECONDS = 0.2  # longest wait for output
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
    changes = dict(overrides or {})
    if task is not None:
        changes["task"] = task_name(task)
    request = {
        "parent": os.getpid(),
        "config": config if isinstance(config, Mapping) else None,
        "path": None if isinstance(config, Mapping) else os.fspath(config),
        "overrides": changes,
        "resume": resume,
        "allow_different_numerics": allow_different_numerics,
    }
    answer_fd, child_fd = os.pipe()  # the child writes the run's folder to it
    try:
        with translate_errors():
            child = _start_child(encode_json({**request, "answer": child_fd}), child_fd, quiet)
    except BaseException:
        os.close(answer_fd)
        raise
    finally:
        os.close(child_fd)
    with os.fdopen(answer_fd, "rb") as answer, _ChildOutput(child, quiet) as output:
        code, error_text = output.wait_for_end()
        folder = answer.read().decode(errors="surrogateescape")
    run_dir = Path(folder) if folder else None
    if code != EXIT_DONE or run_dir is None:
        exit_code = code if code >= 0 else EXIT_SIGNALLED - code
        raise RunFailedError(error_text or _describe_exit(code), exit_code, run_dir)
    return Result(run_dir)


def _start_child(request: bytes, answer_fd: int, quiet: bool) -> subprocess.Popen[bytes]:
    """Starts the child process and writes the request to it. The child gets a process group of its own, so that Ctrl-C
    on a terminal reaches only this process, which passes it on."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", _START],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
        pass_fds=[answer_fd],
        process_group=0,
        stdout=_stdout_of_child(quiet),
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    try:
        with suppress(BrokenPipeError):
            child.stdin.write(request + b"\n")
            child.stdin.flush()
    except BaseException:
        _stop_child(child)
        raise
    return child


def _stop_child(child: subprocess.Popen[bytes]) -> None:
    """Ends the child's standard input, which stops its run, and waits for it."""
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    child.wait()


def _stdout_of_child(quiet: bool) -> int | None:
    """Returns the child's standard output for `subprocess.Popen`: None (this process's own) if `sys.stdout` is a file,
    else PIPE; DEVNULL if quiet."""
    if quiet:
        return subprocess.DEVNULL
    with suppress(AttributeError, OSError, ValueError):  # in a notebook `sys.stdout` is no file
        if sys.stdout.fileno() == 1:
            sys.stdout.flush()
            return None
    return subprocess.PIPE


class _ChildOutput:
    """Passes on the output of a child process until it has ended. A context manager: leaving it closes the child's
    standard input, which stops a run that still goes on."""

    def __init__(self, child: subprocess.Popen[bytes], quiet: bool) -> None:
        self._child = child
        self._quiet = quiet
        self._errors = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._exception: BaseException | None = None  # the first exception raised here while waiting
        self._num_signals_due = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _stop_child(self._child)

    def wait_for_end(self) -> tuple[int, str]:
        """Waits for the child's end. Returns its exit code and what it has written to stderr about its end. An
        exception that is raised here meanwhile (KeyboardInterrupt, by the handler of an alarm, by a standard output
        that fails, by another thread) stops the run as Ctrl-C does. It is raised again when the run has ended."""
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            while True:
                try:
                    self._send_due_signals()
                    while selector.get_map():
                        self._forward_output(selector)
                    code = self._child.wait()
                    break
                except BaseException as error:
                    self._interrupt_child(error)
        error_text = self._errors.decode(errors="replace").strip()
        if self._exception is not None:
            raise self._exception
        if error_text and code == 0 and not self._quiet:
            sys.stderr.write(f"{error_text}\n")  # warnings of libraries, as the run itself went well
        return code, error_text.removeprefix(_PREFIX)

    def _register(self, selector: selectors.BaseSelector) -> None:
        """Registers the child's outputs, each with the function that handles its bytes."""
        if self._child.stdout is not None:
            selector.register(self._child.stdout, selectors.EVENT_READ, self._print)
        if self._child.stderr is not None:
            selector.register(self._child.stderr, selectors.EVENT_READ, self._errors.extend)

    def _interrupt_child(self, error: BaseException) -> None:
        """Records an exception and the signal that is to interrupt the child. While the run is being stopped only
        another KeyboardInterrupt interrupts it again, which stops it at once."""
        if self._exception is None:
            self._exception = error
            self._num_signals_due += 1
        elif isinstance(error, KeyboardInterrupt):
            self._num_signals_due += 1

    def _send_due_signals(self) -> None:
        while self._num_signals_due > 0:
            self._child.send_signal(signal.SIGINT)
            self._num_signals_due -= 1

    def _forward_output(self, selector: selectors.BaseSelector) -> None:
        """Reads output of the child, waiting at most _POLL_SECONDS for it, since an exception that another thread
        raises in this one is delivered only between waits. Unregisters outputs that have ended."""
        for key, _ in selector.select(_POLL_SECONDS):
            data = os.read(key.fd, _READ_BYTES)
            if data:
                handle = key.data
                handle(data)
            else:
                selector.unregister(key.fileobj)

    def _print(self, data: bytes) -> None:
        """Writes output of the child to `sys.stdout`, unless writing to it may have raised the recorded exception."""
        if self._exception is not None and not isinstance(self._exception, KeyboardInterrupt):
            return
        sys.stdout.write(self._decoder.decode(data))
        sys.stdout.flush()


def _import_path() -> list[str]:
    """Returns the folders where this process finds modules and a new one would not: the script's folder, and what was
    added to sys.path. The current folder is left out, as it is searched only for the modules that settings name."""
    path_names = ("stdlib", "platstdlib", "purelib", "platlib")
    standard_folders = [
        *map(sysconfig.get_path, path_names),
        *site.getsitepackages(),
        site.getusersitepackages(),
    ]
    project = Path(__file__).parent.parent
    entries = [Path(entry).absolute() for entry in sys.path if entry and Path(entry).is_dir()]
    folders = [entry for entry in entries if entry not in (Path.cwd(), project)]
    if project in (Path.cwd(), *entries):  # else the installation finds it
        folders.append(project)
    return [
        str(folder) for folder in folders if not any(folder.is_relative_to(standard) for standard in standard_folders)
    ]


def _describe_exit(code: int) -> str:
    """Returns an error message for a run that ended with this code and without a line of its own."""
    is_killed = code < 0
    try:
        name = signal.Signals(-code if is_killed else code - EXIT_SIGNALLED).name
    except ValueError:
        return f"the run ended with exit code {code}, and without a word"
    verb = "killed" if is_killed else "stopped"
    return f"the run was {verb} by {name}; resume=True goes on with it from its last checkpoint"
