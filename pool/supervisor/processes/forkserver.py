"""Starts the fork server by exec, then asks it for every other process of the run."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from loader.plugins.modules import module_command
from pool.config.tree import Config
from pool.process import lifeline, prctl
from pool.protocol.identity import Peer
from pool.supervisor.processes.child import Child
from pool.supervisor.resources.logs import open_log


def become_subreaper() -> None:
    """Makes this process the parent of all processes that the fork server forks, so that it can wait for them. Raises
    OSError."""
    prctl.adopt_orphans()
    # if it is ignored, which exec inherits, no child can be waited for
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


@dataclass(frozen=True)
class ProcessRequest:
    """Describes a process that the fork server was asked to fork and has not forked yet."""

    peer: Peer
    channel: socket.socket
    log: Path


class ForkServer(Child):
    """Runs the fork server and has it fork one process at a time.

    `channel` is readable when the fork server has answered, see `receive_child`.
    """

    def __init__(self, peer: Peer, config: Config, log: Path) -> None:
        """Starts the fork server. Raises OSError."""
        channel, theirs = lifeline.create_pair()
        output = open_log(log)
        try:
            with theirs:
                super().__init__(peer, _exec(peer, config, theirs, output), channel, log)
        except OSError:
            channel.close()  # a process that has the other end dies when this one closes
            raise
        finally:
            os.close(output)
        self.ready = False
        self._request: ProcessRequest | None = None

    @property
    def can_fork(self) -> bool:
        """Tells whether the fork server is ready and has no request to answer."""
        return self.ready and self._request is None

    def request_process(self, peer: Peer, log: Path) -> None:
        """Asks for the process of `peer`. Does nothing if the fork server is dead."""
        assert self.can_fork
        channel, theirs = lifeline.create_pair()
        with theirs:
            lifeline.send_request(self.channel, theirs)
        self._request = ProcessRequest(peer, channel, log)

    def receive_child(self) -> Child | None:
        """Reads the fork server's answer once the channel is readable.

        Returns the fork server itself if it has got ready, or the process it was asked for, which waits for its
        settings. None if the fork server is dead. Raises OSError, also if no process can be forked.
        """
        number = lifeline.receive_number(self.channel)
        if number is None:
            return None
        if not self.ready:
            self.ready = True
            return self
        assert self._request is not None
        request, self._request = self._request, None
        try:
            if number < 0:
                raise OSError(-number, os.strerror(-number), "fork")
            return Child(request.peer, number, request.channel, request.log)
        except OSError:
            request.channel.close()
            raise

    def reap(self) -> str:
        if self._request is not None:
            self._request.channel.close()  # if the process was forked after all, it dies when this closes
        return super().reap()

    def _kill_group(self) -> None:
        """Does nothing: processes just forked stay in the fork server's group for a moment, and must live on."""


def process_environment() -> dict[str, str]:
    """Returns the environment of all processes.

    Variables on which the results' bits could depend are fixed. How torch's threads wait is only a default.
    """
    return {
        "OMP_WAIT_POLICY": "PASSIVE",  # torch's threads sleep between two operations, to leave the cores to others
        **os.environ,
        "OMP_DYNAMIC": "FALSE",
        "MKL_DYNAMIC": "FALSE",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PYTHONHASHSEED": "0",  # gives a set of strings one order, since a task may build its model from a set
        "TORCHINDUCTOR_DETERMINISTIC": "1",  # for models that call torch.compile
        "OPENBLAS_NUM_THREADS": "1",  # numpy would start threads at import; then it must not fork
    }


def modules_to_import(config: Config) -> str:
    """Returns the names of modules for the fork server to import, with commas, that every process would import
    otherwise.

    torch's optimizers import torch._dynamo; the pool's own optimizers do not.
    """
    ours = all(member.optimizer.name.startswith("pool.optim.") for member in config.members)
    return "" if ours else "torch._dynamo"


def command_arguments(peer: Peer, config: Config, theirs: socket.socket) -> list[str]:
    """Returns the arguments of the fork server's command line, after its module."""
    numbers = (theirs.fileno(), os.getpid(), peer.incarnation)
    return [*map(str, numbers), modules_to_import(config), *config.testing.crash_points]


def _exec(peer: Peer, config: Config, theirs: socket.socket, output: int) -> int:
    """Starts the fork server's program. Returns its pid."""
    os.set_inheritable(theirs.fileno(), True)
    return os.posix_spawn(
        sys.executable,
        module_command("pool.process.forkserver", *command_arguments(peer, config, theirs)),
        process_environment(),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
        setpgroup=0,
    )
