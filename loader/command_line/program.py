"""A program with several commands: runs one of them, and turns errors into a line on stderr and an exit code.

Commands come in modules with a function `register(app)`. A command imports heavy modules only when it runs, so that
--help and completion are quick.
"""

from __future__ import annotations

import errno
import importlib.metadata
import io
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import typer
from typer.core import TyperCommand, TyperGroup

from loader.command_line.streams import (
    discard_stdout,
    is_stdout_broken,
    open_closed_streams,
    remove_invalid_terminal_sizes,
)
from loader.errors import SPACE_ERRORS, CommandError, DataError, PipeClosedError, escape_to_one_line
from loader.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, EXIT_RESOURCES, EXIT_USAGE


class CommandGroup(Protocol):
    """A module that contains commands."""

    def register(self, app: typer.Typer) -> None:
        """Adds the module's commands to `app`."""


@dataclass(frozen=True)
class Program:
    """A command-line program, made of groups of commands."""

    name: str
    title: str  # what --version calls it
    about: str
    groups: Sequence[CommandGroup]  # in the order of --help
    data_error: int  # exit code for damaged data
    # spellings of former versions, `COMMAND` or `COMMAND --option`, and what is written now
    former_spellings: Mapping[str, str] = field(default_factory=dict, hash=False)

    def app(self) -> typer.Typer:
        """Builds the typer application with all commands. Its help is drawn by rich on a terminal and is plain text
        elsewhere."""
        app = typer.Typer(
            cls=_Commands,
            name=self.name,
            help=self.about,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode="rich" if sys.stdout is not None and sys.stdout.isatty() else None,
            context_settings={"help_option_names": ["-h", "--help"], "obj": self.title},
        )
        app.callback(help=self.about)(_program_options)
        for group in self.groups:
            group.register(app)
        for command in app.registered_commands:
            command.cls = _Command
        return app

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Runs a command line (sys.argv without the program's name) and returns the exit code."""
        open_closed_streams()
        remove_invalid_terminal_sizes()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no valid text
        try:
            code = self.app()(args=arguments, prog_name=self.name, standalone_mode=False)
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except (KeyboardInterrupt, typer.Abort):
            return self._fail("interrupted", EXIT_INTERRUPTED)
        except PipeClosedError as error:
            discard_stdout()
            return error.exit_code
        except CommandError as error:
            return self._fail(_add_notes(error, str(error)), error.exit_code)
        except DataError as error:
            return self._fail(_add_notes(error, str(error)), self.data_error)
        except OSError as error:
            return self._report_system_error(error)
        except Exception as error:
            format_message = getattr(error, "format_message", None)  # of typer's errors about the command line only
            if format_message is None:
                raise
            return self._report_usage_error(error, format_message(), sys.argv[1:] if arguments is None else arguments)

    def _report_system_error(self, error: OSError) -> int:
        """Reports an OSError and returns its exit code. A closed pipe ends the program silently."""
        if error.errno == errno.EPIPE:
            discard_stdout()
            return EXIT_PIPE_CLOSED
        message = error.strerror or str(error)
        if error.filename is not None:
            message = f"{error.filename}: {message}"
        else:
            if is_stdout_broken():
                message = f"standard output: {message}"
            discard_stdout()
        code = EXIT_RESOURCES if error.errno in SPACE_ERRORS else EXIT_FAILED
        return self._fail(_add_notes(error, escape_to_one_line(message)), code)

    def _report_usage_error(self, error: Exception, message: str, arguments: Sequence[str]) -> int:
        """Reports a wrong command line in one line and returns the exit code. Without any command the help text is
        shown instead."""
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(f"{message}\n")
            return EXIT_USAGE
        spelling = " ".join([*arguments[:1], getattr(error, "option_name", "")]).strip()
        if spelling in self.former_spellings:
            return self._fail(f"{spelling} is {self.former_spellings[spelling]} now", EXIT_USAGE)
        return self._fail(" ".join(message.split()), EXIT_USAGE)

    def _fail(self, message: str, code: int) -> int:
        sys.stderr.write(f"{self.name}: {message}\n")
        return code


class _Command(TyperCommand):
    """A command that refuses NaN and infinities as values of options, as typer's limits let NaN pass."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        unparsed = super().parse_args(ctx, args)
        for option in self.params:
            value = ctx.params.get(option.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise typer.BadParameter(f"{value} is no number.", ctx=ctx, param_hint=f"'{option.opts[-1]}'")
        return unparsed


class _Commands(TyperGroup):
    """A group of commands that ends with EXIT_PIPE_CLOSED when its output is closed, where click itself would end with
    1."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _report_closed_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _report_closed_pipes():
            return super().invoke(ctx)


@contextmanager
def _report_closed_pipes() -> Iterator[None]:
    """Turns a BrokenPipeError of the `with` block into PipeClosedError."""
    try:
        yield
    except BrokenPipeError:
        raise PipeClosedError from None


def _show_version(context: typer.Context, is_requested: bool) -> None:
    if is_requested:
        sys.stdout.write(f"{context.obj} {importlib.metadata.version('sparsepool')}\n")
        raise typer.Exit


def _program_options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="show the version and exit")
    ] = False,
) -> None:
    """Takes the options of the program itself, before any command."""


def _add_notes(error: Exception, text: str) -> str:
    """Returns the text followed by the notes that functions have added to the error."""
    return "; ".join([text, *getattr(error, "__notes__", [])])
