"""Files in bullet's format: the same bytes as the rules give, back again, and one clear line for what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.chess.output_buckets import buckets_by_pieces
from loader.errors import DataError
from pool.tasks.chess.perspective import network_file
from pool.tasks.chess.perspective.config import ExportTensor, ModelConfig
from pool.tasks.chess.perspective.export_list import list_exported_tensors
from pool.tasks.chess.perspective.inference import check_evaluable, evaluate
from pool.tasks.chess.perspective.quantization import dequantise, quantise
from pool.tasks.chess.positions import read_fen
from tests.pool.tasks.chess.perspective.support import FACTORISED, LAYERS, RUNGS, SIMPLE, make_shape, random_floats
from tests.support.paths import DATA

FILE = Path("net.bin")


def entries_of(model: dict[str, object]) -> tuple[ExportTensor, ...]:
    return list_exported_tensors(ModelConfig.model_validate(model), make_shape(model))


def test_the_vectors_are_met_byte_for_byte() -> None:
    vectors = DATA / "vectors"
    raw, stored = (vectors / f"simple32.{kind}.bin" for kind in ("raw", "quantised"))
    shape, entries = make_shape(SIMPLE), entries_of(SIMPLE)
    floats = network_file.parse_raw(raw.read_bytes(), shape, entries, raw)
    assert network_file.raw_bytes(floats, shape, entries) == raw.read_bytes()
    assert network_file.quantised_bytes(quantise(floats, shape, entries, 400.0)) == stored.read_bytes()
    net = network_file.parse_quantised(stored.read_bytes(), shape, entries, 400.0, stored)
    fens = [line.partition("|")[0].strip() for line in (vectors / "positions.txt").read_text().splitlines()]
    found = evaluate(net, [read_fen(fen, shape.inputs) for fen in fens], buckets_by_pieces("single"))
    assert found.value.tolist() == [int(line) for line in (vectors / "simple32.evals.txt").read_text().split()]


@pytest.mark.parametrize("rung", RUNGS)
def test_a_quantised_file_is_read_back_and_converted_without_loss(rung: str) -> None:
    shape, entries = make_shape(RUNGS[rung]), entries_of(RUNGS[rung])
    net = quantise(random_floats(shape), shape, entries, 400.0)
    data = network_file.quantised_bytes(net)
    again = network_file.parse_quantised(data, shape, entries, 400.0, FILE)
    assert all(np.array_equal(again.tensors[name], values) for name, values in net.tensors.items())
    assert network_file.quantised_bytes(quantise(dequantise(again), shape, entries, 400.0)) == data


@pytest.mark.parametrize("rung", RUNGS)
def test_files_of_floats_are_read_back(rung: str) -> None:
    shape, entries = make_shape(RUNGS[rung]), entries_of(RUNGS[rung])
    floats = random_floats(shape)
    weights = network_file.parse_weights(network_file.weights_bytes(floats), shape, FILE)
    listed = entries if not shape.num_virtual else (*entries, ExportTensor(weight="l0f"))
    raw = network_file.parse_raw(network_file.raw_bytes(floats, shape, listed), shape, listed, FILE)
    for name, values in floats.items():
        assert np.array_equal(weights[name], values)
        assert np.array_equal(raw[name], values)


@pytest.mark.parametrize("rung", ["factorised", "layers"])
def test_a_file_without_its_factoriser_is_refused_with_what_to_take(rung: str) -> None:
    shape, entries = make_shape(RUNGS[rung]), entries_of(RUNGS[rung])
    data = network_file.raw_bytes(random_floats(shape), shape, entries)
    with pytest.raises(DataError, match=r"does not list l0f, so this file has no factoriser: take weights\.bin; or"):
        network_file.parse_raw(data, shape, entries, FILE)


def test_tensors_lie_as_bullet_stores_them() -> None:
    """Input by input unless transposed; outputs bucket by bucket; padded with the letters `bullet`."""
    shape, entries = make_shape(LAYERS), entries_of(LAYERS)
    floats = random_floats(shape)
    net = quantise(floats, shape, entries, 400.0)
    data = network_file.quantised_bytes(net)
    assert len(data) % 64 == 0
    size = 2 * (7680 + 1) * 32 + 8 * 16 * 32 + 4 * (8 * 16 + 8 * 32 * 16 + 8 * 32 + 8 * 32 + 8)
    assert data[size:] == (b"bullet" * 11)[: -size % 64]
    l0w = np.frombuffer(data, "<i2", 7680 * 32).reshape(7680, 32)
    bucket, feature = 3, 77
    merged = floats["l0w"][768 * bucket + feature] + floats["l0f"][feature]
    assert l0w[768 * bucket + feature].tolist() == [int(np.trunc(v + np.copysign(0.5, v))) for v in merged * 255.0]
    l1w = np.frombuffer(data, "i1", 8 * 16 * 32, 2 * 7681 * 32).reshape(8 * 16, 32)
    assert np.array_equal(l1w[16 * 5 + 2], net.tensors["l1w"][5, 2])
    raw = np.frombuffer(network_file.raw_bytes(floats, shape, entries), "<f4")
    behind = raw[7680 * 32 + 32 :]
    assert np.array_equal(behind[: 8 * 16 * 32].reshape(32, 8 * 16)[:, 16 * 5 + 2], floats["l1w"][5, 2])


@given(st.lists(st.floats(-2, 2, width=32), min_size=32, max_size=32), st.booleans(), st.booleans())
def test_every_way_to_store_a_tensor_keeps_its_numbers(values: list[float], rounds: bool, transposes: bool) -> None:
    shape = make_shape(SIMPLE)
    entry = ExportTensor(weight="l0b", type="i16", scale=255, round=rounds, transpose=transposes)
    entries = tuple(entry if old.weight == "l0b" else old for old in entries_of(SIMPLE))
    floats = {**random_floats(shape), "l0b": np.array(values, np.float32)}
    net = quantise(floats, shape, entries, 400.0)
    exact = [value * 255 for value in np.array(values, np.float32).astype(float).tolist()]
    wanted = [int(abs(v) + (0.5 if rounds else 0)) * (1 if v >= 0 else -1) for v in exact]
    assert net.tensors["l0b"].tolist() == wanted


def test_a_value_that_does_not_fit_is_named_with_the_clip_that_would_have_prevented_it() -> None:
    shape, entries = make_shape(SIMPLE), entries_of(SIMPLE)
    floats = {**random_floats(shape), "l1b": np.array([[-2.5]], np.float32)}
    said = (
        r"l1b: 1 of 1 values do not fit int16 \(times 16320\); the most extreme is -2.5, "
        r"allowed is -2.00784 to 2.00778; "
        r"trained with model.clip_weights = 2.007 it would fit"
    )
    with pytest.raises(ValueError, match=said):
        quantise(floats, shape, entries, 400.0)
    floats = {**random_floats(shape), "l0b": np.full(32, np.nan, np.float32)}
    with pytest.raises(ValueError, match="l0b: 32 of 32 values are not finite"):
        quantise(floats, shape, entries, 400.0)


def listed(*weights: str, **changes: object) -> dict[str, object]:
    tensors = [{"weight": name, "type": "i16", "scale": 255.0 if name.startswith("l0") else 64.0} for name in weights]
    return {"export": [{**tensor, **changes} for tensor in tensors]}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (listed("l0w", "l0b", "l1w", "l1b", "l2w"), "model.export: this network has no l2w; it has l0w, l0b, l1w, l1b"),
        (listed("l0w", "l0b", "l0b", "l1w", "l1b"), "model.export: l0b is there 2 times"),
        (listed("l0w", "l0b"), "model.export: l1w, l1b: missing"),
        (listed("l0w", "l0b", "l1w", "l1b", merge="l0f"), "l0w: merge = l0f is for no tensor of a network without"),
        ({"hidden": [8], "export_as": "simple"}, "model.export_as: l2w, l2b: missing"),
    ],
)
def test_a_list_that_does_not_fit_the_network_is_refused(model: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        entries_of({**SIMPLE, **model})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"type": "f32"}, "l0w and l0b: i8 or i16, with the same scale"),
        ({"scale": 100.0}, "l1b: integers with scale 10000, that of l0w times that of l1w"),
    ],
)
def test_a_file_that_no_engine_evaluates_is_refused(changes: dict[str, object], said: str) -> None:
    model = {**SIMPLE, **listed("l0w", "l0b", "l1w", "l1b", **changes)}
    net = quantise(random_floats(make_shape(SIMPLE)), make_shape(SIMPLE), entries_of(model), 400.0)
    with pytest.raises(ValueError, match=said):
        check_evaluable(net)


def test_a_factoriser_is_never_lost_in_silence() -> None:
    shape = make_shape(FACTORISED)
    entries = entries_of({**FACTORISED, "export_as": "output_buckets"})
    with pytest.raises(ValueError, match='l0w: without merge = "l0f" what the factoriser has learnt would be lost'):
        quantise(random_floats(shape), shape, entries, 400.0)


@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        ("quantised", lambda data: data[:1000], r"net.bin: offset 0: the file ends inside l0w, at 1,000 bytes"),
        ("quantised", lambda data: data + bytes(64), r"net.bin: offset 49346: 49,472 bytes; a network .* has 49,408"),
        ("raw", lambda data: data[:-1], r"net.bin: offset 98688: the file ends inside l1b, at 98,691 bytes"),
        ("raw", lambda data: data + b"x", r"net.bin: offset 98692: 98,693 bytes; a network of this shape has 98,692"),
        ("raw", lambda data: b"\xff" * 4 + data[4:], r"offset 0: l0w: 1 of 24576 numbers are not finite"),
        ("weights", lambda data: b"l9w" + data[3:], r"offset 0: tensor 'l9w'; expected is each of l0w, l0b, l1w, l1b"),
        ("weights", lambda data: b"\n" + data, r"offset 0: no name of a tensor; expected is each of"),
        ("weights", lambda data: data[:4] + b"\x01" + data[5:], r"offset 4: l0b has 1 numbers; .* has 32"),
        ("weights", lambda data: data[: data.index(b"l1b")], r"no tensor l1w, l1b"),
    ],
)
def test_a_damaged_file_is_named_with_the_place(kind: str, damage: Callable[[bytes], bytes], said: str) -> None:
    shape, entries = make_shape(SIMPLE), entries_of(SIMPLE)
    floats = random_floats(shape)
    data, parse = {
        "quantised": (
            network_file.quantised_bytes(quantise(floats, shape, entries, 400.0)),
            lambda data: network_file.parse_quantised(data, shape, entries, 400.0, FILE),
        ),
        "raw": (
            network_file.raw_bytes(floats, shape, entries),
            lambda data: network_file.parse_raw(data, shape, entries, FILE),
        ),
        "weights": (network_file.weights_bytes(floats), lambda data: network_file.parse_weights(data, shape, FILE)),
    }[kind]
    with pytest.raises(DataError, match=said):
        parse(damage(data))
