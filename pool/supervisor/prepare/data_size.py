"""How many samples there are, about: by a look at the data, which may fail without harm."""

from __future__ import annotations

from loader.stream.sources import portions, samples_per_epoch
from pool.process.launch import Launch


def estimate(launch: Launch, *, validation: bool = False) -> int | None:
    """Of a pass over the training data, or over those of validations; None if that can't be said."""
    config, files = launch.config, launch.validation_files if validation else launch.train_files
    try:
        return samples_per_epoch(config.data, files, config.run.seed, validation=validation)
    except Exception:  # a source of the user's may raise anything; damage further on is the run's to tell
        return None


def mixture(launch: Launch) -> str | None:
    """One line: what an epoch has of each entry of data.train, if they have shares; else None."""
    config = launch.config
    try:
        found = portions(config.data, launch.train_files, config.run.seed)
    except Exception:  # as above
        return None
    entries = [
        f"{portion.samples:,} of entry {portion.component.number + 1} (share {portion.component.share:g}, "
        f"{portion.passes:.3g} {'pass' if round(portion.passes, 2) == 1 else 'passes'})"
        for portion in found
    ]
    return f"data.train: samples of an epoch, about: {', '.join(entries)}" if entries else None


def short_validation(launch: Launch) -> str | None:
    """One line if validations take more samples than there are; else None."""
    train, batch = launch.config.train, launch.config.data.batch_size
    if not launch.config.validate_every or not launch.validation_files:
        return None
    there = estimate(launch, validation=True)
    if not there or there >= train.validation_batches * batch:
        return None
    return (
        f"train.validation_batches: {train.validation_batches:,} batches of {batch:,}, and there are about {there:,} "
        f"samples: some count more than once in a validation; {max(1, there // batch):,} would not"
    )
