"""The `loader` command: reads its arguments, runs one command, turns errors into one line and an exit code.

Exit codes: 0 fine, 1 the data (or the engine) is at fault, 2 the command line is, 71 no memory or disk space is left,
130, 143 and 129 interrupted by SIGINT, SIGTERM and SIGHUP. The commands live in loader/commands, one module a group;
each has `register(app)` and imports what is heavy only when it runs, so that --help is quick.
"""

from __future__ import annotations

import errno
import importlib.metadata
import io
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from loader.commands import bench, files, generate
from loader.errors import DataError, EngineError, InterruptedBySignalError, PipeClosedError, UsageError
from loader.standard_streams import give_up_stdout, open_closed_streams

GROUPS = (files, generate, bench)

DATA_ERROR = 1
USAGE_ERROR = 2
NO_SPACE = 71
INTERRUPTED = 130
SIGNALLED = 128  # and the signal's number, as a shell says it
PIPE_CLOSED = 141  # as a shell reports a program ended by SIGPIPE
SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)


def build_app() -> typer.Typer:
    """The commands; help is drawn by rich on a terminal and plain elsewhere."""
    app = typer.Typer(
        name="loader",
        no_args_is_help=True,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for group in GROUPS:
        group.register(app)
    return app


def show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"loader {importlib.metadata.version('sparsepool')}\n")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Look into, check, make and time training data."""


def told(error: Exception) -> str:
    """What it says, and what was added to it on its way."""
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename is not None else ""
        text = f"{name}{error.strerror or error}"
    else:
        text = str(error)
    return "; ".join([text, *getattr(error, "__notes__", [])])


def fail(message: str, code: int) -> int:
    """One line on stderr, whatever the message holds."""
    sys.stderr.write(f"loader: {' '.join(message.split())}\n")
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line (sys.argv without the program's name) and gives back the exit code."""
    open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no text
    try:
        code = build_app()(args=arguments, prog_name="loader", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except PipeClosedError:
        give_up_stdout()
        return PIPE_CLOSED
    except (DataError, EngineError) as error:
        return fail(told(error), DATA_ERROR)
    except UsageError as error:
        return fail(told(error), USAGE_ERROR)
    except InterruptedBySignalError as error:
        return fail(told(error), SIGNALLED + error.number)
    except OSError as error:
        if error.errno == errno.EPIPE:
            give_up_stdout()
            return PIPE_CLOSED
        if error.filename is None:
            give_up_stdout()  # it may be what failed
        return fail(told(error), NO_SPACE if error.errno in SPACE_ERRORS else DATA_ERROR)
    except (KeyboardInterrupt, typer.Abort):
        return fail("interrupted", INTERRUPTED)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # typer's errors about the command line
        if usage is None:
            raise
        return usage_error(error, usage())


def usage_error(error: Exception, message: str) -> int:
    """Without any command there is only help to give; otherwise one line says what is wrong."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{message}\n")
        return USAGE_ERROR
    return fail(message, getattr(error, "exit_code", USAGE_ERROR))
