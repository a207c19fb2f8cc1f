"""Exports a network from a checkpoint to a file for its users, such as a chess engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loader.errors import SPACE_ERRORS, DataError, has_error_number
from loader.exit_codes import EXIT_FAILED, EXIT_RESOURCES
from loader.files.endings import check_output_ending
from loader.plugins.error_text import format_error_with_location
from pool.errors import ConfigError, PoolError
from pool.export.load import TrainedNetwork, load_network
from pool.export.member import NEWEST, Choice
from pool.export.onnx import SUFFIX, write_onnx
from pool.run_folder.strict_json import printable
from pool.task.registry import load_task_module
from pool.task.task import HeaderTask, ReorderingTask

DESCRIPTION = "Trained with sparsepool."  # of a network that has no description of its own
_HEADERS = {"c": ".h", "rust": ".rs"}  # suffix by language


def export_checkpoint(
    path: Path,
    output: Path,
    description: str | None,
    task: str | None,
    choice: Choice = NEWEST,
    *,
    header: str | None = None,
    permute: Sequence[str] = (),
    onnx: bool = False,
    notify: Callable[[str], object] | None = None,
) -> TrainedNetwork:
    """Exports a network of a checkpoint, or of the newest checkpoint of a run, to `output`. Returns the network.

    `description`: text in the file; None means the description of the file that `pool convert` made the checkpoint
    from, or else DESCRIPTION. `task`: the task's name as the caller knows it, required unless the task is built in.
    `header`: a language, in which source code that describes the network is written beside it. `permute`: data files,
    by which the network's units are reordered first; `notify` is called with the gain. `onnx`: writes an ONNX model,
    which is possible for each task that predicts.

    Raises CheckpointError for a bad checkpoint. Raises ConfigError for another task, or if there are several members
    and none is chosen. Raises UsageError for an `output` with the ending of another format. Raises PoolError for
    weights that the format can't hold.
    """
    trained = load_network(path, task, choice)
    header_file = None if header is None else header_path(output, header)
    suffix = SUFFIX if onnx else getattr(load_task_module(trained.name), "EXPORT_SUFFIX", "")
    if suffix:
        kind = "ONNX models" if onnx else f"files of the task {printable(trained.name)}"
        check_output_ending(output, kind, [suffix])
    _check_output(output)
    if header_file is not None:
        _check_output(header_file)
    if description is None:
        description = trained.description or DESCRIPTION
    with _converting_errors(output):
        if permute:
            gain = _reorder(trained, permute)
            if gain and notify is not None:
                notify(gain)
        header_text = "" if header is None else _build_header(trained, output, header)
        if onnx:
            write_onnx(trained, output, description)
        else:
            trained.task.export(trained.model, output, description)
        if output.is_file():
            _apply_umask(output)
        if header_file is not None:
            header_file.write_text(header_text, encoding="utf-8")
    if not output.exists():
        raise PoolError(f"{output}: not written: the method `export` of the task {trained.name} makes no file")
    return trained


@contextmanager
def _converting_errors(output: Path) -> Iterator[None]:
    """Converts errors of the task's code and of the disk, raised within, to PoolErrors that name a file."""
    try:
        yield
    except PoolError:
        raise
    except OSError as error:
        raise PoolError(f"{error.filename or output}: {error.strerror}", _exit_code(error)) from None
    except DataError as error:  # it names the file
        raise PoolError(str(error), _exit_code(error)) from None
    except ValueError as error:
        raise PoolError(f"{output}: not written: {error}") from None
    except Exception as error:
        raise PoolError(f"{output}: not written: {format_error_with_location(error)}", _exit_code(error)) from None


def _exit_code(error: Exception) -> int:
    return EXIT_RESOURCES if has_error_number(error, SPACE_ERRORS) else EXIT_FAILED


def header_path(output: Path, language: str) -> Path:
    """Returns the path of the source code that describes `output`."""
    return output.with_suffix(_HEADERS[language])


def _build_header(trained: TrainedNetwork, output: Path, language: str) -> str:
    """Returns source code that describes the network, in a language.

    Raises ConfigError if the task has none, and whatever the task's code raises.
    """
    if not isinstance(trained.task, HeaderTask):
        raise ConfigError(f"export: --header: files of the task {printable(trained.name)} have none")
    return trained.task.header(trained.model, output, language)


def _reorder(trained: TrainedNetwork, patterns: Sequence[str]) -> str:
    """Reorders the units of a network by data files. Returns a line about the gain.

    Raises ConfigError if the task can't do it, and whatever the task's code raises.
    """
    if not isinstance(trained.task, ReorderingTask):
        raise ConfigError(f"export: --permute: the task {printable(trained.name)} can't change the order of units")
    return trained.task.reorder(trained.model, patterns)


def _apply_umask(output: Path) -> None:
    """Sets a file's mode by the umask. Some libraries, such as safetensors, make files that only their owner can
    read."""
    mask = os.umask(0)
    os.umask(mask)
    output.chmod(0o666 & ~mask)


def _check_output(output: Path) -> None:
    """Raises PoolError for a path that is no regular file. Writing to a pipe would block, and a device would be
    overwritten."""
    if output.is_dir():
        raise PoolError(f"{output}: is a folder; name a file")
    if output.exists() and not output.is_file():
        raise PoolError(f"{output}: is not a regular file")
