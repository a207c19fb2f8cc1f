"""Exports a network as an ONNX file that computes what `pool predict` does, with a batch's arrays as inputs.

torch's exporter records the operations of the task's `predict`. The sparse layer is recorded in plain torch, in which
rows are gathered and added for each bag (pool.kernels.sparse). Before the file gets its final name, its output is
compared with the network's, on a batch of another size.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch._dynamo.exc import UserError, UserErrorType
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from loader.plugins.error_text import error_location, format_error_with_location
from loader.rows.readers import without_labels
from loader.stream.data import Data
from loader.stream.schema import BatchSchema, SparseBatch, SparseField
from loader.stream.slots import allocate_slots, write_batch
from pool.errors import ConfigError, PoolError
from pool.export.load import TrainedNetwork
from pool.export.run import Method, build_data_config, predict_method
from pool.nn.batch import SparseInput, TensorBatch

if TYPE_CHECKING:
    import onnx_ir

SUFFIX = ".onnx"
OUTPUT = "prediction"
TOLERANCE = 1e-5  # largest difference of outputs, relative to the largest output if that is above 1
MAX_NBYTES = (1 << 31) - (1 << 20)  # bytes of weights; a protobuf message has at most 2 GiB
_MODULES = ("onnx", "onnxscript", "onnxruntime")
_LOGGERS = ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")
_MAX_ACTIVE = 5  # most features in a bag of a random batch
_MISSING_FUNCTION = re.compile(r"No ONNX function found for <\w+\(op='([^']+)'")

T = TypeVar("T")
Inputs = dict[str, Tensor]  # arrays by input name; see `model_inputs`


def require_onnx() -> None:
    """Raises ConfigError if a package that ONNX export needs is not installed."""
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"--onnx needs {missing[0]}: pip install 'sparsepool[onnx]'")


def write_onnx(trained: TrainedNetwork, path: Path, description: str) -> None:
    """Writes an ONNX model that computes the network's predictions.

    Its inputs are arrays of a batch of any size, named as in loader.stream.schema: `FIELD.offsets` [bags + 1] and
    `FIELD.features` [active] (int64), `FIELD.values` [active] (float32) if the field has values, and each dense field
    [batch] by its name. Fields that the prediction does not use are left out. The output is `prediction`.

    Raises ConfigError for a task without `predict`, and for a network with output buckets. Raises PoolError, with the
    operation, for a model that torch can't export, and for a file whose output differs from the network's.
    """
    require_onnx()
    config = build_data_config(trained, (), "export")
    schema = Data(without_labels(config.data)).schema()
    if schema.num_buckets > 1:
        raise ConfigError(
            f"export: --onnx: the network has {schema.num_buckets} output buckets, by which batches are ordered, and "
            "which ONNX models don't know"
        )
    method = predict_method(trained, "export")
    trained.model.eval()
    nbytes = sum(tensor.nbytes for tensor in trained.model.state_dict().values())
    if nbytes > MAX_NBYTES:
        raise PoolError(f"{path}: not written: the model has {nbytes:,} bytes, and an ONNX file holds {MAX_NBYTES:,}")
    try:
        schema = _keep_used_fields(schema, trained.model, method)
    except Exception as error:
        raise PoolError(f"export: the task {trained.name}: {format_error_with_location(error)}") from None
    module = _Prediction(trained.model, method, schema)
    inputs = model_inputs(random_batch(schema, 3, seed=1))
    with _suppress_messages(), torch.no_grad():
        try:
            shapes = (_dynamic_shapes(schema, inputs),)
            recorded = torch.export.export(module, (inputs,), dynamic_shapes=shapes, strict=False)
            program = torch.onnx.export(
                recorded, verbose=False, input_names=list(inputs), output_names=[OUTPUT], dynamic_shapes=shapes
            )
        except Exception as error:
            raise PoolError(f"{path}: not written: torch can't export the model: {_explain_error(error)}") from None
        assert program is not None
        _refuse_lossy_sums(program.model, path)
        program.model.doc_string = description
        temporary = path.with_name(f".{path.name}.part")
        try:
            program.save(str(temporary))
            _check_output(temporary, trained.model, method, random_batch(schema, 7, seed=2))
            temporary.replace(path)
        except PoolError as error:
            raise PoolError(f"{path}: not written: {error}") from None
        finally:
            temporary.unlink(missing_ok=True)


class _Prediction(nn.Module):
    """Wraps the task's `predict` as a module whose inputs are the arrays of a batch."""

    def __init__(self, model: nn.Module, method: Method, schema: BatchSchema) -> None:
        super().__init__()
        self.model = model
        self._method = method
        self._schema = schema

    def forward(self, inputs: Inputs) -> Tensor:
        sparse = {field.name: _sparse_input(field, inputs) for field in self._schema.sparse}
        dense = {field.name: inputs[field.name] for field in self._schema.dense}
        sizes = [sparse[field.name].num_bags // field.bags_per_sample for field in self._schema.sparse]
        size = [*sizes, *(numbers.shape[0] for numbers in dense.values())][0]
        return self._method(self.model, TensorBatch(0, sparse, dense, (0, size)))


class _RecordingFields(Mapping[str, T]):
    """Provides fields by name, and records which names were looked up."""

    def __init__(self, fields: Mapping[str, T]) -> None:
        self._fields = fields
        self.names = set[str]()

    def __getitem__(self, name: str) -> T:
        self.names.add(name)
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def _keep_used_fields(schema: BatchSchema, model: nn.Module, method: Method) -> BatchSchema:
    """Returns the schema with only the fields that a prediction uses, so without labels. Raises what `method`
    raises."""
    batch = TensorBatch.from_numpy(random_batch(schema, 2, seed=0))
    sparse, dense = _RecordingFields(batch.sparse), _RecordingFields(batch.dense)
    with torch.no_grad():
        method(model, replace(batch, sparse=sparse, dense=dense))
    return replace(
        schema,
        sparse=tuple(field for field in schema.sparse if field.name in sparse.names),
        dense=tuple(field for field in schema.dense if field.name in dense.names),
    )


def _sparse_input(field: SparseField, inputs: Inputs) -> SparseInput:
    """Makes the input of a sparse layer from arrays. Columns that only gradients need are None."""
    columns = cast(Tensor, None)
    offsets, features = (inputs[f"{field.name}.{name}"] for name in ("offsets", "features"))
    return SparseInput(offsets, features, columns, columns, columns, inputs.get(f"{field.name}.values"))


def model_inputs(batch: SparseBatch) -> Inputs:
    """Returns the arrays of a batch that the ONNX model takes, by the names of its inputs."""
    inputs = {}
    for name, view in batch.sparse.items():
        inputs[f"{name}.offsets"] = torch.from_numpy(view.offsets.astype(np.int64))
        inputs[f"{name}.features"] = torch.from_numpy(view.features.astype(np.int64))
        if view.values is not None:
            inputs[f"{name}.values"] = torch.from_numpy(view.values)
    return inputs | {name: torch.from_numpy(array) for name, array in batch.dense.items()}


def random_batch(schema: BatchSchema, size: int, seed: int) -> SparseBatch:
    """Returns a batch of random samples. Bags may be empty, except a field's first one."""
    rng = np.random.default_rng(seed)
    schema = replace(schema, batch_size=size)
    rows: dict[str, tuple[npt.NDArray[Any], ...]] = {}
    for field in schema.sparse:
        max_active = min(_MAX_ACTIVE, field.max_active, field.num_features)
        counts = rng.integers(0, max_active + 1, schema.num_bags(field))
        counts[0] = max_active
        bags = [np.sort(rng.choice(field.num_features, count, replace=False)) for count in counts]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        values = (rng.random(offsets[-1], np.float32),) if field.values else ()
        rows[field.name] = (offsets, np.concatenate(bags), *values)
    dense = {field.name: rng.random(size).astype(field.dtype) for field in schema.dense}
    (slot,) = allocate_slots(schema, 1)
    write_batch(schema, slot, 0, rows, dense)
    return SparseBatch.view(schema, slot)


def _dynamic_shapes(schema: BatchSchema, inputs: Inputs) -> dict[str, dict[int, Any]]:
    """Returns the dynamic dimensions of each input, as torch.export takes them."""
    batch = torch.export.Dim("batch")
    shapes: dict[str, dict[int, Any]] = {key: {0: batch} for key in inputs}
    for field in schema.sparse:
        bags = batch if field.bags_per_sample == 1 else field.bags_per_sample * batch
        shapes[f"{field.name}.offsets"] = {0: bags + 1}
        active = torch.export.Dim(f"{field.name}_active")
        shapes |= {name: {0: active} for name in (f"{field.name}.features", f"{field.name}.values") if name in inputs}
    return shapes


def _refuse_lossy_sums(model: onnx_ir.Model, path: Path) -> None:
    """Raises PoolError for sums by ScatterND, which onnxruntime's CPU kernel computes wrongly with several threads.

    The proof with a small batch might not show it.
    """
    nodes = list(model.graph.all_nodes())
    for function in model.functions.values():
        nodes += function.all_nodes()
    scatters = [node for node in nodes if node.op_type == "ScatterND" and "reduction" in node.attributes]
    if any(node.attributes["reduction"].as_string() != "none" for node in scatters):
        raise PoolError(
            f"{path}: not written: the model adds by index_add or index_put, which onnxruntime computes wrongly with "
            "several threads; use scatter_add"
        )


def _check_output(path: Path, model: nn.Module, method: Method, batch: SparseBatch) -> None:
    """Raises PoolError if the output of the file for a batch differs from the network's by more than TOLERANCE."""
    import onnxruntime  # late: an optional dependency

    with torch.no_grad():
        expected = method(model, TensorBatch.from_numpy(batch)).numpy()
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        input_names = {value.name for value in session.get_inputs()}
        inputs = {name: tensor.numpy() for name, tensor in model_inputs(batch).items() if name in input_names}
        (output,) = session.run(None, inputs)
    except Exception as error:
        raise PoolError(f"onnxruntime can't compute it: {format_error_with_location(error)}") from None
    bound = TOLERANCE * max(1.0, float(np.abs(expected).max()))
    if output.shape != expected.shape or not np.allclose(output, expected, rtol=0, atol=bound):
        raise PoolError("as ONNX the model gives other numbers than the network")


def _explain_error(error: BaseException) -> str:
    """Explains why torch can't export a model, by the first error in the chain: the operation, or the place in the
    code."""
    while error.__cause__ is not None:
        error = error.__cause__
    missing = _MISSING_FUNCTION.search(str(error))
    if missing is not None:
        return f"ONNX has no operation for {missing[1]}"
    if isinstance(error, UserError) and error.error_type is UserErrorType.CONSTRAINT_VIOLATION:
        return "it fixes the number of samples of a batch: ask for tensor.shape[0], which len(tensor) is no match for"
    if isinstance(error, GuardOnDataDependentSymNode):
        return f"a branch depends on numbers of the batch, where torch.where serves ({error_location(error)})"
    return format_error_with_location(error)


@contextmanager
def _suppress_messages() -> Iterator[None]:
    """Suppresses the exporter's messages within the context."""
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    try:
        for name in levels:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # the exporter prints a graph that it can't record
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
