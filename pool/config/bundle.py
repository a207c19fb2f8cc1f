"""The configs and sample data in the package, which `pool configs` lists and copies. Free of torch."""

from __future__ import annotations

import json
from pathlib import Path

from pool.errors import ConfigError, RunError

_SAMPLE = '"configs/sample/'  # path of the sample in a checkout's configs


def configs_folder() -> Path:
    """Returns the folder of the bundled configs.

    It is inside an installed package, or at the top of a checkout that is installed as editable. Raises RunError if
    it is missing.
    """
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "configs", package.parent / "configs"):
        if (candidate / "sample").is_dir():
            return candidate
    raise RunError(f"the package has lost its configs: no folder {package / 'configs'}; install it again")


def list_names() -> list[str]:
    """Returns the names of the bundled configs, sorted."""
    return sorted(path.stem for path in configs_folder().glob("*.toml"))


def read_text(name: str) -> str:
    """Returns the text of a bundled config, with the path of the sample data made absolute. Raises ConfigError.

    So a copy of the config finds the sample wherever it is put.
    """
    if name not in list_names():
        raise ConfigError(f"configs: no config {name!r}; there are {', '.join(list_names())}")
    sample = json.dumps(str(configs_folder() / "sample"))[:-1]
    return (configs_folder() / f"{name}.toml").read_text(encoding="utf-8").replace(_SAMPLE, f"{sample}/")


def read_summary(name: str) -> str:
    """Returns the first sentence of the comment at the top of a config."""
    comment = []
    for line in read_text(name).splitlines():
        if not line.startswith("# "):
            break
        comment.append(line.removeprefix("# "))
    sentence, end, _ = " ".join(comment).partition(". ")
    return sentence + end.strip()


def copy_config(name: str, target: Path) -> None:
    """Copies a bundled config to a new file. Raises ConfigError if the file exists, and OSError if it can't be
    written."""
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(read_text(name))
    except FileExistsError:
        raise ConfigError(f"{target}: is there already; give another name, or remove it first") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None
