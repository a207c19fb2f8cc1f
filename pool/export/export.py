"""From a checkpoint to the file that the network's user reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from loader.errors import SPACE_ERRORS, DataError, comes_from
from loader.exit_codes import EXIT_FAILED, EXIT_RESOURCES
from loader.files.endings import output_ending
from loader.plugins.error_text import error_line
from pool.errors import ConfigError, PoolError
from pool.export.load import Trained, load_trained
from pool.export.member import NEWEST, Choice
from pool.export.onnx import SUFFIX, write_onnx
from pool.run_folder.strict_json import printable
from pool.task.registry import task_module
from pool.task.task import HeaderTask, ReorderingTask

DESCRIPTION = "Trained with sparsepool."  # of a network that is no one else's
_HEADERS = {"c": ".h", "rust": ".rs"}  # endings of names, by language


def export_checkpoint(
    where: Path,
    output: Path,
    description: str | None,
    task: str | None,
    choice: Choice = NEWEST,
    *,
    header: str | None = None,
    permute: Sequence[str] = (),
    onnx: bool = False,
    say: Callable[[str], object] | None = None,
) -> Trained:
    """Writes the network of a checkpoint, or of the newest of a run's folder, and with `header` source code in that
    language that describes it beside it; returns the network. With `permute`, files of data, its units are first put
    into a better order, and `say` is told what that gains. With `onnx` the file is an ONNX model, of any task that
    predicts.

    `description`: text that the file carries; None: that of the file which pool convert made the checkpoint of, else
    DESCRIPTION. `task`: the caller's name for the task, needed unless it is built in. Raises CheckpointError for a bad
    checkpoint, ConfigError for another task, and for several members of which none is chosen, UsageError for a name
    that ends as another format's do, PoolError for weights that the format can't hold.
    """
    trained = load_trained(where, task, choice)
    source = None if header is None else header_path(output, header)
    suffix = SUFFIX if onnx else getattr(task_module(trained.name), "EXPORT_SUFFIX", "")
    if suffix:
        output_ending(output, "ONNX models" if onnx else f"files of the task {printable(trained.name)}", [suffix])
    for path in filter(None, (output, source)):
        _check_output(path)
    try:
        gained = _reordered(trained, permute) if permute else ""
        if gained and say is not None:
            say(gained)
        source_text = "" if header is None else _header(trained, output, header)
        text = (trained.description or DESCRIPTION) if description is None else description
        if onnx:
            write_onnx(trained, output, text)
        else:
            trained.task.export(trained.model, output, text)
        if output.is_file():
            _share(output)
        if source is not None:
            source.write_text(source_text, encoding="utf-8")
    except PoolError:
        raise
    except OSError as error:
        raise PoolError(f"{error.filename or output}: {error.strerror}", _exit_code(error)) from None
    except DataError as error:  # it names the file
        raise PoolError(str(error), _exit_code(error)) from None
    except ValueError as error:
        raise PoolError(f"{output}: not written: {error}") from None
    except Exception as error:
        raise PoolError(f"{output}: not written: {error_line(error)}", _exit_code(error)) from None
    if not output.exists():
        raise PoolError(f"{output}: not written: the method `export` of the task {trained.name} makes no file")
    return trained


def _exit_code(error: Exception) -> int:
    return EXIT_RESOURCES if comes_from(error, SPACE_ERRORS) else EXIT_FAILED


def header_path(output: Path, language: str) -> Path:
    """Returns the path of the source code that describes `output`."""
    return output.with_suffix(_HEADERS[language])


def _header(trained: Trained, output: Path, language: str) -> str:
    """Returns the source code. Raises ConfigError for a task that has none, and whatever the task's own code raises."""
    if not isinstance(trained.task, HeaderTask):
        raise ConfigError(f"export: --header: files of the task {printable(trained.name)} have none")
    return trained.task.header(trained.model, output, language)


def _reordered(trained: Trained, patterns: Sequence[str]) -> str:
    """Puts the units into another order. Raises ConfigError for a task that can't, and whatever the task's own code
    raises."""
    if not isinstance(trained.task, ReorderingTask):
        raise ConfigError(f"export: --permute: the task {printable(trained.name)} can't change the order of units")
    return trained.task.reorder(trained.model, patterns)


def _share(output: Path) -> None:
    """Gives the file the mode of any other of this user: libraries, safetensors among them, make theirs private."""
    mask = os.umask(0)
    os.umask(mask)
    output.chmod(0o666 & ~mask)


def _check_output(output: Path) -> None:
    """Raises PoolError for what is no regular file: a pipe would be waited for, a device overwritten."""
    if output.is_dir():
        raise PoolError(f"{output}: is a folder; name a file")
    if output.exists() and not output.is_file():
        raise PoolError(f"{output}: is not a regular file")
