"""`pool` without its imports, which are most of a short run: forked from a process that has made them once.

So is the first fork server of a run. That one is forked before the supervisor does anything, so it has of the
supervisor what an exec would leave it; a later one is started by exec. Tests that need the process itself (signals, its
output) call the program by its command line, as its user does; `test_endings` compares their bits.

Each process that runs tests has a process of its own to fork from: `python -m tests.support.warm CHANNEL`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pool.config.tree import Config
    from pool.protocol.identity import Peer


_IMPORTED = (
    "pool.commands.main",
    "pool.config.load",
    "pool.coordinator.metrics.tensorboard",
    "pool.process.forkserver",
    "pool.supervisor.prepare.overrides",
    "pool.supervisor.train",
    "pool.task.registry",
    "torch._dynamo",  # for torch's optimizers
    "torch.fx.experimental.symbolic_shapes",  # for backward on a device
)
_READ_AT_IMPORT = ("CUDA", "GOMP", "KMP", "LD_", "MKL", "OMP", "OPENBLAS", "PYTHON", "TORCH")
_MOST_BYTES = 1 << 17  # of a request


_SET_BY_IMPORTS = ("TORCHINDUCTOR_CACHE_DIR",)  # in a process of tests that has stepped one of torch's optimizers


def call_pool(
    *arguments: str | Path, timeout: float = 280, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`pool ARGUMENTS` in a folder. Raises subprocess.TimeoutExpired."""
    words = [str(argument) for argument in arguments]
    environment = environment or os.environ
    if (done := _WARM.call(words, environment, cwd, timeout)) is not None:
        return done
    return subprocess.run(
        [sys.executable, "-m", "pool", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


class _Warm:
    """The process that calls are forked from, as its user knows it."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._owner = 0
        self._read: dict[str, str] = {}

    def call(
        self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, timeout: float
    ) -> subprocess.CompletedProcess[str] | None:
        """None if the environment has changed in what is read at import, or in another thread than the main one. Raises
        subprocess.TimeoutExpired."""
        if threading.current_thread() is not threading.main_thread():
            return None
        if self._channel is None or self._owner != os.getpid():
            self._start()
        assert self._channel is not None
        if _read_at_import() != self._read:
            return None
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            order = {"arguments": list(arguments), "environment": dict(environment), "cwd": str(cwd)}
            socket.send_fds(self._channel, [json.dumps(order).encode()], [out.fileno(), err.fileno()])
            pid = int(self._channel.recv(32))
            if not select.select([self._channel], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                self._channel.recv(32)
                raise subprocess.TimeoutExpired(list(arguments), timeout, _text(out), _text(err))
            code = os.waitstatus_to_exitcode(int(self._channel.recv(32)))
            return subprocess.CompletedProcess(list(arguments), code, _text(out), _text(err))

    def _start(self) -> None:
        from pool.supervisor.processes.forkserver import process_environment

        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._owner, self._read = os.getpid(), _read_at_import()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm", str(theirs.fileno())],
                cwd=ROOT,
                env=process_environment(),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(_end, self._channel, process)


_WARM = _Warm()


def _end(channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
    channel.close()
    process.wait()


def _read_at_import() -> dict[str, str]:
    names = (name for name in os.environ if name.startswith(_READ_AT_IMPORT) and name not in _SET_BY_IMPORTS)
    return {name: os.environ[name] for name in names}


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def main() -> None:
    """The process that is forked from: one call at a time."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    for name in _IMPORTED:
        importlib.import_module(name)
    for name in importlib.import_module("pool.process.forkserver")._IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    while True:
        order, files, _, _ = socket.recv_fds(channel, _MOST_BYTES, 2)
        if not order:
            return
        pid = os.fork()
        if pid == 0:
            channel.close()
            _call(**json.loads(order), out=files[0], err=files[1])
        for file in files:
            os.close(file)
        channel.send(str(pid).encode())
        channel.send(str(os.waitpid(pid, 0)[1]).encode())


def _call(arguments: list[str], environment: dict[str, str], cwd: str, out: int, err: int) -> NoReturn:
    """Becomes `pool`, with a fork server in reserve."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.close(out)
        os.close(err)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(cwd)
        reserve = _Reserve()
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [str(ROOT / "pool/__main__.py"), *arguments]
        reserve.stand_in()
        gc.enable()
        code = importlib.import_module("pool.commands.main").main()
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class _Reserve:
    """A process that becomes the fork server when the supervisor would start one; ends with the supervisor."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self._channel.close()
            _become_forkserver(theirs)
        theirs.close()

    def stand_in(self) -> None:
        """Once: a second fork server is started as ever."""
        module: Any = importlib.import_module("pool.supervisor.processes.forkserver")
        by_exec = module._exec

        def instead(peer: Peer, config: Config, theirs: socket.socket, output: int) -> int:
            module._exec = by_exec
            order = {
                "arguments": module.command_arguments(peer, config, theirs),
                "environment": module.process_environment(),
            }
            os.setpgid(self._pid, 0)
            socket.send_fds(self._channel, [json.dumps(order).encode()], [theirs.fileno(), output])
            self._channel.close()
            return self._pid

        module._exec = instead


def _become_forkserver(channel: socket.socket) -> NoReturn:
    order, files, _, _ = socket.recv_fds(channel, _MOST_BYTES, 2)
    if not order:
        os._exit(0)
    channel.close()
    lifeline, output = files
    asked = json.loads(order)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, stream in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, stream)
    os.close(null)
    os.close(output)
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["", str(lifeline), *asked["arguments"][1:]]  # the descriptor has another number here
    try:
        importlib.import_module("pool.process.forkserver").main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
