"""`pool eval`: the integers that Stockfish 15.1 computes with a network. Imports torch for a checkpoint alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from pool.checkpoint.disk.plain import printable
from pool.checkpoint.folder import locate
from pool.checkpoint.state import read_state
from pool.errors import ConfigError, PoolError
from pool.tasks.nnue.quantized.evaluate import Evaluation, evaluate, truncating_divide
from pool.tasks.nnue.quantized.nnue_file import NnueNet, read_net
from pool.tasks.nnue.quantized.positions import NamedPosition, given_positions, listed_positions

_BLOCK = 1024  # positions evaluated before they are shown
_PAWN = 361  # internal units
_LINE_UNITS = "pawns: White's view, as Stockfish prints them. units: internal (361 = one pawn), side to move's view."
_LINE_COLUMNS = ("pawns", "units", "position")
_TABLE_UNITS = (
    "* the bucket in use. Side to move's view; terms in sixteenths, values in internal units (361 = one pawn)."
)
_TABLE_COLUMNS = ("bucket", "psqt", "positional", "value")


def register(app: typer.Typer) -> None:
    app.command(name="eval")(eval_command)


@dataclass(frozen=True)
class _Evaluated:
    """One position's numbers, as in evaluate.Evaluation."""

    named: NamedPosition
    bucket: int
    psqt: list[int]
    positional: list[int]
    values: list[int]  # of each bucket, internal units
    value: int

    @property
    def name(self) -> str:
        return self.named.id or self.named.fen

    @property
    def white_pawns(self) -> float:
        return (self.value if self.named.fen.split()[1] == "w" else -self.value) / _PAWN


def eval_command(
    net: Annotated[
        Path,
        typer.Argument(
            metavar="NET.nnue", help="network in Stockfish 15.1's format; or a checkpoint's folder, or a run's"
        ),
    ],
    fen: Annotated[
        list[str] | None,
        typer.Option("--fen", metavar="FEN", help="a position, or startpos; may be given several times"),
    ] = None,
    epd: Annotated[
        Path | None,
        typer.Option(
            "--epd", metavar="FILE", help="file with a position a line, FEN or EPD; of EPD's operations `id` is kept"
        ),
    ] = None,
    buckets: Annotated[
        bool, typer.Option("--buckets", help="a table a position: both terms and the value of all 8 output buckets")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="one JSON object a position: fen, id if it has one, bucket, psqt [8], positional [8], value"
        ),
    ] = False,
) -> None:
    """Evaluate positions with a network, exactly as Stockfish 15.1 does.

    One line a position: pawns from White's point of view, as Stockfish's own `eval` prints them, and internal units
    from the side to move's (361 = one pawn). With --buckets and --json also what it is made of: for each of the 8
    output buckets material (psqt) and positional term in sixteenths of internal units.
    """
    if bool(fen) == (epd is not None):
        raise ConfigError("eval: give either --fen (once or more) or --epd FILE")
    if buckets and as_json:
        raise ConfigError("eval: --json has all buckets already; leave out --buckets")
    named = list(given_positions(fen or []) if epd is None else listed_positions(epd))
    show = _show_json if as_json else _show_tables if buckets else _show_lines
    show(_evaluated(_network(net), named))


def _network(path: Path) -> NnueNet:
    """That of a file, or the one that a checkpoint would be exported as. Raises PoolError, DataError."""
    if not path.is_dir():
        return read_net(path)
    checkpoint = locate(path)
    task = str(read_state(checkpoint).config.get("task"))
    if task != "nnue":
        raise ConfigError(
            f"eval: {checkpoint} is of the task {printable(task)}, and eval is for nnue: see pool predict"
        )
    from pool.tasks.nnue.task import NnueTask
    from pool.tasks.trained import load_trained

    found = load_trained(checkpoint, task)
    assert isinstance(found.task, NnueTask)
    try:
        return found.task.exported(found.model, "")
    except ValueError as error:
        raise PoolError(f"{found.checkpoint}: {error}") from None


def _evaluated(network: NnueNet, named: Sequence[NamedPosition]) -> Iterator[_Evaluated]:
    for start in range(0, len(named), _BLOCK):
        block = named[start : start + _BLOCK]
        yield from _rows(block, evaluate(network, [entry.position for entry in block]))


def _rows(block: Sequence[NamedPosition], result: Evaluation) -> Iterator[_Evaluated]:
    values = truncating_divide(result.psqt + result.positional, 16)
    columns = (result.bucket, result.psqt, result.positional, values, result.value)
    for named, *numbers in zip(block, *(column.tolist() for column in columns), strict=True):
        yield _Evaluated(named, *numbers)


def _show_json(rows: Iterator[_Evaluated]) -> None:
    for row in rows:
        line: dict[str, Any] = {"fen": row.named.fen}
        if row.named.id:
            line["id"] = row.named.id
        line |= {"bucket": row.bucket, "psqt": row.psqt, "positional": row.positional, "value": row.value}
        sys.stdout.write(json.dumps(line) + "\n")


def _show_lines(rows: Iterator[_Evaluated]) -> None:
    sys.stdout.write("{}\n{:>8}{:>8}  {}\n".format(_LINE_UNITS, *_LINE_COLUMNS))
    for row in rows:
        sys.stdout.write(f"{row.white_pawns:>+8.2f}{row.value:>+8}  {row.name}\n")


def _show_tables(rows: Iterator[_Evaluated]) -> None:
    console = Console(highlight=False, markup=False) if sys.stdout.isatty() else None
    sys.stdout.write(_TABLE_UNITS + "\n")
    for row in rows:
        title = f"{row.named.id}: {row.named.fen}" if row.named.id else row.named.fen
        cells = [
            (f"{bucket}{' *' if bucket == row.bucket else '  '}", *(str(number) for number in numbers))
            for bucket, numbers in enumerate(zip(row.psqt, row.positional, row.values, strict=True))
        ]
        if console is None:
            sys.stdout.write(_plain(title, cells, row.value))
        else:
            _pretty(console, title, cells, row.value)


def _plain(title: str, cells: list[tuple[str, ...]], value: int) -> str:
    lines = [f"{a:>8}{b:>10}{c:>12}{d:>10}" for a, b, c, d in (_TABLE_COLUMNS, *cells)]
    return "\n".join(["", title, *lines, f"value {value}", ""])


def _pretty(console: Console, title: str, cells: list[tuple[str, ...]], value: int) -> None:
    console.print(title, style="bold")
    table = Table(*(Column(name, justify="right") for name in _TABLE_COLUMNS))
    for row in cells:
        table.add_row(*row, style="green" if row[0].endswith("*") else None)
    console.print(table)
    console.print(f"value {value}", style="bold green")
