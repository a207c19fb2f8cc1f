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
_LONGEST = 1 << 20


def network_of(folder: Path) -> Path | None:
    """Returns the path of the network in a stage's folder; None if it is not written. The file's content is not
    read."""
    name = _record(folder).get("network")
    return folder / name if isinstance(name, str) and (folder / name).is_file() else None


def has_bytes_of_its_name(network: Path) -> bool:
    """Returns whether a network's file has the digest that its name contains. The whole file is read."""
    with suppress(OSError):
        return network.name.startswith(f"{_stem_of(network)}.")
    return False


def _stem_of(network: Path) -> str:
    """Returns the file name, without suffix, for a network's content: `nn-` and digits of its SHA-256. Raises
    OSError."""
    with os.fdopen(open_regular(network), "rb") as file:
        return f"nn-{hashlib.file_digest(file, 'sha256').hexdigest()[:DIGITS]}"


def is_tested(folder: Path) -> bool:
    """Returns whether the last test of a stage's network has passed."""
    return _record(folder).get("test_ended") == EXIT_DONE


def network_wanted(run: StageRun) -> Path | None:
    """Returns the path of the stage's network; None if it has to be written.

    It has to be written again if its content does not match its name, or if the stage's settings for export have
    changed. If the files by which its units are to be ordered are missing, an existing network is returned as it is,
    and without one UnavailableError is raised.
    """
    network = network_of(run.folder)
    if network is not None and not has_bytes_of_its_name(network):
        network = None
    try:
        return network if _record(run.folder).get("network_key") == _network_key(run) else None
    except UnavailableError:
        if network is None:
            raise
        return network


def test_outcome(run: StageRun, network: Path) -> int | None:
    """Returns the exit code of the stage's test with this network; None if the test has to be run."""
    record = _record(run.folder)
    code = record.get("test_ended") if record.get("test_key") == _test_key(run.stage, network) else None
    return code if isinstance(code, int) else None


def check_end(run: StageRun) -> None:
    """Raises UnavailableError if files or programs are missing that the export and test of a stage still need."""
    stage = run.stage
    if not stage.own.export:
        return
    network = network_wanted(run)
    tested = network is not None and test_outcome(run, network) == EXIT_DONE
    if stage.own.test and not tested and shutil.which(stage.own.test[0]) is None:
        raise UnavailableError(f"stage {stage.name}: test: {stage.own.test[0]}: no such program")


def end_stage(run: StageRun, say: Callable[[str], object]) -> None:
    """Exports the stage's network and tests it, unless that was done before. Raises PoolError.

    `say` is called with each line for the user.
    """
    stage, folder = run.stage, run.folder
    if not stage.own.export:
        return
    network = network_wanted(run)
    if network is not None and (not stage.own.test or test_outcome(run, network) == EXIT_DONE):
        return  # nothing to do; the folder may be read-only
    former = network_of(folder)
    if former is not None and not has_bytes_of_its_name(former):
        say(f"stage {stage.name}: {former} has other bytes than those it was named by; it is written again")
    try:
        lock = acquire_lock(folder)
        try:
            if network is None:
                network = _write_network(run, say)
            if stage.own.test and test_outcome(run, network) != EXIT_DONE:
                _test(run, network, say)
        finally:
            os.close(lock)
    except BlockingIOError:
        raise UnavailableError(f"stage {stage.name}: {folder} is in use by another run") from None
    except OSError as error:
        raise RunError(f"stage {stage.name}: {error.filename or folder}: {error.strerror}") from None
    except KeyboardInterrupt:
        say(f"stage {stage.name}: stopped before its network was {'tested' if network else 'written'}")
        raise


def _network_key(run: StageRun) -> str:
    """Returns the digest of everything that the network's bytes depend on. Raises UnavailableError."""
    stage = run.stage
    own: dict[str, Any] = {"stage": run.key}
    try:
        paths = find_files(stage.own.permute, "permute") if stage.own.permute else []
        own["permute"] = [content_digest(path, path.stat().st_size) for path in paths]
    except (OSError, ValueError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        raise UnavailableError(f"stage {stage.name}: {why}") from None
    return digest(own if stage.own.weights is None else {**own, "weights": stage.own.weights})


def _test_key(stage: Stage, network: Path) -> str:
    """Returns the digest of everything that the outcome of a test depends on: the network and the command."""
    return digest({"network": network.name, "test": list(stage.own.test)})


def _write_network(run: StageRun, say: Callable[[str], object]) -> Path:
    """Exports the stage's network to its folder and records it. Returns its path."""
    stage, folder = run.stage, run.folder
    suffix = load_task_module(stage.config.task).EXPORT_SUFFIX  # type: ignore[attr-defined]  # `recipe` has checked it
    files.sweep(folder)  # files of an earlier process that was killed
    beside = temporary_path(folder / "network")
    try:
        beside.mkdir(mode=FOLDER_MODE)
        written = beside / f"network{suffix}"
        _export(run, written)
        network = folder / f"{_stem_of(written)}{suffix}"
        files.sync_file(written)
        written.rename(network)
    finally:
        files.remove_quietly(beside)
    _note(folder, {"network": network.name, "network_key": _network_key(run), "test_ended": None})
    say(f"stage {stage.name}: its network is {network}")
    return network


def _export(run: StageRun, output: Path) -> None:
    """Runs `pool export` in another process, because it needs torch, which this process never imports. Raises
    PoolError."""
    own, config = run.stage.own, run.stage.config
    permute = [word for pattern in own.permute for word in ("--permute", pattern)]
    command = export_command(find_checkpoint(run.folder), output, config.task, own.weights, None, *permute)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip() or describe_exit(done.returncode)
        raise PoolError(f"stage {run.stage.name}: its network can't be written: {why}", abs(done.returncode))


def _test(run: StageRun, network: Path, say: Callable[[str], object]) -> None:
    """Runs the stage's test program with the network and records its exit code. Raises RunError if the test fails."""
    stage, folder = run.stage, run.folder
    words = [word.replace("{net}", str(network)) for word in stage.own.test]
    say(f"stage {stage.name}: testing its network; {folder / LOG} has what the test says")
    with (folder / LOG).open("ab") as log:
        log.write(f"{network.name}: {shlex.join(words)}\n".encode())
        log.flush()
        command = module_command(
            "pool.process.become", str(os.getpid()), *words
        )  # so that it ends when this process ends
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False
        ).returncode
    _note(folder, {"test_key": _test_key(stage, network), "test_ended": code})
    if code:
        raise RunError(f"stage {stage.name}: its test failed: {describe_exit(code)}; {folder / LOG} has what it says")


def _record(folder: Path) -> dict[str, Any]:
    """Returns the record in a stage's folder; empty if there is none or it is not valid."""
    with suppress(OSError, ValueError):
        record = json.loads(files.read_all(folder / RECORD, _LONGEST))
        if isinstance(record, dict):
            return record
    return {}


def _note(folder: Path, made: Mapping[str, Any]) -> None:
    """Adds entries to the record in a stage's folder."""
    files.replace_file(folder / RECORD, json.dumps({**_record(folder), **made}, indent=1).encode())
