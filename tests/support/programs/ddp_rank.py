"""One rank of torch's DistributedDataParallel on the toy task: `ddp_rank.py RANK WORLD STEPS OUT INIT_FILE`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.nn.parallel import DistributedDataParallel

from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask


def main(rank: int, world: int, steps: int, out: Path, init_file: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=world)
    torch.manual_seed(42)
    task = ToyTask(ModelConfig(), LossConfig())
    model = DistributedDataParallel(task.build_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    stream = open_stream(data_config(source="synthetic", batch_size=64), [], 42)
    for batch in read_batches(stream, steps * world):
        if batch.number % world == rank:  # step t: rank r takes batch t * world + r, as the pool's worker would
            optimizer.zero_grad()
            loss = task.loss(model, TensorBatch.from_numpy(batch), Progress(batch.number // world, steps))
            loss.backward()
            optimizer.step()
    stream.close()
    if rank == 0:
        save_file(model.module.state_dict(), out)
    dist.barrier()
    os._exit(0)  # gloo's own teardown aborts now and then


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]))
