"""The command `pool eval`, which evaluates positions with the integers of an engine's network. Imports torch for a
checkpoint alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from loader.command_line.json_line import json_line
from pool.commands.arguments import Averaged, Member, NetworkConfig
from pool.errors import ConfigError
from pool.export.member import Choice, parse_member
from pool.tasks.chess.network import Evaluation, Network
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.positions import NamedPosition, read_fen_options, read_listed_positions

_BLOCK = 1024  # positions that are evaluated at a time
_LINE_COLUMNS = ("pawns", "units", "position")


@dataclass(frozen=True)
class _EvaluatedPosition:
    """The evaluation of one position, with the fields of network.Evaluation."""

    named: NamedPosition
    bucket: int
    terms: Mapping[str, list[int]]
    values: list[int]
    value: int
    pawns: float

    @property
    def name(self) -> str:
        return self.named.id or self.named.fen

    @property
    def white_pawns(self) -> float:
        """The value in pawns from White's point of view."""
        return self.pawns if self.named.fen.split()[1] == "w" else -self.pawns


def eval_command(
    net: Annotated[
        Path,
        typer.Argument(
            metavar="NET", help="network file as pool export writes it; or the folder of a checkpoint or run"
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
    config: NetworkConfig = None,
    member: Member = None,
    averaged: Averaged = False,
    buckets: Annotated[
        bool, typer.Option("--buckets", help="a table a position: terms and value of every output bucket")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="one JSON object a position: fen, id if it has one, bucket, the terms of each bucket, value"
        ),
    ] = False,
) -> None:
    """Evaluate positions with a network, exactly as its engine does.

    One line a position: pawns from White's point of view, as the engine's own `eval` prints them, and internal units
    from the side to move's. With --buckets and --json also what it is made of, if it is more than one sum: for
    Stockfish's networks material (psqt) and positional term of each of the 8 output buckets, in sixteenths of internal
    units. Of an ensemble each number is the mean of its members', in whole units.
    """
    if bool(fen) == (epd is not None):
        raise ConfigError("eval: give either --fen (once or more) or --epd FILE")
    if buckets and as_json:
        raise ConfigError("eval: --json has all buckets already; leave out --buckets")
    network = open_network(net, Choice(parse_member(member), averaged=averaged), config)
    inputs = network.inputs
    named = list(read_fen_options(fen or [], inputs) if epd is None else read_listed_positions(epd, inputs))
    rows = _evaluate_positions(network, named)
    if as_json:
        _print_json(rows)
    elif buckets:
        _print_tables(rows, network)
    else:
        _print_lines(rows, network)


def _evaluate_positions(network: Network, named: Sequence[NamedPosition]) -> Iterator[_EvaluatedPosition]:
    for start in range(0, len(named), _BLOCK):
        block = named[start : start + _BLOCK]
        yield from _split_evaluation(block, network.evaluate([entry.position for entry in block]))


def _split_evaluation(block: Sequence[NamedPosition], result: Evaluation) -> Iterator[_EvaluatedPosition]:
    for i, named in enumerate(block):
        terms = {name: term[i].tolist() for name, term in result.terms.items()}
        bucket, value = int(result.bucket[i]), int(result.value[i])
        yield _EvaluatedPosition(named, bucket, terms, result.values[i].tolist(), value, float(result.pawns[i]))


def _print_json(rows: Iterator[_EvaluatedPosition]) -> None:
    for row in rows:
        line: dict[str, Any] = {"fen": row.named.fen}
        if row.named.id:
            line["id"] = row.named.id
        line |= {"bucket": row.bucket, **row.terms, "value": row.value}
        sys.stdout.write(json_line(line))


def _print_lines(rows: Iterator[_EvaluatedPosition], network: Network) -> None:
    about = f"pawns: White's view, as the engine prints them. units: {network.units}, side to move's view."
    pawns, units, position = _LINE_COLUMNS
    sys.stdout.write(f"{about}\n{pawns:>8}{units:>8}  {position}\n")
    for row in rows:
        sys.stdout.write(f"{row.white_pawns:>+8.2f}{row.value:>+8}  {row.name}\n")


def _print_tables(rows: Iterator[_EvaluatedPosition], network: Network) -> None:
    """Prints a table for each position, with the terms and value of every output bucket."""
    console = Console(highlight=False, markup=False) if sys.stdout.isatty() else None
    terms = f"terms in {network.term_units}, " if network.term_units else ""
    sys.stdout.write(f"* the bucket in use. Side to move's view; {terms}values in {network.units}.\n")
    for row in rows:
        title = f"{row.named.id}: {row.named.fen}" if row.named.id else row.named.fen
        columns = ("bucket", *row.terms, "value")
        cells = [
            (f"{bucket}{' *' if bucket == row.bucket else '  '}", *(str(number) for number in numbers))
            for bucket, numbers in enumerate(zip(*row.terms.values(), row.values, strict=True))
        ]
        if console is None:
            sys.stdout.write(_format_table(title, columns, cells, row.value))
        else:
            _print_rich_table(console, title, columns, cells, row.value)


def _format_table(title: str, columns: tuple[str, ...], cells: list[tuple[str, ...]], value: int) -> str:
    """Formats a table as plain text. `value` is that of the bucket in use."""
    lines = []
    for bucket, *others in (columns, *cells):
        lines.append(f"{bucket:>8}" + "".join(f"{cell:>12}" for cell in others))
    return "\n".join(["", title, *lines, f"value {value}", ""])


def _print_rich_table(
    console: Console, title: str, columns: tuple[str, ...], cells: list[tuple[str, ...]], value: int
) -> None:
    console.print(title, style="bold")
    table = Table(*(Column(name, justify="right") for name in columns))
    for row in cells:
        table.add_row(*row, style="green" if row[0].endswith("*") else None)
    console.print(table)
    console.print(f"value {value}", style="bold green")
