"""A UCI engine in a process of its own, asked for one search at a time.

A thin client rather than python-chess's: at some hundred nodes a search the client is what costs, and only
four commands of the protocol are needed. One thread uses an engine at a time.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from loader.errors import EngineError

MATE = 32000  # internal value of being mated now; one less for each ply until then
ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Search:
    """What a search found, from the side to move's point of view."""

    move: str | None  # UCI; None if there is no legal move
    score: int  # internal units


def internal_score(kind: str, value: int, units_per_100cp: int) -> int:
    """A UCI score in internal units: centipawns scaled and rounded, mates as 32000 minus the plies to go."""
    if kind == "mate":
        return MATE - (2 * value - 1) if value > 0 else -MATE - 2 * value
    scaled = (2 * abs(value) * units_per_100cp + 100) // 200
    limit = MATE - 1000  # mates keep the values above it for themselves
    return min(scaled, limit) if value >= 0 else -min(scaled, limit)


def parse_score(line: str) -> tuple[str, int, bool] | None:
    """Kind (cp or mate), value and whether it is exact, of an `info` line; None if it has no score."""
    words = line.split()
    try:
        at = words.index("score")
        kind, value = words[at + 1], int(words[at + 2])
    except (ValueError, IndexError):
        return None
    bound = words[at + 3 : at + 4] in (["lowerbound"], ["upperbound"])
    return (kind, value, not bound) if kind in ("cp", "mate") else None


class Engine:
    """A running engine with one thread and a small hash table. A context manager."""

    def __init__(self, path: Path | str, units_per_100cp: int, hash_mb: int = 16) -> None:
        self.path = str(path)
        self._units_per_100cp = units_per_100cp
        self._unread = b""
        try:
            self._process = subprocess.Popen(
                [self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
        except OSError as error:
            raise EngineError(f"{self.path}: can't be started: {error.strerror}") from None
        try:
            self._send("uci")
            self._read_until("uciok")
            self._send(f"setoption name Threads value 1\nsetoption name Hash value {hash_mb}")
        except EngineError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def new_game(self) -> None:
        """Forgets everything, so that a game does not depend on the games before it."""
        self._send("ucinewgame\nisready")
        self._read_until("readyok")

    def search(self, fen: str, moves: list[str], nodes: int) -> Search:
        """The best move after `moves` from `fen`, and its score."""
        played = f" moves {' '.join(moves)}" if moves else ""
        self._send(f"position fen {fen}{played}\ngo nodes {nodes}")
        lines = self._read_until("bestmove")
        scores = [score for score in map(parse_score, lines[:-1]) if score is not None]
        exact = [score for score in scores if score[2]] or scores
        best = lines[-1].split()
        move = best[1] if len(best) > 1 and best[1] not in ("(none)", "0000") else None
        if not exact:
            raise EngineError(f"{self.path}: bestmove without a score")
        kind, value, _ = exact[-1]
        return Search(move, internal_score(kind, value, self._units_per_100cp))

    def close(self) -> None:
        """Ends the process; no answer is waited for."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{text}\n".encode())
        except OSError:
            raise EngineError(f"{self.path}: the engine has ended") from None

    def _read_until(self, first_word: str) -> list[str]:
        """All lines up to the one that begins with `first_word`."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + ANSWER_SECONDS
        lines: list[str] = []
        while True:
            head, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                lines.append(head.decode(errors="replace").rstrip())
                if lines[-1].split(" ", 1)[0] == first_word:
                    return lines
                continue
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise EngineError(f"{self.path}: no {first_word} within {ANSWER_SECONDS:.0f} s")
            more = os.read(descriptor, 65536)
            if not more:
                raise EngineError(f"{self.path}: the engine has ended before its {first_word}")
            self._unread += more
