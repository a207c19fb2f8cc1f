"""The kernels compile for every supported kind of GPU, and their machine code is as docs/explanation/gpu.md says."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pool.cuda.compiler import CompileError, Compiler
from pool.cuda.source import FOLDER, Source, kernels
from tests.cuda import toolkit
from tests.cuda.toolkit import ARCHITECTURES, MachineCode, loads_in_flight
from tests.support.runs import ROOT

SUMS: dict[str, dict[str, int | str]] = {
    "float32": {"BFLOAT16": 0, "WIDTH": 4, "INDEX": "uint16", "VALUES": 0},
    "bfloat16": {"BFLOAT16": 1, "WIDTH": 8, "INDEX": "uint32", "VALUES": 0},
    "values": {"BFLOAT16": 0, "WIDTH": 4, "INDEX": "uint32", "VALUES": 1},
    "odd": {"BFLOAT16": 0, "WIDTH": 1, "INDEX": "uint16", "VALUES": 0},
}
SOURCES = {
    **{f"list_sums {name}": Source.of("list_sums.cu", **constants) for name, constants in SUMS.items()},
    **{
        f"first_stage {name} {activation}": Source.of("first_stage.cu", ACTIVATION=activation, **SUMS[name])
        for name in ("float32", "bfloat16")
        for activation in range(3)
    },
    "column_sums": Source.of("column_sums.cu", BFLOAT16=0, WIDTH=4),
    **{
        f"stacked_linear {width}": Source.of("stacked_linear.cu", BFLOAT16=0, WIDTH=width, BUCKETS=buckets)
        for width, buckets in ((4, 8), (1, 64))
    },
    "bucket_difference": Source.of("bucket_difference.cu", BFLOAT16=0, WIDTH=1, BUCKETS=8),
    "square_and_clip": Source.of("square_and_clip.cu", BFLOAT16=0, WIDTH=1),
    "find_rows": Source.of("find_rows.cu", BFLOAT16=0, WIDTH=1, LEAVES=4, INDEX="uint16"),
    **{
        f"{file} {leaves}": Source.of(f"{file}.cu", BFLOAT16=0, WIDTH=4, LEAVES=leaves)
        for file in ("fold", "adam")
        for leaves in (1, 4, 16, 64)
    },
}
# Blocks of 128 threads that find room on a multiprocessor at least: docs/explanation/gpu.md has these numbers.
BLOCKS = {
    "list_sums float32": {"sum_lists": 12, "sum_pieces": 12, "join_pieces": 5},
    "list_sums values": {"sum_lists": 8, "sum_pieces": 8, "join_pieces": 5},
    "list_sums bfloat16": {"sum_lists": 8, "sum_pieces": 8, "join_pieces": 4},
    "first_stage float32 0": {"first_stage": 8, "first_stage_backward": 6},
    "column_sums": {"column_sums": 8},
    "adam 4": {"adam": 12, "adam_rows": 12},
    "fold 4": {"fold": 12, "fold_rows": 12},
}
IN_FLIGHT = {  # kernels that must have so many rows on their way
    "list_sums float32": {"sum_lists": 4, "sum_pieces": 4, "join_pieces": 4},
    "list_sums values": {"sum_lists": 4, "sum_pieces": 4},
    "list_sums bfloat16": {"sum_lists": 4, "sum_pieces": 4},
    "first_stage float32 0": {"first_stage": 4, "first_stage_backward": 4},
    "first_stage bfloat16 0": {"first_stage": 4},
    "column_sums": {"column_sums": 8},
    "adam 4": {"adam": 4, "adam_rows": 4},
    "fold 4": {"fold": 4, "fold_rows": 4},
}
CONSTANT = re.compile(r"HFMA2\S* R\d+, -RZ, RZ, ")  # -0 times 0 plus a constant: how one comes into a register
OFTEN = ("sm_75", "sm_120")  # the oldest and the newest: always looked at
EVERY = pytest.mark.parametrize(
    "architecture",
    [each if each in OFTEN else pytest.param(each, marks=pytest.mark.machine_code) for each in ARCHITECTURES],
)
Compiled = Callable[[str, str], MachineCode]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    toolkit.require()
    folder = tmp_path_factory.mktemp("cubins")

    @cache
    def of(source: str, architecture: str) -> MachineCode:
        file = folder / f"{source}-{architecture}.cubin".replace(" ", "-")
        file.write_bytes(Compiler(architecture, None).compile(SOURCES[source]))
        return MachineCode(file)

    return of


@EVERY
@pytest.mark.parametrize("source", SOURCES)
def test_a_source_compiles_without_spills(compiled: Compiled, source: str, architecture: str) -> None:
    code = compiled(source, architecture)
    assert code.resources.keys() == kernels(SOURCES[source].file).keys()
    assert {name: (found.stack, found.local) for name, found in code.resources.items()} == dict.fromkeys(
        code.resources, (0, 0)
    )


@EVERY
@pytest.mark.parametrize("source", BLOCKS)
def test_registers_leave_room_for_as_many_blocks_as_the_page_says(
    compiled: Compiled, source: str, architecture: str
) -> None:
    found = compiled(source, architecture).resources
    assert {name: min(found[name].blocks, blocks) for name, blocks in BLOCKS[source].items()} == BLOCKS[source]


@EVERY
@pytest.mark.parametrize("source", IN_FLIGHT)
def test_rows_are_moved_by_128_bits_and_several_at_a_time(compiled: Compiled, source: str, architecture: str) -> None:
    code = compiled(source, architecture)
    for name, wanted in IN_FLIGHT[source].items():
        loads, stores = code.accesses(name, "LDG"), code.accesses(name, "STG")
        assert stores
        assert all(".128" in store for store in stores), name
        # numbers of rows and offsets are of 16 and 32 bits, values of 32; nothing is loaded in between
        assert not [load for load in loads if ".64" in load], name
        assert loads_in_flight(code.instructions[name]) >= wanted, name


@EVERY
def test_no_product_is_contracted_with_a_sum(compiled: Compiled, architecture: str) -> None:
    """Divisions and roots are sequences of contracted steps that end in the rounded result; only Adam has them."""
    for source in ("list_sums values", "first_stage float32 2", "fold 4"):
        code = compiled(source, architecture)
        for name, instructions in code.instructions.items():
            contracted = [words for words in instructions if re.match(r"(FFMA|HFMA2|FMA)\b", words)]
            assert [words for words in contracted if not CONSTANT.match(words)] == [], name


def test_the_compiler_says_what_it_refuses(compiled: Compiled) -> None:  # noqa: ARG001
    with pytest.raises(CompileError, match=r"list_sums\.cu .*INDEX=nothing.* for sm_90: .*error: .*nothing"):
        Compiler("sm_90", None).compile(Source.of("list_sums.cu", BFLOAT16=0, WIDTH=4, INDEX="nothing", VALUES=0))
    with pytest.raises(CompileError, match="for sm_12"):
        Compiler("sm_12", None).compile(SOURCES["column_sums"])


def test_what_is_compiled_is_kept(tmp_path: Path, compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    folder = tmp_path / "not there yet"
    source = SOURCES["column_sums"]
    program = Compiler("sm_90", folder).program(source)
    (file,) = folder.iterdir()

    def refuse(*_: object) -> bytes:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(Compiler, "compile", refuse)
        assert Compiler("sm_90", folder).program(source) == program
        with pytest.raises(AssertionError, match="compiled again"):
            Compiler("sm_80", folder).program(source)
    file.write_bytes(file.read_bytes()[:-7])  # a full disk
    assert Compiler("sm_90", folder).program(source) == program
    assert Compiler("sm_90", folder).is_kept(source)


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path, compiled: Compiled) -> None:  # noqa: ARG001
    (tmp_path / "file").write_text("")
    assert Compiler("sm_90", tmp_path / "file" / "folder").program(SOURCES["column_sums"])


def test_every_kernel_is_looked_at() -> None:
    assert {path.name for path in FOLDER.glob("*.cu")} == {source.file for source in SOURCES.values()}


def test_the_page_has_the_numbers_that_are_tested() -> None:
    page = (ROOT / "docs/explanation/gpu.md").read_text(encoding="utf-8")
    for source, blocks in BLOCKS.items():
        for name, count in blocks.items():
            assert re.search(rf"\| `{name}`, {source.partition(' ')[2] or 'float32'} \| {count} \|", page), (
                source,
                name,
            )
