"""`pool export --onnx`: onnxruntime gives the numbers of `pool predict`, whatever the sizes of a batch; what can't be
exported ends in one line."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from loader.files.identity import identify
from loader.rows.readers import without_labels
from loader.stream.data import Data
from loader.stream.sequential import read_in_file_order
from pool.commands.main import main
from pool.config.load import parse_config
from pool.export.onnx import TOLERANCE, model_inputs, random_batch
from pool.tasks.clicks.task import ClicksTask
from tests.loader.conftest import write_random_games
from tests.pool.analysis.test_predict import saved

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

FIELDS = {"user": [0, 500], "item": [500, 70500], "page": [70500, 70510]}
SIMPLE = {
    "task": "perspective",
    "model": {"width": 16, "activation": "screlu"},
    "data": {"chess": {"features": "chess768", "output_buckets": "single"}, "batch_size": 100},
}


def clicks(kind: str, *, classes: int = 2, values: bool = False, dense: bool = True) -> dict[str, Any]:
    numbers = {"dense": ["price", "age"]} if dense else {}
    return {
        "task": "clicks",
        "model": {
            "kind": kind,
            "fields": {name: end - begin for name, (begin, end) in FIELDS.items()},
            "classes": classes,
            "dense_log": ["price"] if dense else [],
            "dense_clip": 3.0 if dense else 0.0,
        },
        "data": {
            "source": "rows",
            "batch_size": 64,
            "rows": {"fields": FIELDS, "values": values, "label": "class", "num_classes": classes, "weight": False}
            | numbers,
        },
    }


def draw(model: nn.Module) -> None:
    """Weights that say something, and numbers that have been seen."""
    with torch.no_grad():
        for tensor in model.state_dict().values():
            numbers = torch.randn(tensor.shape)
            tensor.copy_(numbers.abs() + 0.5 if tensor.dtype == torch.float64 else numbers * 0.3)


def write_rows(path: Path, number: int, *, values: bool) -> Path:
    """Rows of which some have no feature, or none in a field."""
    rng = np.random.default_rng(3)
    rows = [np.sort(rng.choice(70510, count, replace=False)) for count in rng.integers(0, 12, number)]
    for row in rows[::2]:
        row[:] = np.sort(rng.choice(510, len(row), replace=False))
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    data = rng.standard_normal(indptr[-1]) if values else np.ones(indptr[-1])
    numbers: dict[str, Any] = {"price": rng.standard_normal(number) * 1000, "age": rng.integers(0, 90, number)}
    np.savez(path, indptr=indptr, indices=np.concatenate(rows), data=data, shape=(number, 70510), **numbers)
    return path


def computed(model: Path, tree: dict[str, Any], data: Path) -> npt.NDArray[Any]:
    """What onnxruntime says of each sample of the data."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    wanted = [value.name for value in session.get_inputs()]
    config = without_labels(parse_config(tree, "test").data)
    found = []
    for batch, order in read_in_file_order(Data(config, identify([data]), 42)):
        inputs = model_inputs(batch)
        (numbers,) = session.run(None, {name: inputs[name].numpy() for name in wanted})
        own = np.empty_like(numbers)
        own[order] = numbers
        found.append(own.reshape(len(order), -1))
    return np.concatenate(found)


def check_equal(tree: dict[str, Any], data: Path, folder: Path) -> Any:
    """Exports a network and asks both; returns the ONNX model."""
    saved(folder / "run", tree, draw)
    out, told = folder / "net.onnx", folder / "told.tsv"
    assert main(["export", str(folder / "run"), "--onnx", "-o", str(out), "--description", "made here"]) == 0
    assert main(["predict", str(folder / "run"), "--data", str(data), "-o", str(told)]) == 0
    expected = np.loadtxt(told, ndmin=2)
    found = computed(out, tree, data)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * max(1, np.abs(expected).max()))
    assert len(np.unique(found)) > 50
    model = onnx.load(out)
    assert not lossy_sums(model)
    return model


def lossy_sums(model: Any) -> list[Any]:
    """The nodes by which onnxruntime loses additions with several threads."""
    graphs = [model.graph, *model.functions]
    nodes = [node for graph in graphs for node in graph.node]
    assert not any(attribute.HasField("g") for node in nodes for attribute in node.attribute)
    reduced = {"add", "mul", "max", "min"}
    return [node for node in nodes if node.op_type == "ScatterND" and {a.s.decode() for a in node.attribute} & reduced]


@pytest.mark.parametrize(
    "tree",
    [
        clicks("logistic"),
        clicks("logistic", dense=False, values=True),
        clicks("factorization", values=True),
        clicks("factorization", classes=3),
        clicks("mlp", classes=4, values=True),
        clicks("dcn", dense=False),
    ],
    ids=lambda tree: f"{tree['model']['kind']}-{tree['model']['classes']}",
)
def test_rows_get_the_predictions_of_pool_predict(tree: dict[str, Any], tmp_path: Path) -> None:
    rows = tree["data"]["rows"]
    model = check_equal(tree, write_rows(tmp_path / "rows.npz", 150, values=rows["values"]), tmp_path)
    onnx.checker.check_model(model)
    assert model.doc_string == "made here"
    assert model.ir_version <= 10  # what runtimes of two years take; onnx's own default is a newer one
    assert {opset.version for opset in model.opset_import if not opset.domain} == {20}
    wanted = {f"{field}.{name}" for field in FIELDS for name in ("offsets", "features")}
    wanted |= {f"{field}.values" for field in FIELDS} if rows["values"] else set()
    inputs = {value.name: value.type.tensor_type for value in model.graph.input}
    assert set(inputs) == wanted | set(rows.get("dense", ()))
    assert {inputs[name].shape.dim[0].dim_param for name in wanted if name.endswith("offsets")} == {"batch + 1"}
    assert [value.name for value in model.graph.output] == ["prediction"]


def test_positions_get_the_predictions_of_pool_predict(tmp_path: Path) -> None:
    write_random_games(tmp_path / "one.binpack", 150, seed=5)
    check_equal(SIMPLE, tmp_path / "one.binpack", tmp_path)


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_batches_may_have_any_size_and_no_features_at_all(size: int, tmp_path: Path) -> None:
    tree = clicks("factorization")
    saved(tmp_path / "run", tree, draw)
    out = tmp_path / "net.onnx"
    assert main(["export", str(tmp_path / "run"), "--onnx", "-o", str(out)]) == 0
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    inputs = {name: np.zeros(size, np.float32) for name in ("price", "age")}
    for field in FIELDS:
        inputs |= {f"{field}.offsets": np.zeros(size + 1, np.int64), f"{field}.features": np.zeros(0, np.int64)}
    (nothing,) = session.run(None, inputs)
    assert nothing.shape == (size,)
    assert len(np.unique(nothing)) == 1


def exported(folder: Path, tree: dict[str, Any], threads: int = 1) -> Any:
    """onnxruntime's session of a network with drawn weights, on so many threads."""
    if not (folder / "net.onnx").exists():
        saved(folder / "run", tree, draw)
        assert main(["export", str(folder / "run"), "--onnx", "-o", str(folder / "net.onnx")]) == 0
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(folder / "net.onnx", options, providers=["CPUExecutionProvider"])


OUT_OF_BOUNDS: dict[str, tuple[list[int], list[int]]] = {
    "a feature of -1": ([0, 1, 2], [3, -1]),
    "one below all that count from the end": ([0, 1, 2], [3, -10_000_000]),
    "one behind the last": ([0, 1, 2], [3, 500]),
    "offsets that go down": ([0, 2, 1], [3, 4]),
    "offsets that go down in between": ([0, 2, 1, 2], [3, 4]),
    "offsets that go down, of no feature": ([0, 1, 0], []),
    "a negative offset": ([0, -1, 2], [3, 4]),
    "a first offset that is not 0": ([1, 1, 2], [3, 4]),
    "a last offset before the end": ([0, 1, 1], [3, 4]),
    "a last offset behind the end": ([0, 1, 3], [3, 4]),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_numbers_out_of_bounds_are_refused_by_the_runtime(name: str, onnx_logistic: Any) -> None:
    offsets, features = OUT_OF_BOUNDS[name]
    inputs: dict[str, npt.NDArray[np.int64]] = {}
    for field in FIELDS:
        inputs |= {f"{field}.offsets": np.zeros(len(offsets), np.int64), f"{field}.features": np.zeros(0, np.int64)}
    onnx_logistic.run(None, inputs)
    inputs |= {"user.offsets": np.array(offsets), "user.features": np.array(features, np.int64)}
    with pytest.raises(Exception, match=r"(?i)out of.*bounds|invalid index found|indices element"):
        onnx_logistic.run(None, inputs)


@pytest.fixture(scope="module")
def onnx_logistic(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return exported(tmp_path_factory.mktemp("bounds"), clicks("logistic", dense=False))


WRONG: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "operation": (
        lambda scores: torch.linalg.svd(scores[:, None] * scores)[1],
        "ONNX has no operation for aten._linalg_svd",
    ),
    "branch": (
        lambda scores: scores if scores.sum() > 0 else -scores,
        "a branch depends on numbers of the batch, where torch.where serves",
    ),
    "len": (lambda scores: scores * torch.ones(len(scores)), "it fixes the number of samples of a batch"),
    "numpy": (lambda scores: torch.from_numpy(scores.numpy() * 2), ".numpy() is not supported"),
    "index_add": (
        lambda scores: scores.index_add(0, torch.zeros_like(scores, dtype=torch.int64), scores),
        "the model adds by index_add or index_put, which onnxruntime computes wrongly with several threads; use "
        "scatter_add",
    ),
    "index_put": (
        lambda scores: scores.index_put((torch.zeros_like(scores, dtype=torch.int64),), scores, accumulate=True),
        "the model adds by index_add or index_put",
    ),
    "random": (
        lambda scores: scores + torch.rand(scores.shape),
        "as ONNX the model gives other numbers than the network",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_cannot_be_exported_ends_in_one_line_and_leaves_the_file_that_is_there(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    change, message = WRONG[name]
    monkeypatch.setattr(ClicksTask, "predict", lambda _self, model, batch: change(model(batch)))
    saved(tmp_path / "run", clicks("factorization"), draw)
    out = tmp_path / "net.onnx"
    out.write_text("another one")
    assert main(["export", str(tmp_path / "run"), "--onnx", "--force", "-o", str(out)]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"pool: {out}: not written: ")
    assert message in line
    assert out.read_text() == "another one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx", "run"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--header", "c", "-o", "net.onnx"], "--header: is of the task's own format; leave out --onnx"),
        (
            ["-o", "net.safetensors"],
            "net.safetensors: ONNX models end in .onnx, and .safetensors is something else; name it net.onnx",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "run", clicks("logistic"))
    assert main(["export", "run", "--onnx", *words]) == 2
    assert capsys.readouterr().err == f"pool: {message}\n"


def test_output_buckets_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "run", {"task": "stockfish", "model": {"l1": 32}})
    assert main(["export", str(tmp_path / "run"), "--onnx", "-o", str(tmp_path / "net.onnx")]) == 2
    assert "--onnx: the network has 8 output buckets" in capsys.readouterr().err


def test_a_missing_package_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "onnxscript" else find(name))
    saved(tmp_path / "run", clicks("logistic"))
    assert main(["export", str(tmp_path / "run"), "--onnx", "-o", str(tmp_path / "net.onnx")]) == 2
    assert capsys.readouterr().err == "pool: --onnx needs onnxscript: pip install 'sparsepool[onnx]'\n"


def test_the_made_up_batch_fits_its_schema() -> None:
    from loader.stream.data import Data

    schema = Data(parse_config(clicks("mlp", values=True), "test").data).schema()
    batch = random_batch(schema, 20, seed=0)
    assert len(batch.dense["price"]) == 20
    for view in batch.sparse.values():
        assert 0 < view.offsets[-1] == len(view.features)


def test_many_rows_on_several_threads_get_the_predictions_of_pool_predict(tmp_path: Path) -> None:
    from tests.pool.export.onnx_threads import check_threads  # late: it imports this

    check_threads(tmp_path, "logistic", rows=100_000, threads=(2, 4), calls=2)


def test_the_documentation_turns_texts_into_the_inputs_that_pool_predict_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xxhash")
    pages = Path(__file__).parents[3] / "docs"
    example = re.search(r'```python title="ask.py"\n(.*?)```', (pages / "reference/clicks.md").read_text(), re.DOTALL)
    config = re.search(r'```toml title="clicks.toml"\n(.*?)```', (pages / "how-to/columns.md").read_text(), re.DOTALL)
    assert example is not None
    assert config is not None
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "run", tomllib.loads(config[1]), draw)
    Path("later.csv").write_text("user id,item,colour,price\nu17,item 4,red,0.25\nu3,item 9,,0.5\n")
    assert main(["export", "run", "--onnx", "-o", "clicks.onnx"]) == 0
    assert main(["predict", "run", "--data", "later.csv", "-o", "told.tsv"]) == 0
    capsys.readouterr()
    exec(example[1], {})
    found = np.array(capsys.readouterr().out.strip("[]\n").split(), float)
    np.testing.assert_allclose(found, np.loadtxt("told.tsv"), rtol=0, atol=TOLERANCE)
    assert found[0] != found[1]
