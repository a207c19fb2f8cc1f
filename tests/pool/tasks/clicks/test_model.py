"""The task `clicks`: scores and losses against their formulas, what it refuses, and what it exports."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors import safe_open

from loader.stream.schema import BatchSchema, DenseField, SparseBatch, SparseField
from loader.stream.slots import allocate_slots, write_batch
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.metrics.layout import create_layout
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.clicks.config import LossConfig, ModelConfig
from pool.tasks.clicks.model import pair_scores
from pool.tasks.clicks.standardization import StandardisedNumbers
from pool.tasks.clicks.task import ClicksTask

SAMPLES = 32
FIELDS = {"user": 40, "items": 30}  # `items` is also the name of a method of dictionaries
START = Progress(0, 1)

Array = npt.NDArray[Any]


NUMBERS = ("price", "age")


def schema(*, weights: bool = False, numbers: tuple[str, ...] = ()) -> BatchSchema:
    names = ["label", *(["weight"] if weights else []), *numbers]
    sparse = (SparseField("user", 40, 1), SparseField("items", 30, 5))
    return BatchSchema(SAMPLES, sparse, tuple(DenseField(name, "float32") for name in names))


def batch_of(
    classes: int, *, weights: bool = False, numbers: tuple[str, ...] = ()
) -> tuple[TensorBatch, dict[str, Array]]:
    """A batch, and its rows as 0 and 1, [samples, features] by field; `label`, `weight` and numbers."""
    random = np.random.default_rng(classes)
    rows, ones = {}, {}
    for field in schema().sparse:
        active = np.array([random.integers(0, field.max_active + 1) for _ in range(SAMPLES)])
        features = [np.sort(random.choice(field.num_features, count, replace=False)) for count in active]
        rows[field.name] = np.concatenate([[0], np.cumsum(active)]), np.concatenate(features)
        ones[field.name] = np.zeros((SAMPLES, field.num_features))
        for sample, chosen in enumerate(features):
            ones[field.name][sample, chosen] = 1.0
    dense = {"label": random.integers(0, classes, SAMPLES).astype(np.float32)}
    if weights:
        dense["weight"] = random.uniform(0, 2, SAMPLES).astype(np.float32)
    dense |= {name: random.lognormal(4, 2, SAMPLES).astype(np.float32) for name in numbers}
    found = schema(weights=weights, numbers=numbers)
    (slot,) = allocate_slots(found, 1)
    write_batch(found, slot, 0, rows, dense)
    return TensorBatch.from_numpy(SparseBatch.view(found, slot)), {**ones, **dense}


def task_of(kind: str, classes: int = 2, **more: Any) -> ClicksTask:
    settings = {"kind": kind, "fields": FIELDS, "classes": classes, "rank": 3, "hidden": [8, 4], **more}
    return ClicksTask(ModelConfig.model_validate(settings), LossConfig())


def trained_model(task: ClicksTask) -> torch.nn.Module:
    torch.manual_seed(1)
    model = task.build_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    return model


def scores_of(kind: str, classes: int, tensors: dict[str, Array], ones: dict[str, Array]) -> Array:
    """[samples, scores], float64, by the formulas of docs/reference/clicks-file.md."""
    tables = {name: tensors[f"table_{name}.weight"].astype(np.float64) for name in FIELDS}
    sums = [ones[name] @ table for name, table in tables.items()]
    numbers = np.zeros((SAMPLES, 0))
    if "numbers.mean" in tensors:
        raw = np.stack([np.log1p(ones["price"].astype(np.float64)), ones["age"]], axis=1)
        numbers = ((raw - tensors["numbers.mean"]) / tensors["numbers.deviation"]).clip(-1.5, 1.5)
    if kind in ("mlp", "dcn"):
        hidden = inputs = np.concatenate([*sums, numbers], axis=1)
        for number in range(2 if kind == "dcn" else 0):
            hidden = inputs * (hidden @ tensors[f"cross.{number}.weight"].T + tensors[f"cross.{number}.bias"]) + hidden
        for number in (0, 2, 4):
            hidden = hidden @ tensors[f"layers.{number}.weight"].T.astype(np.float64) + tensors[f"layers.{number}.bias"]
            hidden = np.maximum(hidden, 0) if number < 4 else hidden
        return np.asarray(hidden)
    if numbers.size:
        sums.append(numbers @ tensors["dense.weight"].T)
    total = sum(sums[1:], sums[0]).reshape(SAMPLES, 1 if classes == 2 else classes, -1)
    scores = tensors["bias"] + total[:, :, 0] + (total[:, :, 1:] ** 2).sum(axis=2) / 2
    return np.asarray(scores)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["logistic", "factorization", "mlp", "dcn"])
@pytest.mark.parametrize("numbers", [(), NUMBERS])
def test_an_exported_model_gives_the_scores_that_the_task_trains(
    numbers: tuple[str, ...], kind: str, classes: int, tmp_path: Path
) -> None:
    task = task_of(kind, classes, dense=numbers, dense_log=numbers[:1], dense_clip=1.5)
    task.check(schema(numbers=numbers))
    model = trained_model(task)
    batch, ones = batch_of(classes, numbers=numbers)
    model(batch)
    model.eval()
    task.export(model, tmp_path / "net", "of a test")
    with safe_open(tmp_path / "net", "numpy") as file:
        about = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    assert (about["kind"], about["classes"], about["description"]) == (kind, str(classes), "of a test")
    assert json.loads(about["fields"]) == FIELDS
    assert (tuple(json.loads(about["dense"])), about["dense_clip"]) == (numbers, "1.5")
    expected = scores_of(kind, classes, tensors, ones)
    loss, arrays = task.validate(model, batch, START)
    np.testing.assert_allclose(arrays["scores"].detach().numpy().reshape(SAMPLES, -1), expected, rtol=1e-5, atol=1e-5)
    full = np.concatenate([np.zeros((SAMPLES, 1)), expected], axis=1) if classes == 2 else expected
    log_p = full - np.log(np.exp(full).sum(axis=1, keepdims=True))
    expected_loss = -log_p[np.arange(SAMPLES), ones["label"].astype(int)].mean()
    assert loss.item() == pytest.approx(expected_loss, rel=1e-5)
    assert task.loss(model, batch, START).item() == loss.item()


def test_equal_models_are_exported_as_equal_bytes(tmp_path: Path) -> None:
    for number in range(20):
        task = task_of("dcn", dense=list(NUMBERS))
        task.export(trained_model(task), tmp_path / f"{number}.safetensors", "ü")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_groups_of_rows_have_an_auc_of_their_own() -> None:
    with_groups = replace(schema(), dense=(*schema().dense, DenseField("qid", "int64")))
    task = task_of("logistic")
    task.check(with_groups)
    assert list(task.metrics(with_groups)) == ["auc", "gauc", "log_loss"]
    assert list(task.metrics(schema())) == ["auc", "log_loss"]
    assert list(task_of("logistic", 3).metrics(with_groups)) == ["accuracy", "log_loss"]
    batch, ones = batch_of(2)
    groups = torch.arange(SAMPLES) // 5
    _, found = task.validate(trained_model(task), replace(batch, dense={**batch.dense, "qid": groups}), START)
    arrays = {name: array.detach().numpy() for name, array in found.items()}
    aucs, sizes = [], []
    for group in range(7):
        own = arrays["groups"] == group
        labels, scores = ones["label"][own], arrays["scores"][own]
        pairs = [(one > other) + 0.5 * (one == other) for one in scores[labels == 1] for other in scores[labels == 0]]
        if pairs:
            aucs.append(np.mean(pairs))
            sizes.append(own.sum())
    value = task.metrics(with_groups)["gauc"].value(arrays)
    assert value == pytest.approx(np.average(aucs, weights=sizes), rel=1e-12)


def test_factorization_says_what_pairs_of_features_are_worth() -> None:
    """The textbook's form: with its terms of one feature moved to the weights both are the same."""
    task = task_of("factorization")
    model = trained_model(task)
    batch, ones = batch_of(2)
    table = np.concatenate([model.get_parameter(f"table_{name}.weight").detach().numpy() for name in FIELDS])
    x = np.concatenate([ones[name] for name in FIELDS], axis=1)
    weights, vectors = table[:, 0] + (table[:, 1:] ** 2).sum(axis=1) / 2, table[:, 1:].astype(np.float64)
    pairs = np.triu(vectors @ vectors.T, k=1)
    expected = model.get_parameter("bias").item() + x @ weights + np.einsum("si,ij,sj->s", x, pairs, x)
    np.testing.assert_allclose(model(batch).detach().numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("samples", "scores", "rank"), [(1, 1, 5), (777, 1, 15), (300, 3, 15), (64, 2, 33)])
def test_scores_of_a_factorization_and_their_gradient_have_the_bits_of_autograd(
    samples: int, scores: int, rank: int
) -> None:
    torch.manual_seed(samples)
    given = torch.randn(samples, scores * (1 + rank)), torch.randn(scores)
    grad = torch.randn(samples, scores)

    def by_autograd(total: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        parts = total.view(samples, scores, -1)
        return bias + parts[:, :, 0] + parts[:, :, 1:].square().sum(dim=2) / 2

    found = []
    for function in (pair_scores, by_autograd):
        inputs = [tensor.clone().requires_grad_() for tensor in given]
        out = function(*inputs)
        found.append([out, *torch.autograd.grad(out, inputs, grad)])
    assert all(torch.equal(ours, autograds) for ours, autograds in zip(*found, strict=True))
    of_members = torch.func.vmap(pair_scores)(*(torch.stack([tensor, tensor]) for tensor in given))
    torch.testing.assert_close(of_members[1], found[0][0])


@pytest.mark.parametrize("classes", [2, 3])
def test_a_sample_counts_as_much_as_its_weight(classes: int) -> None:
    task = task_of("logistic", classes)
    model = trained_model(task)
    batch, arrays = batch_of(classes, weights=True)
    alone = [task.loss(model, _with_weight(batch, sample), START).item() for sample in range(SAMPLES)]
    expected = sum(arrays["weight"][sample] * alone[sample] for sample in range(SAMPLES))
    assert task.loss(model, batch, START).item() == pytest.approx(float(expected), rel=1e-5)
    found = create_layout(task.metrics(schema(weights=True)), SAMPLES)
    assert {name for name, _ in found.columns} == {"scores", "labels", "weights"}
    assert task.validate(model, batch, START)[1].keys() == {"scores", "labels", "weights"}
    assert found.metrics[0] == (("auc", "max") if classes == 2 else ("accuracy", "max"))


def _with_weight(batch: TensorBatch, sample: int) -> TensorBatch:
    """All others count nothing, this one 1."""
    weight = torch.zeros(SAMPLES)
    weight[sample] = 1.0
    return TensorBatch(0, batch.sparse, {**batch.dense, "weight": weight}, batch.bucket_offsets)


def test_a_model_begins_the_same_with_the_same_seed_and_says_even_odds() -> None:
    batch, _ = batch_of(2)
    for kind in ("logistic", "factorization", "mlp", "dcn"):
        models = []
        for _ in range(2):
            torch.manual_seed(3)
            models.append(task_of(kind).build_model())
        assert all(map(torch.equal, models[0].parameters(), models[1].parameters()))
        assert models[0](batch).abs().max() < 0.5
    with torch.device("meta"):
        assert all(parameter.is_meta for parameter in task_of("factorization").build_model().parameters())


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"users": 40}, "model.fields.users: the data have no such field; they have { user = 40, items = 30 }"),
        ({"user": 41}, "model.fields.user: 41, but the data have features up to 40; the fields of the data are { user"),
    ],
)
def test_data_of_other_fields_are_refused(fields: dict[str, int], complaint: str) -> None:
    task = ClicksTask(ModelConfig.model_validate({"fields": fields}), LossConfig())
    with pytest.raises(ValueError, match=re.escape(complaint)):
        task.check(schema())


def test_data_that_are_no_clicks_are_refused() -> None:
    task = task_of("logistic")
    with pytest.raises(ValueError, match="needs the dense field 'label'; the data have target"):
        task.check(BatchSchema(4, schema().sparse, (DenseField("target", "float32"),)))
    pairs = (SparseField("user", 40, 1, bags_per_sample=2), *schema().sparse[1:])
    with pytest.raises(ValueError, match="a sample has 2 bags of it, not one"):
        task.check(BatchSchema(4, pairs, schema().dense))


@pytest.mark.parametrize("label", [-1.0, 2.0, 0.5, float("nan")])
def test_a_label_that_is_no_class_is_named(label: float) -> None:
    batch, _ = batch_of(2)
    batch.dense["label"][3] = label
    task = task_of("logistic")
    advice = '"binary" reads -1 as 0' if label == -1 else "says what labels are"
    said = rf"label {label:g} in the data: model.classes = 2 takes .* numbers 0 to 1; data.rows.label .*{advice}"
    with pytest.raises(ValueError, match=said):
        task.loss(task.build_model(), batch, START)


def test_mean_and_deviation_are_those_of_all_samples() -> None:
    module = StandardisedNumbers(["price", "flag"], ["price"], 0.0)
    random = np.random.default_rng(1)
    batches = [random.lognormal(9, 2, size) for size in (1, 7, 500, 3)]
    for prices in batches:
        table = torch.tensor(np.stack([prices, np.full(len(prices), np.float32(0.1))], axis=1))
        module(numbers_of(table, ["price", "flag"]))
    logarithms = np.log1p(np.concatenate(batches).astype(np.float32))
    assert module.count.item() == 511
    assert module.mean[0].item() == pytest.approx(logarithms.mean(), rel=1e-6)
    assert module.deviation[0].item() == pytest.approx(logarithms.std(), rel=1e-6)
    assert module.deviation[1].item() == 1.0, "a number that is always the same"
    module.eval()
    before = module.count.clone()
    found = module(numbers_of(torch.tensor([[math.expm1(module.mean[0].item()), 0.1]]), ["price", "flag"]))
    np.testing.assert_allclose(found.numpy(), 0.0, atol=1e-6)
    assert module.count == before


def numbers_of(table: torch.Tensor, names: list[str]) -> Any:
    """What a batch is to the module."""
    return SimpleNamespace(dense={name: table[:, number].float() for number, name in enumerate(names)})


@pytest.mark.parametrize(
    ("settings", "data", "complaint"),
    [
        ({"dense": ["price"]}, NUMBERS, "model.dense: the data have age, too: name it there, or leave it out of"),
        ({"dense": ["prize"]}, NUMBERS, "clicks needs the dense field 'prize'; the data have label, price, age"),
        ({"fields": {"user": 40}, "dense": NUMBERS}, NUMBERS, "model.fields: the data have items, too: name it"),
    ],
)
def test_what_the_model_does_not_read_is_refused(settings: dict[str, Any], data: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        task_of("logistic", **settings).check(schema(numbers=data))


def test_the_models_numbers_are_those_of_the_data() -> None:
    tree: dict[str, Any] = {
        "task": "clicks",
        "data": {"source": "rows", "rows": {"dense": list(NUMBERS)}},
        "model": {"dense_log": ["price"]},
    }
    model = parse_config(tree, "x.toml").model
    assert isinstance(model, ModelConfig)
    assert model.dense == NUMBERS
    tree["model"] = {"dense_log": ["prize"]}
    with pytest.raises(ConfigError, match=r"model.dense_log: 'prize' is none of the model's numbers, price, age"):
        parse_config(tree, "x.toml")
