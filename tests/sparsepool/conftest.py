"""Files for the front's tests: those of the loader's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loader.conftest import write_random_games


@pytest.fixture(scope="session")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files, of 512 and 384 entries."""
    folder = tmp_path_factory.mktemp("front")
    files = [folder / f"games{number}.binpack" for number in range(2)]
    for number, file in enumerate(files):
        write_random_games(file, 512 - 128 * number, seed=number)
    return files
