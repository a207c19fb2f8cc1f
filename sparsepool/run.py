"""A whole run from Python: the supervisor as a child process, so that it works in threads, notebooks and asyncio."""

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
from typing import Any

from loader.exit_codes import EXIT_DONE, EXIT_SIGNALLED
from sparsepool.errors import RunFailedError, one_line_errors
from sparsepool.plain import as_json, task_name
from sparsepool.result import Result

_START = "import sys; from sparsepool.child import main; sys.exit(main())"
_PIECE = 1 << 16  # bytes of output at once
_PREFIX = "pool: "  # of an error's line


def train(
    config: str | os.PathLike[str] | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    task: Any = None,
    resume: bool = False,
    quiet: bool = False,
    allow_different_numerics: bool = False,
) -> Result:
    """Trains to the end, as `pool train` does, and waits for it; for asyncio: `await asyncio.to_thread(train, ...)`.

    config: a TOML file, or its content as a mapping; keys may be dotted: {"train.steps": 500}.
    overrides: changes to it, as `--set`; values as in Python.
    task: what is trained, instead of the key `task`: a module, a class or an object of a module, or its name. Other
        processes import it from that module, which must not be the script or notebook itself.
    resume: go on from the last checkpoint in run.dir, if there is one.
    quiet: show nothing; else the run's output is this process's own (`sys.stdout` in a notebook).

    KeyboardInterrupt lets the run finish its step and write a checkpoint, and is then raised; a second one stops the
    run at once. A run whose caller dies stops by itself, with a checkpoint.

    Raises SparsepoolError for what can't be started, RunFailedError with the exit code, the line or lines and the
    folder of a run that ends before its last step.
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
        with one_line_errors():
            child = _started(as_json({**asked, "answer": theirs}), theirs, quiet)
    except BaseException:
        os.close(answer)
        raise
    finally:
        os.close(theirs)
    with os.fdopen(answer, "rb") as said:
        code, lines, interrupted = _attend(child, quiet)
        place = said.read().decode(errors="surrogateescape")
    run_dir = Path(place) if place else None
    if interrupted:
        raise KeyboardInterrupt
    if code != EXIT_DONE or run_dir is None:
        raise RunFailedError(lines or _ended_by(code), code if code >= 0 else EXIT_SIGNALLED - code, run_dir)
    return Result(run_dir)


def _started(asked: bytes, answer: int, quiet: bool) -> subprocess.Popen[bytes]:
    """The child, which has been told what to do. A group of its own: Ctrl-C on a terminal is this process's to pass."""
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
    with suppress(BrokenPipeError), child.stdin:
        child.stdin.write(asked)
    return child


def _output(quiet: bool) -> int | None:
    """The file that the child writes to: this process's own, if `sys.stdout` is a file."""
    if quiet:
        return subprocess.DEVNULL
    with suppress(AttributeError, OSError, ValueError):  # in a notebook it is none
        if sys.stdout.fileno() == 1:
            sys.stdout.flush()
            return None
    return subprocess.PIPE


def _attend(child: subprocess.Popen[bytes], quiet: bool) -> tuple[int, str, bool]:
    """Passes the child's output on, and KeyboardInterrupt to it, until it has ended: exit code, what it said of its
    end, whether the caller was interrupted."""
    errors = bytearray()
    text = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def show(data: bytes) -> None:
        sys.stdout.write(text.decode(data))
        sys.stdout.flush()

    interrupted = False
    with selectors.DefaultSelector() as selector:
        for stream, take in ((child.stdout, show), (child.stderr, errors.extend)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, (stream, take))
        while True:
            try:
                while selector.get_map():
                    _read_some(selector)
                code = child.wait()
                break
            except KeyboardInterrupt:
                interrupted = True
                child.send_signal(signal.SIGINT)
    said = errors.decode(errors="replace").strip()
    if said and code == 0 and not quiet:
        sys.stderr.write(f"{said}\n")  # warnings of libraries
    return code, said.removeprefix(_PREFIX), interrupted


def _read_some(selector: selectors.BaseSelector) -> None:
    """Waits for output; closes what has ended."""
    for key, _ in selector.select():
        stream, take = key.data
        if data := os.read(key.fd, _PIECE):
            take(data)
        else:
            selector.unregister(stream)
            stream.close()


def _import_path() -> list[str]:
    """Returns the folders where this process finds modules and a new one would not: the script's folder, and what was
    added to sys.path. The current folder is searched for the modules that settings name, and is left to that."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    known = [*map(sysconfig.get_path, names), *site.getsitepackages(), site.getusersitepackages()]
    package = Path(__file__).parent.parent
    entries = [Path(entry).absolute() for entry in sys.path if entry and Path(entry).is_dir()]
    added = [entry for entry in entries if entry not in (Path.cwd(), package)]
    ours = [package] if package in (Path.cwd(), *entries) else []  # else the installation finds it
    return [str(entry) for entry in (*added, *ours) if not any(entry.is_relative_to(place) for place in known)]


def _ended_by(code: int) -> str:
    number = -code if code < 0 else code - EXIT_SIGNALLED
    with suppress(ValueError):
        name = signal.Signals(number).name
        how = "was killed" if code < 0 else "was stopped"
        return f"the run {how} by {name}; resume=True goes on with it from its last checkpoint"
    return f"the run ended with exit code {code}, and without a word"
