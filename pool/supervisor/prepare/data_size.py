"""How many samples there are, about: by a look at the data, which may fail without harm."""

from __future__ import annotations

from loader.stream.sources import portions, samples_per_epoch
from pool.supervisor.prepare.run_plan import RunPlan


def estimate(run: RunPlan, *, validation: bool = False) -> int | None:
    """Of a pass over the training data, or over those of validations; None if that can't be said."""
    config, files = run.config, run.validation_files if validation else run.train_files
    try:
        return samples_per_epoch(config.data, files, config.run.seed, validation=validation)
    except Exception:  # a source of the user's may raise anything; damage further on is the run's to tell
        return None


def mixture(run: RunPlan) -> str | None:
    """One line: what an epoch has of each entry of data.train, if they have shares; else None."""
    config = run.config
    try:
        found = portions(config.data, run.train_files, config.run.seed)
    except Exception:  # as above
        return None
    entries = [
        f"{portion.samples:,} of entry {portion.component.number + 1} (share {portion.component.share:g}, "
        f"{portion.passes:.3g} {'pass' if round(portion.passes, 2) == 1 else 'passes'})"
        for portion in found
    ]
    return f"data.train: samples of an epoch, about: {', '.join(entries)}" if entries else None


def short_validation(run: RunPlan) -> str | None:
    """One line if validations take more samples than there are; else None."""
    train, batch = run.config.train, run.config.data.batch_size
    if not run.config.validate_every or not run.validation_files:
        return None
    there = estimate(run, validation=True)
    if not there or there >= train.validation_batches * batch:
        return None
    return (
        f"train.validation_batches: {train.validation_batches:,} batches of {batch:,}, and there are about {there:,} "
        f"samples: some count more than once in a validation; {max(1, there // batch):,} would not"
    )
