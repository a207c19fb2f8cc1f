"""Numbers of users, however large: each is used as it is, or refused in a line. None wraps, none is a traceback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from typer.models import OptionInfo

import sparsepool
from loader.cli.main import PROGRAM, main
from loader.exit_codes import EXIT_USAGE
from tests.support.paths import VALIDATION
from tests.support.positions import encode, sample

NUMBERS = ("-1", "2147483648", "4294967296", "9223372036854775808", "18446744073709551616", "9" * 5000, "nan", "1e400")
TEXTS_OF_NUMBERS = (*NUMBERS, "1" + "0" * 30, "inf", "1e999999999", "1/0", "")
QUICK = {"--seconds": "0", "--batch-size": "8"}  # of `bench`, which runs
GIVEN: dict[str, tuple[str, ...]] = {
    "split": ("--validation", "20%", "--by-record"),
    "bench": (),
    "generate": ("--engine", "no-such-engine", "--positions", "1", "-o", "made.binpack"),
    "rescore": ("--engine", "no-such-engine"),
}
WRITES = ("filter", "dedupe", "shuffle", "convert", "head", "sample", "rescore")
OPTIONS_OF_NUMBERS = ("--memory", "--validation", "--keep-by-ply", "--piece-count-curve", "--king-buckets")


def options() -> Iterator[tuple[str, str, Any, bool]]:
    """Each option of each command: the command's name, its own, what typer is told of it, whether it is a number."""
    for command in PROGRAM.app().registered_commands:
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            annotated = next((each for each in (hint, *get_args(hint)) if get_origin(each) is Annotated), None)
            if annotated is None or not isinstance(info := annotated.__metadata__[0], OptionInfo):
                continue
            inside = (annotated.__origin__, *get_args(annotated.__origin__))
            long = [word for word in info.param_decls or () if word.startswith("--")]
            option = long[0] if long else f"--{name.replace('_', '-')}"
            yield str(command.name), option, info, int in inside or float in inside


NUMERIC = [(command, option, info) for command, option, info, is_number in options() if is_number]
TEXTS = [(command, option) for command, option, *_ in options() if option in OPTIONS_OF_NUMBERS]


def words(command: str, *more: str) -> list[str]:
    given = list(GIVEN.get(command, ()))
    if command in WRITES:
        given += ["-o", "made.psv"]
    if command == "bench":
        given += [word for pair in QUICK.items() if pair[0] not in more for word in pair]
    named = [] if command == "generate" else ["in.psv"]
    return [command, *named, *given, *more]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.psv").write_bytes(encode("packedsfen", sample(50)))
    return tmp_path


def assert_used_or_refused(command: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    """main raises what it has no line for."""
    code = main(list(command))
    captured = capsys.readouterr()
    assert code in (0, 1, EXIT_USAGE), command
    assert code == 0 or captured.err.count("\n") == 1, captured.err
    for made in Path().iterdir():
        if made.name != "in.psv":
            made.unlink()


def test_a_number_has_both_limits() -> None:
    assert len(NUMERIC) > 50
    for command, option, info in NUMERIC:
        if option != "--seed":  # part of a text, whatever its length
            assert info.min is not None, (command, option)
            assert info.max is not None, (command, option)
            assert info.max < 1 << 64, (command, option)


@pytest.mark.parametrize(
    ("command", "option", "numbers"),
    [
        *((command, option, NUMBERS) for command, option, _ in NUMERIC),
        *((command, option, TEXTS_OF_NUMBERS) for command, option in TEXTS),
    ],
)
def test_any_number_is_used_or_refused_in_a_line(
    command: str, option: str, numbers: Sequence[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.is_dir()
    for number in numbers:
        long = command == "bench" and option in ("--seconds", "--threads") and number not in ("nan", "0", "-1")
        if not long:
            assert_used_or_refused(words(command, option, number), capsys)


@pytest.mark.parametrize("what", ["ply", "score", "piece_count"])
def test_any_number_in_an_expression_is_used_or_refused_in_a_line(
    what: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in TEXTS_OF_NUMBERS:
        assert_used_or_refused(words("filter", "--where", f"{what} < {number}"), capsys)
        (folder / "rules.toml").write_text(f"min_ply = {number}\n", encoding="utf-8")
        assert_used_or_refused(words("filter", "--viriformat", "rules.toml"), capsys)


@pytest.mark.parametrize("seed", [-1, 1 << 64, 10**30, 1.5, float("nan"), float("inf")])
def test_a_seed_that_is_not_one_of_64_bits_is_refused(seed: Any) -> None:
    """And not taken for another one."""
    with pytest.raises(sparsepool.SparsepoolError, match="seed: must be an integer from 0 to 18446744073709551615"):
        sparsepool.batches(VALIDATION, features="HalfKAv2_hm", arrays="numpy", seed=seed)
