"""Ends a stage that is trained: writes its network, to a file named by its content, and tests it.

Both are noted in the stage's folder with keys of their own: another opponent trains nothing again.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from loader.exit_codes import EXIT_DONE
from loader.files.whole_file import temporary
from loader.plugins.modules import command_of
from loader.stream.sources import NoFileError, find_files
from pool.checkpoint.folder import locate
from pool.checkpoint.state import FOLDER, LAST
from pool.errors import ConfigError, PoolError, RunError, UnavailableError
from pool.nets.export import takes_average
from pool.run_folder import files
from pool.run_folder.access import FOLDER_MODE
from pool.stages.key import DIGITS, content_digest, digest
from pool.stages.recipe import Stage
from pool.supervisor.processes.program import ended
from pool.supervisor.resources.run_folder import locked
from pool.task.registry import is_bundled, task_module

RECORD = "stage.json"
LOG = "test.log"
_LONGEST = 1 << 20


def network_of(folder: Path) -> Path | None:
    """Returns the network in a stage's folder; None if it is not written."""
    name = _record(folder).get("network")
    return folder / name if isinstance(name, str) and (folder / name).is_file() else None


def is_tested(folder: Path) -> bool:
    return _record(folder).get("test_ended") == EXIT_DONE


def end_stage(stage: Stage, key: str, folder: Path, say: Callable[[str], object]) -> None:
    """Writes the stage's network and tests it, unless that has been done. Raises PoolError."""
    if not stage.own.export:
        return
    try:
        lock = locked(folder)
        try:
            network = _network(stage, key, folder, say)
            if stage.own.test:
                _test(stage, network, folder, say)
        finally:
            os.close(lock)
    except BlockingIOError:
        raise UnavailableError(f"stage {stage.name}: {folder} is in use by another run") from None
    except OSError as error:
        raise RunError(f"stage {stage.name}: {error.filename or folder}: {error.strerror}") from None


def _network(stage: Stage, key: str, folder: Path, say: Callable[[str], object]) -> Path:
    own = digest({"stage": key, "permute": [content_digest(path, path.stat().st_size) for path in _permute(stage)]})
    record, known = _record(folder), network_of(folder)
    if known is not None and record.get("network_key") == own:
        return known
    suffix = task_module(stage.config.task).EXPORT_SUFFIX  # type: ignore[attr-defined]  # `recipe` has looked
    files.sweep(folder)  # of a predecessor that was killed
    beside = temporary(folder / "network")
    try:
        beside.mkdir(mode=FOLDER_MODE)
        written = beside / f"network{suffix}"
        _export(stage, folder, written)
        network = folder / f"nn-{hashlib.sha256(written.read_bytes()).hexdigest()[:DIGITS]}{suffix}"
        files.sync_file(written)
        written.rename(network)
    finally:
        files.remove_quietly(beside)
    _note(folder, {"network": network.name, "network_key": own})
    say(f"stage {stage.name}: its network is {network}")
    return network


def _export(stage: Stage, folder: Path, output: Path) -> None:
    """Runs `pool export`, which needs torch: this process never imports it."""
    averaged = takes_average(locate(folder), stage.config.train.export_weights or "")
    words = ["export", str(folder / FOLDER / LAST), "-o", str(output), *(["--ema"] if averaged else [])]
    words += [] if is_bundled(stage.config.task) else ["--task", stage.config.task]
    for pattern in stage.own.permute:
        words += ["--permute", pattern]
    done = subprocess.run(command_of("pool", *words), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip() or ended(done.returncode)
        raise PoolError(f"stage {stage.name}: its network can't be written: {why}", abs(done.returncode))


def _test(stage: Stage, network: Path, folder: Path, say: Callable[[str], object]) -> None:
    own = digest({"network": network.name, "test": list(stage.own.test)})
    if _record(folder).get("test_key") == own and is_tested(folder):
        return
    words = [word.replace("{net}", str(network)) for word in stage.own.test]
    say(f"stage {stage.name}: testing its network; {folder / LOG} has what the test says")
    with (folder / LOG).open("ab") as log:
        try:
            code = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False
            ).returncode
        except OSError as error:
            raise ConfigError(f"stage {stage.name}: test: {words[0]}: {error.strerror}") from None
    _note(folder, {"test_key": own, "test_ended": code})
    if code:
        raise RunError(f"stage {stage.name}: its test failed: {ended(code)}; {folder / LOG} has what it says")


def _permute(stage: Stage) -> Sequence[Path]:
    try:
        return find_files(stage.own.permute, f"stage {stage.name}: permute") if stage.own.permute else []
    except NoFileError as error:
        raise ConfigError(str(error)) from None


def _record(folder: Path) -> dict[str, Any]:
    """Returns what has been made so far: nothing, if the file is no record of ours."""
    with suppress(OSError, ValueError):
        record = json.loads(files.read_all(folder / RECORD, _LONGEST))
        if isinstance(record, dict):
            return record
    return {}


def _note(folder: Path, made: Mapping[str, Any]) -> None:
    files.replace_file(folder / RECORD, json.dumps({**_record(folder), **made}, indent=1).encode())
