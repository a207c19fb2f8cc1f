"""Exports the network of a trained stage, to a file named by its content, and runs the stage's test with it.

Both are recorded in the stage's folder under keys of their own. So a change of the test, such as another opponent, does
not train anything again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from loader.exit_codes import EXIT_DONE
from loader.files.fingerprint import content_digest
from loader.files.paths import find_files
from loader.files.regular import open_regular
from loader.files.whole_file import temporary_path
from loader.plugins.modules import module_command
from pool.checkpoint.folder import find_checkpoint
from pool.errors import PoolError, RunError, UnavailableError
from pool.export.command import export_command
from pool.run_folder import files
from pool.run_folder.access import FOLDER_MODE
from pool.stages.key import DIGITS, digest
from pool.stages.recipe import Stage
from pool.stages.stage_run import StageRun
from pool.supervisor.processes.program import describe_exit
from pool.supervisor.resources.run_folder import acquire_lock
from pool.task.registry import load_task_module

RECORD = "stage.json"
LOG = "test.log"
_MAX_RECORD_NBYTES = 1 << 20


def find_network(folder: Path) -> Path | None:
    """Returns the path of the network in a stage's folder; None if it is not written. The file's content is not
    read."""
    name = _read_record(folder).get("network")
    if not isinstance(name, str) or not (folder / name).is_file():
        return None
    return folder / name


def matches_name(network: Path) -> bool:
    """Tells whether a network's file has the digest that its name contains. The full file is read."""
    with suppress(OSError):
        return network.name.startswith(f"{_content_stem(network)}.")
    return False


def _content_stem(network: Path) -> str:
    """Returns the file name, without suffix, for a network's content: `nn-` and digits of its SHA-256. Raises
    OSError."""
    with os.fdopen(open_regular(network), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"nn-{digest[:DIGITS]}"


def is_tested(folder: Path) -> bool:
    """Tells whether the last test of a stage's network has passed."""
    return _read_record(folder).get("test_ended") == EXIT_DONE


def find_current_network(run: StageRun) -> Path | None:
    """Returns the path of the stage's network; None if it has to be written.

    It has to be written again if its content does not match its name, or if the stage's settings for export have
    changed. If the files by which its units are to be ordered are missing, an existing network is returned as it is,
    and without one UnavailableError is raised.
    """
    network = find_network(run.folder)
    if network is not None and not matches_name(network):
        network = None
    try:
        key = _network_key(run)
    except UnavailableError:
        if network is None:
            raise
        return network
    if _read_record(run.folder).get("network_key") != key:
        return None
    return network


def read_test_code(run: StageRun, network: Path) -> int | None:
    """Returns the exit code of the stage's test with this network; None if the test has to be run."""
    record = _read_record(run.folder)
    if record.get("test_key") != _test_key(run.stage, network):
        return None
    code = record.get("test_ended")
    return code if isinstance(code, int) else None


def check_end(run: StageRun) -> None:
    """Raises UnavailableError if files or programs are missing that the export and test of a stage still need."""
    stage = run.stage
    if not stage.options.export:
        return
    network = find_current_network(run)
    is_passed = network is not None and read_test_code(run, network) == EXIT_DONE
    if stage.options.test and not is_passed and shutil.which(stage.options.test[0]) is None:
        raise UnavailableError(f"stage {stage.name}: test: {stage.options.test[0]}: no such program")


def finish_stage(run: StageRun, notify: Callable[[str], object]) -> None:
    """Exports the stage's network and tests it, unless that was done before. Raises PoolError.

    `notify` is called with each line for the user.
    """
    stage, folder = run.stage, run.folder
    if not stage.options.export:
        return
    network = find_current_network(run)
    if network is not None and (not stage.options.test or read_test_code(run, network) == EXIT_DONE):
        return  # nothing to do; the folder may be read-only
    former = find_network(folder)
    if former is not None and not matches_name(former):
        notify(f"stage {stage.name}: {former} has other bytes than those it was named by; it is written again")
    try:
        lock = acquire_lock(folder)
        try:
            if network is None:
                network = _write_network(run, notify)
            if stage.options.test and read_test_code(run, network) != EXIT_DONE:
                _run_test(run, network, notify)
        finally:
            os.close(lock)
    except BlockingIOError:
        raise UnavailableError(f"stage {stage.name}: {folder} is in use by another run") from None
    except OSError as error:
        raise RunError(f"stage {stage.name}: {error.filename or folder}: {error.strerror}") from None
    except KeyboardInterrupt:
        notify(f"stage {stage.name}: stopped before its network was {'tested' if network else 'written'}")
        raise


def _network_key(run: StageRun) -> str:
    """Returns the digest of everything that the network's bytes depend on. Raises UnavailableError."""
    stage = run.stage
    content: dict[str, Any] = {"stage": run.key}
    try:
        paths = find_files(stage.options.permute, "permute") if stage.options.permute else []
        content["permute"] = [content_digest(path, path.stat().st_size) for path in paths]
    except (OSError, ValueError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        raise UnavailableError(f"stage {stage.name}: {reason}") from None
    if stage.options.weights is not None:
        content["weights"] = stage.options.weights
    return digest(content)


def _test_key(stage: Stage, network: Path) -> str:
    """Returns the digest of everything that the outcome of a test depends on: the network and the command."""
    return digest({"network": network.name, "test": list(stage.options.test)})


def _write_network(run: StageRun, notify: Callable[[str], object]) -> Path:
    """Exports the stage's network to its folder and records it. Returns its path."""
    stage, folder = run.stage, run.folder
    suffix = load_task_module(stage.config.task).EXPORT_SUFFIX  # type: ignore[attr-defined]  # `recipe` has checked it
    files.sweep(folder)  # files of an earlier process that was killed
    temporary_folder = temporary_path(folder / "network")
    try:
        temporary_folder.mkdir(mode=FOLDER_MODE)
        written = temporary_folder / f"network{suffix}"
        _export(run, written)
        network = folder / f"{_content_stem(written)}{suffix}"
        files.sync_file(written)
        written.rename(network)
    finally:
        files.remove_quietly(temporary_folder)
    _update_record(folder, {"network": network.name, "network_key": _network_key(run), "test_ended": None})
    notify(f"stage {stage.name}: its network is {network}")
    return network


def _export(run: StageRun, output: Path) -> None:
    """Runs `pool export` in another process, because it needs torch, which this process never imports. Raises
    PoolError."""
    options, task = run.stage.options, run.stage.config.task
    permute: list[str] = []
    for pattern in options.permute:
        permute += ["--permute", pattern]
    command = export_command(find_checkpoint(run.folder), output, task, options.weights, None, *permute)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or describe_exit(done.returncode)
        raise PoolError(f"stage {run.stage.name}: its network can't be written: {reason}", abs(done.returncode))


def _run_test(run: StageRun, network: Path, notify: Callable[[str], object]) -> None:
    """Runs the stage's test program with the network and records its exit code. Raises RunError if the test fails."""
    stage, folder = run.stage, run.folder
    command_words = [word.replace("{net}", str(network)) for word in stage.options.test]
    notify(f"stage {stage.name}: testing its network; {folder / LOG} has what the test says")
    with (folder / LOG).open("ab") as log:
        log.write(f"{network.name}: {shlex.join(command_words)}\n".encode())
        log.flush()
        command = module_command(
            "pool.process.become", str(os.getpid()), *command_words
        )  # so that it ends when this process ends
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False
        ).returncode
    _update_record(folder, {"test_key": _test_key(stage, network), "test_ended": code})
    if code:
        raise RunError(f"stage {stage.name}: its test failed: {describe_exit(code)}; {folder / LOG} has what it says")


def _read_record(folder: Path) -> dict[str, Any]:
    """Returns the record in a stage's folder; empty if there is none or it is not valid."""
    with suppress(OSError, ValueError):
        record = json.loads(files.read_all(folder / RECORD, _MAX_RECORD_NBYTES))
        if isinstance(record, dict):
            return record
    return {}


def _update_record(folder: Path, entries: Mapping[str, Any]) -> None:
    """Adds entries to the record in a stage's folder."""
    files.replace_file(folder / RECORD, json.dumps({**_read_record(folder), **entries}, indent=1).encode())
