"""Commands that write scores say which unit they have, where that is not the usual one of the format."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.chess.cli.engine_options import describe_scores
from loader.chess.positions.format import named_format
from loader.cli.main import main
from tests.support.paths import SAMPLE

VALIDATION = SAMPLE / "validation.binpack"
LINE = "loader: scores keep their numbers: internal units of binpack, and usual in text are centipawns"


@pytest.mark.parametrize(
    ("format", "units", "line"),
    [
        ("viriformat", 100, "scores: centipawns, 100 for 100 centipawns of the engine"),
        ("binpack", 361, "scores: internal units, 361 for 100 centipawns of the engine"),
        (
            "binpack",
            100,
            "scores: centipawns, 100 for 100 centipawns of the engine; usual in binpack are internal units; "
            '{files = "...", score_unit = "centipawns"} says so in data.train',
        ),
        (
            "viriformat",
            328,
            "scores: a unit of their own, 328 for 100 centipawns of the engine; usual in viriformat are centipawns",
        ),
    ],
)
def test_a_command_with_an_engine_names_the_unit(format: str, units: int, line: str) -> None:
    assert describe_scores(named_format(format), units) == line


@pytest.mark.parametrize(
    ("output", "options", "is_named"),
    [
        ("a.txt", ("--lossy",), True),
        ("a.txt", ("--lossy", "--scale", "0.277"), False),
        ("a.plain", (), False),
    ],
)
def test_a_conversion_into_a_format_of_another_unit_is_named(
    output: str, options: tuple[str, ...], is_named: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(VALIDATION), "-o", str(tmp_path / output), *options]) == 0
    assert (LINE in capsys.readouterr().err) == is_named
