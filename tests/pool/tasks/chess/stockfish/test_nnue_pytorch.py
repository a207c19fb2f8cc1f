"""Checkpoints of nnue-pytorch: their numbers by the names of several years, and nothing in them is ever run."""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import decimal
import os
import pickle
import random
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from loader.errors import DataError
from pool.commands.main import PROGRAM
from pool.tasks.chess.stockfish import create_task
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.network import read_network
from pool.tasks.chess.stockfish.nnue_pytorch import read_checkpoint, read_tensors
from pool.tasks.chess.stockfish.versions import VERSIONS, Version
from pool.tasks.chess.training.config import LossConfig

L1 = 16
Tensors = dict[str, Tensor]


def drawn(*shape: int) -> Tensor:
    return torch.rand(*shape) * 0.4 - 0.2


def layers(version: Version, linear: str, shared: str) -> Tensors:
    sizes = {
        f"l1{linear}": (8 * version.fc_0_out, L1),
        shared: (version.fc_0_out, L1),
        f"l2{linear}": (8 * 32, version.fc_1_in),
        f"output{linear}": (8, version.fc_2_in),
    }
    return {
        f"layer_stacks.{name}.{kind}": drawn(*(size if kind == "weight" else size[:1]))
        for name, size in sizes.items()
        for kind in ("weight", "bias")
    }


def of_2022(version: Version) -> Tensors:
    """One table: of the threats, of 11 planes, and the factoriser's rows behind them."""
    rows = version.inputs + 768
    return {"input.weight": drawn(rows, L1 + 8), "input.bias": drawn(L1 + 8), **layers(version, "", "l1_fact")}


def of_2022_unfactorised(version: Version) -> Tensors:
    return {**of_2022(version), "input.weight": drawn(version.inputs, L1 + 8)}


def of_early_2026(version: Version) -> Tensors:
    """One table, with 12 planes."""
    tables = {"weight": drawn(version.inputs - 22528 + 24576, L1 + 8), "virtual_weight": drawn(768, L1 + 8)}
    tables["bias"] = drawn(L1 + 8)
    found = {**{f"input.{name}": table for name, table in tables.items()}}
    return {f"model.{name}": tensor for name, tensor in {**found, **_new_layers(version)}.items()}


def of_2026(version: Version) -> Tensors:
    """A table for each feature set, the pieces' last."""
    sizes = [*(table.inputs for table in version.tables[1:]), 24576]
    found = {f"input.features.{k}.weight": drawn(size, L1 + 8) for k, size in enumerate(sizes)}
    found |= {f"input.features.{len(sizes) - 1}.virtual_weight": drawn(768, L1 + 8), "input.bias": drawn(L1 + 8)}
    return {f"model.{name}": tensor for name, tensor in {**found, **_new_layers(version)}.items()}


def _new_layers(version: Version) -> Tensors:
    return layers(version, ".linear", "l1.factorized_linear")


def expected_row(tensors: Tensors, version: Version, feature: int) -> Tensor:
    """Of a piece, [l1 + 8], by the definition of HalfKAv2_hm."""
    bucket, plane, square = feature // 704, feature % 704 // 64, feature % 64
    own_king = 8 * (7 - bucket // 4) + 7 - bucket % 4
    of_12 = plane if plane < 10 else 10 if square == own_king else 11
    names = sorted(name for name in tensors if ".weight" in name and "input" in name)
    table = tensors[names[-1]]  # of several that of the pieces
    if len(names) == 1:
        table = table[version.inputs - 22528 :]
    virtual = next((tensor for name, tensor in tensors.items() if name.endswith("virtual_weight")), None)
    if len(table) == 24576:
        row = table[768 * bucket + 64 * of_12 + square]
    else:
        row = table[feature]
        virtual = table[22528:] if len(table) > 22528 else None
    return row if virtual is None else row + virtual[64 * of_12 + square]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("SFNNv5", of_2022),
        ("SFNNv5", of_2022_unfactorised),
        ("SFNNv5", of_early_2026),
        ("SFNNv10", of_2022),
        ("SFNNv10", of_early_2026),
        ("SFNNv10", of_2026),
        ("SFNNv16", of_2026),
    ],
)
def test_the_numbers_are_those_of_the_checkpoint(name: str, make: Callable[[Version], Tensors], tmp_path: Path) -> None:
    torch.manual_seed(1)
    version = VERSIONS[name]
    tensors = make(version)
    torch.save({"epoch": 3, "state_dict": collections.OrderedDict(tensors), "loops": {}}, tmp_path / "x.ckpt")
    found = read_checkpoint(tmp_path / "x.ckpt")
    assert (found.version.tables, found.l1) == (version.tables, L1)
    for feature in np.random.default_rng(1).integers(0, 22528, 200).tolist() + list(range(640, 704)):
        row = expected_row(tensors, version, feature).numpy()
        assert np.array_equal(found.floats["transformer_weight"][feature], row[:L1])
        assert np.array_equal(found.floats["psqt_weight"][feature], row[L1:])
    plain = {key.removeprefix("model."): tensor.numpy() for key, tensor in tensors.items()}
    assert np.array_equal(found.floats["transformer_bias"], plain["input.bias"][:L1])
    start = 0
    for table, key in zip(version.tables[1:], ("input.features.0.weight", "input.features.1.weight"), strict=False):
        rows = plain[key] if key in plain else plain["input.weight"][start : start + table.inputs]
        assert np.array_equal(found.floats[table.weight], rows[:, :L1])
        assert np.array_equal(found.floats[table.psqt], rows[:, L1:])
        start += table.inputs
    linear = ".linear" if "layer_stacks.l1.linear.weight" in plain else ""
    shared = "l1.factorized_linear" if linear else "l1_fact"
    out = version.fc_0_out
    bucket_5 = slice(5 * out, 6 * out)
    for kind in ("weight", "bias"):
        of_all = plain[f"layer_stacks.{shared}.{kind}"]
        assert np.array_equal(
            found.floats[f"fc_0_{kind}"][5], plain[f"layer_stacks.l1{linear}.{kind}"][bucket_5] + of_all
        )
        assert np.array_equal(found.floats[f"fc_1_{kind}"][5], plain[f"layer_stacks.l2{linear}.{kind}"][160:192])
        assert np.array_equal(found.floats[f"fc_2_{kind}"][5], plain[f"layer_stacks.output{linear}.{kind}"][5])


def save(folder: Path, tensors: Any) -> Path:
    torch.save(tensors, folder / "x.ckpt")
    return folder / "x.ckpt"


def test_it_becomes_a_checkpoint_with_the_same_floats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path, {"state_dict": of_2022(VERSIONS["SFNNv5"])})
    assert PROGRAM.main(["convert", str(path), "--to", "checkpoint", "-o", str(tmp_path / "run")]) == 0
    assert PROGRAM.main(["export", str(tmp_path / "run"), "-o", str(tmp_path / "x.nnue")]) == 0
    assert PROGRAM.main(["eval", str(path), "--fen", "startpos"]) == 0
    of_checkpoint = capsys.readouterr().out.splitlines()[-1]
    assert PROGRAM.main(["eval", str(tmp_path / "x.nnue"), "--fen", "startpos"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == of_checkpoint
    version = read_network(path, None).net.version.name
    task = create_task(
        ModelConfig.model_validate({"version": version, "l1": L1, "start_from": str(path)}), LossConfig()
    )
    model = task.build_model()
    task.initialize(model)
    floats = read_checkpoint(path).floats
    assert all(np.array_equal(values, floats[name]) for name, values in model.merged_floats().items())
    with pytest.raises(ValueError, match=r"model.start_from: .* has l1 = 16; set model.l1 = 16"):
        create_task(
            ModelConfig.model_validate({"version": version, "l1": 32, "start_from": str(path)}), LossConfig()
        )._read_start_floats()


class Module(nn.Module):
    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            begin, _, rest = name.partition(".")
            if not rest:
                self.register_parameter(begin, nn.Parameter(tensor))
        for begin in {name.partition(".")[0] for name in tensors if "." in name}:
            inner = {name.partition(".")[2]: t for name, t in tensors.items() if name.startswith(f"{begin}.")}
            self.add_module(begin, Module(inner))


def test_a_whole_pickled_module_is_read_without_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = of_2022(VERSIONS["SFNNv5"])
    monkeypatch.setattr(Module, "__module__", "model.nnue")
    stand_in = types.ModuleType("model.nnue")
    stand_in.Module = Module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "model", types.ModuleType("model"))
    monkeypatch.setitem(sys.modules, "model.nnue", stand_in)
    torch.save(Module(tensors), tmp_path / "x.pt")
    monkeypatch.delitem(sys.modules, "model.nnue")
    monkeypatch.delitem(sys.modules, "model")
    found = read_tensors(tmp_path / "x.pt")
    assert set(found) == set(tensors)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert "model" not in sys.modules


def test_settings_of_known_classes_are_passed_over(tmp_path: Path) -> None:
    tensors = of_2022(VERSIONS["SFNNv5"])
    settings = {
        "a": argparse.Namespace(lr=1e-3),
        "b": Path("x"),
        "c": {1, 2},
        "d": slice(3),
        "e": collections.Counter("x"),
    }
    optimizer = {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 1e-3, "params": [0]}]}
    parts = {"state_dict": tensors, "hyper_parameters": settings, "optimizer_states": [optimizer]}
    found = read_tensors(save(tmp_path, parts))
    assert set(found) == set(tensors)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize(
    "value",
    [
        np.float64(1.5),
        np.int64(3),
        np.bool_(True),
        np.arange(5.0),
        np.array(["a", None], dtype=object),
        np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
        np.datetime64("2020-01-01"),
        np.dtype("f8"),
        np.random.RandomState(1).get_state(),
        np.random.default_rng(1),
        np.ma.masked_array([1, 2], mask=[False, True]),
        argparse.Namespace(lr=np.float64(1e-3)),
        collections.defaultdict(list, a=[1]),
        collections.deque([1, 2], maxlen=3),
        datetime.datetime(2026, 11, 29),
        decimal.Decimal("0.1"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_numbers_stand_beside_the_weights_these_are_read(value: Any, tmp_path: Path) -> None:
    """A callback keeps the best loss as a number of numpy, a loop the step, a seeded run its generators."""
    beside = {"callbacks": {"best": value}, "loops": [{"state": {"count": value}}], "rng": (value, [value])}
    found = read_tensors(save(tmp_path, {"state_dict": {"input.bias": torch.ones(3)}, **beside}))
    assert found["input.bias"].tolist() == [1.0, 1.0, 1.0]


def test_an_entry_that_torch_does_not_read_is_not_called_damage(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(3)}, tmp_path / "x.ckpt", pickle_protocol=4)
    with pytest.raises(
        DataError, match=r"has an entry that can't be read \(UnpicklingError: .*save the state_dict alone"
    ):
        read_tensors(tmp_path / "x.ckpt")


class Attack:
    def __init__(self, call: tuple[Any, ...]) -> None:
        self._call = call

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("what", ["system", "eval", "exec"])
def test_a_pickle_with_code_is_refused_and_never_run(
    protocol: int, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    witness = tmp_path / "ran"
    calls: dict[str, tuple[Any, ...]] = {
        "system": (os.system, (f"touch {witness}",)),
        "eval": (eval, (f"__import__('os').mkdir({str(witness)!r})",)),
        "exec": (exec, (f"__import__('os').mkdir({str(witness)!r})",)),
    }
    torch.save({"state_dict": Attack(calls[what])}, tmp_path / "x.ckpt", pickle_protocol=protocol)
    assert PROGRAM.main(["convert", str(tmp_path / "x.ckpt"), "-o", str(tmp_path / "run")]) == 65
    said = capsys.readouterr().err
    assert "it is not run, and the file not read" in said
    assert len(said.splitlines()) == 1
    assert not witness.exists()
    assert not (tmp_path / "run").exists()
    pickle.loads(pickle.dumps(Attack(calls[what]), protocol))  # noqa: S301 (it would have been)
    assert witness.exists()


def without(tensors: Tensors, name: str) -> Tensors:
    return {key: tensor for key, tensor in tensors.items() if key != name}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: {**t, "input.weight": drawn(84720, 24)}, r"input.weight: \[84720, 24\], expected is .*SFNNv16 "),
        (
            lambda t: {**t, "input.weight": drawn(23296, 21)},
            r"input.weight: \[23296, 21\], expected is a mult",
        ),
        (lambda t: {**t, "input.weight": drawn(23296)}, r"input.weight: \[23296\], expected is"),
        (lambda t: {**t, "input.bias": drawn(16)}, r"input.bias: \[16\], expected is \[24\]"),
        (
            lambda t: {**t, "layer_stacks.l1.weight": drawn(256, 16)},
            r"layer_stacks.l1.weight: \[256, 16\], expected is \[128, 16\]",
        ),
        (lambda t: without(t, "layer_stacks.l2.bias"), r"no tensor layer_stacks.l2.bias, of \[256\]"),
        (lambda t: without(t, "input.weight"), "no tensor input.weight: not a checkpoint of nnue-pytorch"),
        (lambda t: {**t, "input.bias": torch.full((24,), torch.nan)}, "input.bias: 24 of 24 numbers are not finite"),
        (lambda t: {**t, "input.bias": torch.zeros(24, dtype=torch.int64)}, "input.bias: torch.int64; floats"),
        (lambda _: {"epoch": 1}, "has no tensors"),
        (lambda _: [1, 2], "has no tensors"),
    ],
)
def test_what_does_not_fit_is_named(change: Callable[[Tensors], Any], said: str, tmp_path: Path) -> None:
    path = save(tmp_path, change(of_2022(VERSIONS["SFNNv5"])))
    with pytest.raises(DataError, match=said):
        read_checkpoint(path)


def test_tensors_that_claim_more_than_there_is_are_refused(tmp_path: Path) -> None:
    """Before memory is asked for."""
    one = torch.zeros(1).expand(23296, 24)
    path = save(tmp_path, {**of_2022(VERSIONS["SFNNv5"]), "input.weight": one})
    with pytest.raises(DataError, match=r"input.weight: \[23296, 24\] is more than its 1 numbers"):
        read_checkpoint(path)
    with zipfile.ZipFile(tmp_path / "y.ckpt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"." * (1 << 20))
    with pytest.raises(DataError, match=r"x/data\.pkl is compressed"):
        read_checkpoint(tmp_path / "y.ckpt")
    path = save(tmp_path, of_2022(VERSIONS["SFNNv5"]))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "z.ckpt", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name)[: -1 if name.endswith("data/1") else None])
    with pytest.raises(DataError, match=r"input\.bias: 96 bytes are expected, and no storage of the file has so many"):
        read_checkpoint(tmp_path / "z.ckpt")


def test_a_flipped_bit_in_a_tensor_is_damage(tmp_path: Path) -> None:
    """torch.load does not look at the checksums that torch.save writes."""
    path = save(tmp_path, of_2022(VERSIONS["SFNNv5"]))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"x/data/\d+ is damaged"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "claimed", [b"J\x00\x00\x00\x7f", b"J\x00\x00\x00\xf0", b"K\xff"], ids=["huge", "below 0", "255"]
)
@pytest.mark.parametrize("place", [(0,), (1,), (0, 1)], ids=["storage", "tensor", "both"])
def test_sizes_that_a_pickle_claims_are_not_believed(claimed: bytes, place: tuple[int, ...], tmp_path: Path) -> None:
    path = save(tmp_path, {"input.weight": torch.zeros(64)})
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "y.ckpt", "w") as new:
        first, second, third = old.read("x/data.pkl").split(b"K@")  # 64 numbers of the storage, 64 of the tensor
        sizes = [claimed if number in place else b"K@" for number in range(2)]
        new.writestr("x/data.pkl", first + sizes[0] + second + sizes[1] + third)
        for name in old.namelist():
            if not name.endswith("data.pkl"):
                new.writestr(name, old.read(name))
    with pytest.raises(DataError):
        read_tensors(tmp_path / "y.ckpt")


def test_damage_anywhere_in_the_archive_is_refused_in_one_line(tmp_path: Path) -> None:
    """Its directory, with names that are no text any more, as well as what it holds."""
    good = save(tmp_path, {"input.weight": drawn(4, 9)}).read_bytes()
    rng = random.Random(3)
    for _ in range(400):
        data = bytearray(good)
        for at in rng.choices(range(len(data)), k=rng.choice((1, 1, 2, 8))):
            data[at] = rng.choice((0, 0xFF, rng.randrange(256)))
        (tmp_path / "y.pt").write_bytes(data)
        with contextlib.suppress(DataError):
            read_tensors(tmp_path / "y.pt")


def test_damage_is_refused_in_one_line(tmp_path: Path) -> None:
    """Whatever byte of the pickle is another one, or wherever the file ends."""
    data = save(tmp_path, {"input.weight": drawn(4, 9), "input.bias": drawn(9)}).read_bytes()
    with zipfile.ZipFile(tmp_path / "x.ckpt") as archive:
        described = archive.read("x/data.pkl")
        others = {name: archive.read(name) for name in archive.namelist() if not name.endswith("data.pkl")}
    for at in range(len(described)):
        for byte in (0xFF, described[at] ^ 1):
            with zipfile.ZipFile(tmp_path / "y.ckpt", "w") as archive:
                archive.writestr("x/data.pkl", described[:at] + bytes([byte]) + described[at + 1 :])
                for name, content in others.items():
                    archive.writestr(name, content)
            with pytest.raises(DataError):
                read_checkpoint(tmp_path / "y.ckpt")
    for end in range(0, len(data), 97):
        (tmp_path / "z.ckpt").write_bytes(data[:end])
        with pytest.raises(DataError):
            read_checkpoint(tmp_path / "z.ckpt")
    with pytest.raises(DataError, match="can't be read: No such file"):
        read_checkpoint(tmp_path / "none.ckpt")
    torch.save({"x": torch.zeros(1)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(DataError, match="not a file that torch has saved, or damaged: a zip archive"):
        read_checkpoint(tmp_path / "old.pt")
