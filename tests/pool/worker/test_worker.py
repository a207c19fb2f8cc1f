"""Parts of a worker: gradients on their way to the slot, and what counts as too little memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from loader.stream.data import open_stream
from loader.stream.schema import BatchSchema
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from pool.device.memory import is_out_of_memory
from pool.exchange.host.worker import HostWorker
from pool.exchange.interface import GroupBatch
from pool.exchange.layout import Layout
from pool.exchange.plan import build_plan
from pool.exchange.tensors import tensor_specs
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.worker.gradients import GradientWriter
from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask

SCHEMA = BatchSchema(64, (), ())


def test_a_penalty_on_a_sparse_table_is_refused_instead_of_lost() -> None:
    """Its gradient is dense, and of a table only the touched rows travel."""
    task = ToyTask(ModelConfig(), LossConfig())
    with torch.device("meta"):
        model = task.build_model()
    plan = build_plan(*tensor_specs(model), [1, 1 << 20])
    halves, slots = ([np.zeros(plan.nbytes, np.uint8) for _ in range(2)] for _ in range(2))
    exchange = HostWorker(model, Layout(SCHEMA, (plan,)), halves=halves, slots=slots)
    exchange.load(0)
    writer = GradientWriter(model, [plan], exchange)
    stream = open_stream(data_config(source="synthetic", batch_size=64), [], 42)
    batch = TensorBatch.from_numpy(next(iter(read_batches(stream, 1))))
    announced: list[int] = []
    writer.start_group(0, [GroupBatch({})], announced.append)
    writer.start_batch()
    task.loss(model, batch, Progress(0, 1)).backward()
    writer.end_batch()
    assert writer.end_group() == ()
    assert announced == [0]  # the last one is said by the end of the batch
    writer.start_group(0, [GroupBatch({})], announced.append)
    writer.start_batch()
    penalty = model.get_parameter("table.weight").square().sum()
    with pytest.raises(RuntimeError, match=r"table\.weight gets a gradient from elsewhere"):
        (task.loss(model, batch, Progress(0, 1)) + penalty).backward()
    stream.close()


def test_a_sparse_gradient_is_named_with_what_to_do() -> None:
    model = nn.Sequential(nn.EmbeddingBag(9, 2, sparse=True))
    plan = build_plan(*tensor_specs(model), [1, 1 << 20])
    halves, slots = ([np.zeros(plan.nbytes, np.uint8) for _ in range(2)] for _ in range(2))
    exchange = HostWorker(model, Layout(SCHEMA, (plan,)), halves=halves, slots=slots)
    exchange.load(0)
    writer = GradientWriter(model, [plan], exchange)
    writer.start_group(0, [GroupBatch({})], lambda _: None)
    writer.start_batch()
    with pytest.raises(RuntimeError, match=r"^0\.weight gets a gradient that is sparse.*sparse=False, or "):
        model(torch.zeros(1, 1, dtype=torch.int64)).sum().backward()


def test_too_little_memory_is_known_by_each_of_its_names() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory"))  # a context
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    with pytest.raises(RuntimeError) as error:
        torch.empty(1 << 60)
    assert is_out_of_memory(error.value)
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))
