"""The kernels compile for every supported kind of GPU, and their machine code is as docs/explanation/gpu.md says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from loader.files import whole_file
from pool.kernels.cuda.compiler import COMMON, CompileError, Compiler, Source
from pool.tasks.chess.cuda import layer_stacks
from tests.pool.kernels.cuda import toolkit
from tests.pool.kernels.cuda.toolkit import ARCHITECTURES, MachineCode, loads_in_flight
from tests.support.paths import ROOT

pytestmark = pytest.mark.machine_code

CHESS = Path(layer_stacks.__file__).parent
SUMS: dict[str, dict[str, int | str]] = {
    "float32": {"BFLOAT16": 0, "NARROW": 0, "WIDTH": 4, "INDEX": "uint16", "VALUES": 0},
    "bfloat16": {"BFLOAT16": 1, "NARROW": 0, "WIDTH": 8, "INDEX": "uint32", "VALUES": 0},
    "narrow": {"BFLOAT16": 0, "NARROW": 1, "WIDTH": 8, "INDEX": "uint16", "VALUES": 0},
    "values": {"BFLOAT16": 0, "NARROW": 0, "WIDTH": 4, "INDEX": "uint32", "VALUES": 1},
    "odd": {"BFLOAT16": 0, "NARROW": 0, "WIDTH": 1, "INDEX": "uint16", "VALUES": 0},
}
STACKS = {"BUCKETS": 8, "ALL": 0, "CUT": 0}
FIRST_STAGES = {  # "cut": activations are
    **{f"{activation}": {"ACTIVATION": activation, "CUT": 0} for activation in range(3)},
    "cut": {"ACTIVATION": 0, "CUT": 1},
}
REDUCTIONS = {  # of so many leaves; of 64 with bfloat16 some bytes are spilled
    **{f"{leaves}": {"LEAVES": leaves, "NARROW": 0} for leaves in (1, 4, 16, 64)},
    **{f"bfloat16 {leaves}": {"LEAVES": leaves, "NARROW": 1} for leaves in (4, 16)},
}
SOURCES = {
    **{f"list_sums {name}": Source.of("list_sums.cu", **constants) for name, constants in SUMS.items()},
    **{
        f"first_stage {name} {form}": Source.of(CHESS / "first_stage.cu", **constants, **SUMS[name])
        for name in ("float32", "bfloat16", "narrow")
        for form, constants in FIRST_STAGES.items()
    },
    **{
        f"first_stage_backward {name} {form}": Source.of(
            CHESS / "first_stage_backward.cu", BFLOAT16=narrow, WIDTH=width, **constants
        )
        for name, narrow, width in (("float32", 0, 4), ("bfloat16", 1, 8))
        for form, constants in FIRST_STAGES.items()
    },
    "column_sums": Source.of("column_sums.cu", BFLOAT16=0, WIDTH=4),
    **{
        f"stacked_linear {name}": Source.of(
            CHESS / "stacked_linear.cu", BFLOAT16=0, WIDTH=width, HIDDEN=hidden, **{**STACKS, "CUT": cut}
        )
        for name, hidden, width, cut in (("0", 0, 1, 0), ("2", 2, 4, 0), ("2 cut", 2, 4, 1))
    },
    **{
        f"layer_stacks {hidden} {every}{' cut' * cut}": Source.of(
            CHESS / "layer_stacks.cu", BFLOAT16=0, WIDTH=4, HIDDEN=hidden, **{**STACKS, "ALL": every, "CUT": cut}
        )
        for hidden, every, cut in ((0, 0, 0), (2, 0, 0), (2, 1, 0), (4, 1, 0), (2, 0, 1), (2, 1, 1))
    },
    "weights_in_effect": Source.of(CHESS / "weights_in_effect.cu", BFLOAT16=0, WIDTH=1, TENSORS=6),
    **{
        f"rounded_rows {name}": Source.of(CHESS / "rounded_rows.cu", BFLOAT16=narrow, WIDTH=1, INDEX="uint16")
        for narrow, name in enumerate(("float32", "bfloat16"))
    },
    "squares": Source.of("squares.cu", BFLOAT16=0, WIDTH=1),
    "finite": Source.of("finite.cu", BFLOAT16=0, WIDTH=1, TENSORS=64),
    "win_rate_loss": Source.of(CHESS / "win_rate_loss.cu", BFLOAT16=0, WIDTH=1, SCORE="short", RESULT="signed char"),
    "bucket_difference": Source.of(
        CHESS / "bucket_difference.cu", BFLOAT16=0, NARROW=0, WIDTH=1, BUCKETS=8, VALUES=0, INDEX="uint16"
    ),
    "find_rows": Source.of("find_rows.cu", BFLOAT16=0, WIDTH=1, LEAVES=4, INDEX="uint16"),
    **{f"reduce {name}": Source.of("reduce.cu", BFLOAT16=0, WIDTH=4, **leaves) for name, leaves in REDUCTIONS.items()},
    **{
        f"step {rule} {name}": Source.of("step.cu", BFLOAT16=0, WIDTH=4, STEP=rule, **leaves)
        for rule in ("Adam", "RangerLite", "RangerLiteLookahead")
        for name, leaves in REDUCTIONS.items()
    },
}
# Blocks of 128 threads that find room on a multiprocessor at least, on each kind of device.
BLOCKS = {
    "list_sums float32": {"sum_lists": 12, "sum_pieces": 12, "join_pieces": 5},
    "list_sums values": {"sum_lists": 8, "sum_pieces": 8, "join_pieces": 5},
    "list_sums bfloat16": {"sum_lists": 8, "sum_pieces": 8, "join_pieces": 4},
    "list_sums narrow": {"sum_lists": 8},
    "first_stage float32 0": {"first_stage": 8},
    "first_stage narrow 0": {"first_stage": 6},
    "first_stage float32 cut": {"first_stage": 9},
    "first_stage narrow cut": {"first_stage": 6},
    "first_stage_backward float32 0": {"first_stage_backward": 6},
    "first_stage_backward float32 cut": {"first_stage_backward": 6},
    "column_sums": {"column_sums": 8},
    "stacked_linear 2": {"stacked_products": 7, "stacked_inputs": 9, "stacked_pieces": 6},
    "stacked_linear 2 cut": {"stacked_pieces": 6},
    "layer_stacks 2 0": {"stacks_forward": 4, "stacks_backward": 9},
    "layer_stacks 2 0 cut": {"stacks_forward": 4, "stacks_backward": 9},
    "layer_stacks 2 1 cut": {"stacks_forward": 4, "stacks_backward": 8},
    "step Adam 4": {"step": 12, "step_rows": 12},
    "reduce 4": {"reduce": 12, "reduce_rows": 12},
}
IN_FLIGHT = {  # kernels that must have so many rows on their way
    "list_sums float32": {"sum_lists": 4, "sum_pieces": 4, "join_pieces": 4},
    "list_sums values": {"sum_lists": 4, "sum_pieces": 4},
    "list_sums bfloat16": {"sum_lists": 4, "sum_pieces": 4},
    "first_stage float32 0": {"first_stage": 4},
    "first_stage bfloat16 0": {"first_stage": 4},
    "list_sums narrow": {"sum_lists": 4},
    "first_stage narrow 0": {"first_stage": 4},
    "first_stage float32 cut": {"first_stage": 4},
    "first_stage narrow cut": {"first_stage": 4},
    "first_stage_backward float32 0": {"first_stage_backward": 4},
    "first_stage_backward float32 cut": {"first_stage_backward": 4},
    "column_sums": {"column_sums": 8},
    "step Adam 4": {"step": 4, "step_rows": 4},
    "reduce 4": {"reduce": 4, "reduce_rows": 4},
}
CONSTANT = re.compile(r"HFMA2\S* R\d+, -RZ, RZ, ")  # -0 times 0 plus a constant: how one comes into a register
EVERY = pytest.mark.parametrize("architecture", ARCHITECTURES)
Compiled = Callable[[str, str], MachineCode]
KEPT = ROOT / "build/cubins"  # by content, for all processes that run tests


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    toolkit.require()
    folder = tmp_path_factory.mktemp("cubins")

    @cache
    def of(source: str, architecture: str) -> MachineCode:
        file = folder / f"{source}-{architecture}.cubin".replace(" ", "-")
        file.write_bytes(Compiler(architecture, KEPT).get_program(SOURCES[source]))
        return MachineCode(file)

    return of


@EVERY
@pytest.mark.parametrize("source", SOURCES)
def test_a_source_compiles_without_spills(compiled: Compiled, source: str, architecture: str) -> None:
    code = compiled(source, architecture)
    assert code.resources.keys() == SOURCES[source].kernels.keys()
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
    """Divisions and roots are sequences of contracted steps that end in the rounded result; steps and cuts have
    them."""
    for source in ("list_sums values", "first_stage float32 2", "reduce 4"):
        code = compiled(source, architecture)
        for name, instructions in code.instructions.items():
            contracted = [words for words in instructions if re.match(r"(FFMA|HFMA2|FMA)\b", words)]
            assert [words for words in contracted if not CONSTANT.match(words)] == [], name


@pytest.mark.usefixtures("compiled")
def test_the_compiler_says_in_a_line_what_it_refuses(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CompileError, match=r"list_sums\.cu .* for sm_90: NVRTC 13\.\d+: .*error: .*nothing") as raised:
        Compiler("sm_90", None).compile(Source.of("list_sums.cu", BFLOAT16=0, WIDTH=4, INDEX="nothing", VALUES=0))
    assert "\n" not in str(raised.value)
    assert "error" in caplog.text
    with pytest.raises(CompileError, match=r"^NVRTC 13\.\d+ compiles for sm_75 to sm_\d+, not for sm_999$"):
        Compiler("sm_999", None)


def test_what_is_compiled_is_kept(tmp_path: Path, compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    folder = tmp_path / "not there yet"
    source = SOURCES["column_sums"]
    program = Compiler("sm_90", folder).get_program(source)
    (file,) = folder.iterdir()

    def refuse(*_: object) -> bytes:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(Compiler, "compile", refuse)
        assert Compiler("sm_90", folder).get_program(source) == program
        with pytest.raises(AssertionError, match="compiled again"):
            Compiler("sm_80", folder).get_program(source)
    whole = file.read_bytes()
    for damaged in (whole[:-7], whole[:5], b"", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]):
        file.write_bytes(damaged)
        assert not Compiler("sm_90", folder).is_cached(source)
        assert Compiler("sm_90", folder).get_program(source) == program
        assert Compiler("sm_90", folder).is_cached(source)


@pytest.mark.usefixtures("compiled")
def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    assert Compiler("sm_90", tmp_path / "file" / "folder").get_program(SOURCES["column_sums"])
    (line,) = caplog.messages
    assert re.match(r"column_sums\.cu .* is not kept, each start compiles it again: .*\.cubin: Not a directory", line)


@pytest.mark.usefixtures("compiled")
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_file, "create_file", lambda _: os.open("/dev/full", os.O_WRONLY))
    assert Compiler("sm_90", tmp_path).get_program(SOURCES["column_sums"])
    assert list(tmp_path.iterdir()) == []
    assert caplog.messages[0].endswith(": No space left on device")


PROGRAM = """
import sys
import tempfile
from pathlib import Path
from tests.pool.kernels.cuda import toolkit
toolkit.require()
from tests.pool.kernels.cuda.test_machine_code import SOURCES
from pool.kernels.cuda.compiler import Compiler
made = Compiler("sm_90", Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
made.get_program(SOURCES["column_sums"])
"""


@pytest.mark.usefixtures("compiled")
def test_two_processes_may_compile_the_same_at_a_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    (file,) = tmp_path.iterdir()
    assert Compiler("sm_90", tmp_path).is_cached(SOURCES["column_sums"]), file


def test_every_kernel_is_looked_at() -> None:
    paths = {path for folder in (COMMON, CHESS) for path in folder.glob("*.cu")}
    assert paths == {source.path for source in SOURCES.values()}
