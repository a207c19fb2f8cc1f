"""A client for UCI engines that runs one search at a time.

It replaces python-chess's client for two reasons. A search of 100 nodes costs 1.5 ms of processor time there, shared by
all engines of a process, and 0.3 ms here. And there an inexact score (a bound) can replace an exact one.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from loader.chess.engines.line_process import Deadline, LineProcess
from loader.chess.engines.uci import (
    Info,
    Option,
    format_setoption,
    internal_score,
    parse_best_move,
    parse_complaint,
    parse_info,
    parse_option,
)
from loader.errors import EngineError, EngineStartError, UsageError
from loader.files.journal import Settings

UNITS_PER_100CP = 361  # Stockfish 15.1: internal units of a score it prints as 100 centipawns
DEFAULTS = {"Threads": "1", "Hash": "16"}  # options that are set if the engine has them and the user gives none


@dataclass(frozen=True)
class EngineSettings:
    """Settings with which a UCI engine is started."""

    program: str
    options: tuple[tuple[str, str], ...] = ()  # pairs of name and value
    units_per_100cp: int = UNITS_PER_100CP
    timeout: float = 60.0  # seconds for each answer

    def identity(self) -> Settings:
        """Returns all settings on which a score depends, by the names of the options. Files (program, networks) are
        identified by their content. The timeout is not among them."""
        program = shutil.which(self.program) or self.program
        options = [f"{name}={value}{file_digest(value)}" for name, value in sorted(self.options)]
        return {
            "--engine": f"{Path(program).name}{file_digest(program)}",
            "--option": ", ".join(options) or None,
            "--units-per-100cp": self.units_per_100cp,
        }


def file_digest(value: str) -> str:
    """Returns " (sha256 ...)" with the digest of a file's content, if `value` is the path of a readable file, as of a
    program or a network, else an empty text."""
    try:
        if not Path(value).is_file():
            return ""
        with Path(value).open("rb") as file:
            return f" (sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]})"
    except (OSError, ValueError):  # a program may be executable and not readable
        return ""


@dataclass(frozen=True)
class Limits:
    """Limits of a search, at least one. The search ends at the first that is reached."""

    nodes: int | None = None
    depth: int | None = None

    def command(self) -> str:
        """Returns the UCI command `go` with these limits."""
        limits = (("depth", self.depth), ("nodes", self.nodes))
        return " ".join(["go", *(f"{name} {value}" for name, value in limits if value is not None)])


@dataclass(frozen=True)
class Search:
    """The result of a search, from the side to move's point of view."""

    move: str | None  # UCI; None if there is no legal move
    score: int | None  # internal units; None if the engine has printed none, as some do for a forced move
    # How the search ended:
    nodes: int | None = field(default=None, compare=False)  # last number that the engine reported; None: no report
    depth: int | None = field(default=None, compare=False)  # last depth that the engine reported; None: no report
    complaint: str | None = field(
        default=None, compare=False
    )  # an error in an `info string`, as of a network that the engine loads with the first search


class Engine:
    """A running UCI engine whose options are set. A context manager, for use by one thread.

    `name` is the name that the engine reports. Raises EngineError if the engine can't be started, ends, or does not
    answer in time. Raises UsageError for an option that the engine does not have, StoppedError when the descriptor
    `stop` becomes readable.
    """

    def __init__(self, settings: EngineSettings, stop: int | None = None) -> None:
        """Starts the engine's program, exchanges `uci` and `uciok`, and sets the options. The process is killed if that
        fails."""
        self.name = ""
        self._settings = settings
        self._process = LineProcess(settings.program, stop)
        try:
            self._set_options(self._exchange_uci())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def new_game(self) -> None:
        """Tells the engine to forget its hash table and all else that it has learned, so that a game does not depend on
        earlier games."""
        self._send_and_wait("ucinewgame")

    def search(self, fen: str, moves: list[str], limits: Limits) -> Search:
        """Searches the position after `moves` from `fen`. Returns the best move, and the last exact score that the
        engine printed. The score is None if the engine printed none or only bounds."""
        played = f" moves {' '.join(moves)}" if moves else ""
        deadline = self._send(f"position fen {fen}{played}\n{limits.command()}")
        infos: list[Info] = []
        complaint = None
        while True:
            line = self._process.receive(deadline, "bestmove")
            if line.startswith("bestmove"):
                break
            info = parse_info(line)
            if info is None:
                continue
            infos.append(info)
            if complaint is None and line.startswith("info string"):
                complaint = parse_complaint(line, self._settings.options)
        infos.reverse()  # the newest first
        scores = [info.score for info in infos if info.score is not None and info.score.is_exact]
        units = self._settings.units_per_100cp
        return Search(
            parse_best_move(line),
            internal_score(scores[0].kind, scores[0].value, units) if scores else None,
            next((info.nodes for info in infos if info.nodes is not None), None),
            next((info.depth for info in infos if info.depth is not None), None),
            complaint,
        )

    def fault(self, reason: str) -> EngineError:
        """Makes an EngineError that names the engine and its last output."""
        return self._process.fault(reason)

    def close(self) -> None:
        """Kills the engine's process without waiting for an answer."""
        self._process.close()

    def _exchange_uci(self) -> list[Option]:
        """Sends `uci`, and returns the options that the engine offers. Sets `name`."""
        options = []
        for line in self._receive_until("uciok", self._send("uci")):
            option = parse_option(line)
            if option is not None:
                options.append(option)
            elif line.startswith("id name "):
                self.name = line.removeprefix("id name ").strip()
        return options

    def _set_options(self, offered: list[Option]) -> None:
        """Sends the options of the settings, and defaults for others. Raises UsageError for an option that the engine
        does not have, EngineStartError if the engine complains of one."""
        names = {name.lower() for name, _ in self._settings.options}
        lines = []
        for name, value in DEFAULTS.items():
            if name.lower() not in names:
                with contextlib.suppress(ValueError):  # the engine has no such option
                    lines.append(format_setoption(offered, name, value))
        try:
            lines += [format_setoption(offered, name, value) for name, value in self._settings.options]
        except ValueError as error:
            raise UsageError(f"{self._settings.program}: {error}") from None
        answers = self._send_and_wait("\n".join(lines))
        complaints = [parse_complaint(answer, self._settings.options) for answer in answers]
        problems = [complaint for complaint in complaints if complaint is not None]
        if problems:
            raise EngineStartError(f"{self._settings.program}: complains of its options: {' '.join(problems)}")

    def _send_and_wait(self, text: str) -> Sequence[str]:
        """Sends lines, and waits until the engine has processed them (`isready`). Returns the lines that the engine
        prints until then."""
        deadline = self._send(f"{text}\nisready" if text else "isready")
        return self._receive_until("readyok", deadline)

    def _receive_until(self, last: str, deadline: Deadline) -> Sequence[str]:
        """Returns the lines that the engine prints before the line `last`."""
        lines: list[str] = []
        while True:
            line = self._process.receive(deadline, last)
            if line == last:
                return lines
            lines.append(line)

    def _send(self, text: str) -> Deadline:
        """Sends lines. Returns the deadline for the engine's answer."""
        deadline = Deadline(self._settings.timeout)
        self._process.send(text, deadline)
        return deadline
