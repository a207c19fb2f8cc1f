"""The planner process: builds the model without memory, plans where everything lies, checks task against data.

Runs before any memory is made, answers with one JSON document, and ends.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import torch
from torch import nn

from loader.errors import DataError
from loader.schema import BatchSchema
from loader.sources import open_stream, schema_of
from pool import numerics
from pool.buckets.plan import Plan, make_plan
from pool.buckets.tensors import specs
from pool.config import Config
from pool.crash_points import crash_point
from pool.devices import resolve_devices
from pool.errors import EXIT_DATA, ConfigError, PoolError
from pool.launch import Launch
from pool.optim.elementwise import ELEMENTWISE
from pool.planner.trial import state_nbytes, try_state
from pool.tasks.registry import task_module, told
from pool.tasks.start import own_model

log = logging.getLogger(__name__)


def plan_run(launch: Launch) -> tuple[BatchSchema, Plan, tuple[str, ...]]:
    """Layout of a batch, layout of the weights, devices.

    Raises ConfigError if model, data and machine don't fit, DataError if a file can't be used at all.
    """
    config = launch.config
    devices = resolve_devices(config.pool.devices, torch.cuda.device_count() if torch.cuda.is_available() else 0)
    try:
        schema = schema_of(config.data)
        open_stream(config.data, launch.train_files, config.run.seed).close()
        if launch.validation_files:
            open_stream(config.data, launch.validation_files, config.run.seed).close()
    except DataError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    model = _build_model(config, schema)
    split = config.optimizer.name in ELEMENTWISE
    return schema, make_plan(*specs(model), _bucket_limits(config), split_tables=split), devices


def _build_model(config: Config, schema: BatchSchema) -> nn.Module:
    """Without memory. Raises ConfigError for whatever goes wrong in the task's code; the log has all of that."""
    try:
        task = task_module(config.task).create_task(own_model(config.model), config.loss)
        task.check(schema)
        with torch.device("meta"):
            return task.build_model()
    except (PoolError, DataError):
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    except (Exception, SystemExit) as error:
        log.exception("the task's model can't be built")
        raise ConfigError(f"task: {config.task}: {told(error)}") from None


def run(launch: Launch) -> bytes:
    answer: dict[str, Any]
    try:
        schema, plan, devices = plan_run(launch)
        if launch.checkpoint is not None:
            try_state(launch.config, plan, launch.checkpoint, launch.overrides)
        answer = {
            "schema": schema.to_dict(),
            "plan": plan.to_dict(),
            "devices": devices,
            "state_nbytes": state_nbytes(launch.config, plan, launch.overrides),
            "fingerprint": numerics.reference(launch.config, plan, devices),
        }
    except (PoolError, DataError) as error:
        answer = {"error": str(error), "exit_code": getattr(error, "exit_code", EXIT_DATA)}
    crash_point("planner.before_answer")
    return json.dumps(answer).encode()


def _bucket_limits(config: Config) -> list[int]:
    return [int(config.pool.first_bucket_mb * (1 << 20)), int(config.pool.bucket_mb * (1 << 20))]
