"""The `loader` command: reads its arguments, runs one command, turns errors into one line and an exit code.

Exit codes: 0 fine, 1 the data (or the engine) is at fault, 2 the command line is, 130 interrupted. The
commands live in loader/commands, one module a group; each has `register(app)` and imports what is heavy only
when it runs, so that --help is quick.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence

import typer

from loader.commands import bench, files, generate
from loader.errors import DataError, EngineError, PipeClosedError
from loader.standard_streams import give_up_stdout, open_closed_streams

GROUPS = (files, generate, bench)

DATA_ERROR = 1
USAGE_ERROR = 2
INTERRUPTED = 130
PIPE_CLOSED = 141  # as a shell reports a program ended by SIGPIPE


def build_app() -> typer.Typer:
    """The commands; help is drawn by rich on a terminal and plain elsewhere."""
    app = typer.Typer(
        name="loader",
        help="Look into, check, make and time training data.",
        no_args_is_help=True,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for group in GROUPS:
        group.register(app)
    return app


def fail(message: str, code: int) -> int:
    """One line on stderr, whatever the message holds."""
    sys.stderr.write(f"loader: {' '.join(message.split())}\n")
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line (sys.argv without the program's name) and gives back the exit code."""
    open_closed_streams()
    try:
        code = build_app()(args=arguments, prog_name="loader", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except PipeClosedError:
        give_up_stdout()
        return PIPE_CLOSED
    except (DataError, EngineError) as error:
        return fail(str(error), DATA_ERROR)
    except OSError as error:
        if error.errno == errno.EPIPE:
            give_up_stdout()
            return PIPE_CLOSED
        if error.filename is None:
            give_up_stdout()  # it may be what failed
        name = f"{error.filename}: " if error.filename is not None else ""
        return fail(f"{name}{error.strerror or error}", DATA_ERROR)
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
