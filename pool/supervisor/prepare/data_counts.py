"""The exact number of samples in the data: train.epochs becomes steps by it, and a validation of all has its size."""

from __future__ import annotations

from loader.errors import DataError
from loader.exit_codes import EXIT_DATA
from loader.plugins.error_text import error_line
from loader.stream.data import Data
from pool.config.schedule import MOST_STEPS
from pool.config.tree import Config
from pool.errors import ConfigError, RunError
from pool.supervisor.resources.signals import StopSignals


def with_steps(config: Config, data: Data, signals: StopSignals | None) -> tuple[Config, str]:
    """Returns the config with train.steps in place of train.epochs, and a line that says how many; the config as it is
    if it has no epochs. `data`: of training.

    Raises ConfigError; RunError for damaged data, and for a signal to stop while samples are counted.
    """
    epochs, per_step = config.train.epochs, config.train.batches_per_step
    if not epochs:
        return config, ""
    if data.files and data.files[0].component is not None:
        raise ConfigError(
            "train.epochs: entries of data.train have shares, so an epoch reads some of them more than once; set "
            "train.steps"
        )
    samples = _count(data, "train.epochs", signals)
    size = config.data.batch_size
    taken = epochs * (samples // size * size if config.data.tail == "drop" else samples)
    steps = -(-taken // (size * per_step))  # the fewest that take all
    if not 0 < steps <= MOST_STEPS:
        raise ConfigError(
            f"train.epochs: {epochs:,} of {samples:,} samples are {steps:,} steps; 1 to {MOST_STEPS:,} are allowed"
        )
    train = config.train.model_copy(update={"steps": steps, "epochs": 0})
    said = f"train.epochs: {epochs:,} of {samples:,} samples are {steps:,} steps of {per_step} x {size:,}"
    return config.model_copy(update={"train": train}), said


def validation_samples(config: Config, data: Data, signals: StopSignals | None) -> int | None:
    """Returns the samples of a validation that takes all of them; None if it takes whole batches, or there is none.
    `data`: of validations. Raises as `with_steps`."""
    if config.train.validation_batches != "all" or not config.validates:
        return None
    return _count(data, "train.validation_batches", signals)


def _count(data: Data, key: str, signals: StopSignals | None) -> int:
    def look() -> None:
        if signals is not None and signals.count > 0:
            raise RunError("stopped before the first step", signals.exit_code)

    try:
        return data.trim_files().count_samples(look)  # as the planner will have the files
    except RunError:
        raise
    except DataError as error:
        raise RunError(str(error), EXIT_DATA) from None
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    except Exception as error:  # a source of the user's may raise anything
        raise ConfigError(f"{key}: {error_line(error)}") from None
