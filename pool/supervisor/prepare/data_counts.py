"""Counts the samples in the data exactly, to convert train.epochs to steps and to size a validation of all samples."""

from __future__ import annotations

from loader.errors import DataError
from loader.exit_codes import EXIT_DATA
from loader.plugins.error_text import format_error_with_location
from loader.stream.data import Data
from pool.config.schedule import MAX_STEPS
from pool.config.tree import Config
from pool.errors import ConfigError, RunError
from pool.supervisor.resources.signals import StopSignals


def epochs_to_steps(config: Config, data: Data, signals: StopSignals | None) -> tuple[Config, str]:
    """Converts train.epochs to train.steps. Returns the new config, and a line for the user with the number of steps.

    A config without epochs is returned unchanged, with an empty line. `data`: the training data; `signals`: a signal to
    stop ends the count. Raises ConfigError; RunError for damaged data, and for a signal.
    """
    epochs, per_step = config.train.epochs, config.train.batches_per_step
    if not epochs:
        return config, ""
    if data.files and data.files[0].component is not None:
        raise ConfigError(
            "train.epochs: entries of data.train have shares, so an epoch reads some of them more than once; set "
            "train.steps"
        )
    samples = _count_samples(data, "train.epochs", signals)
    size = config.data.batch_size
    samples_per_epoch = samples // size * size if config.data.tail == "drop" else samples
    steps = -(-epochs * samples_per_epoch // (size * per_step))  # rounded up, so that all samples are used
    if not 0 < steps <= MAX_STEPS:
        raise ConfigError(
            f"train.epochs: {epochs:,} of {samples:,} samples are {steps:,} steps; 1 to {MAX_STEPS:,} are allowed"
        )
    train = config.train.model_copy(update={"steps": steps, "epochs": 0})
    line = f"train.epochs: {epochs:,} of {samples:,} samples are {steps:,} steps of {per_step} x {size:,}"
    return config.model_copy(update={"train": train}), line


def validation_samples(config: Config, data: Data, signals: StopSignals | None) -> int | None:
    """Counts the samples of a validation over all validation data.

    Returns None if validations use a number of batches, or if there are no validations. `data`: the validation data.
    Raises ConfigError and RunError as `epochs_to_steps`.
    """
    if config.train.validation_batches != "all" or not config.has_validations:
        return None
    return _count_samples(data, "train.validation_batches", signals)


def _count_samples(data: Data, key: str, signals: StopSignals | None) -> int:
    """Counts the samples of a pass over the data. `key`: the setting that needs the number, for errors. Raises
    ConfigError, RunError."""

    def check_signals() -> None:
        if signals is not None and signals.count > 0:
            raise RunError("stopped before the first step", signals.exit_code)

    try:
        return data.trim_files().count_samples(check_signals)  # trimmed to the sizes that the planner will see
    except RunError:
        raise
    except DataError as error:
        raise RunError(str(error), EXIT_DATA) from None
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    except Exception as error:  # a source of the user's may raise anything
        raise ConfigError(f"{key}: {format_error_with_location(error)}") from None
