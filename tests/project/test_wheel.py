"""The wheel as a user installs it: what is in it, and that it works outside a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]
QUICK = {"model.l1": 32, "data.batch_size": 512, "train.steps": 4, "train.validate_every": 2, "pool.threads": 1}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run([str(word) for word in command], check=True, timeout=800)
    (path,) = folder.glob("sparsepool-*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs in an environment with the wheel; all else comes from the environment of the tests."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=100)
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, timeout=100)
    site = sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)})
    others = [entry for entry in sys.path if entry.endswith("site-packages")]
    Path(site, "others.pth").write_text(
        "\n".join(others)
    )  # no .pth file in there is read: an editable install isn't found
    return venv / "bin"


def run(program: Path, *arguments: str, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [program, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_holds_three_packages_their_types_and_the_configs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"loader", "pool", "sparsepool"}
    assert {"loader/py.typed", "pool/py.typed", "sparsepool/py.typed", "loader/_native.pyi", "pool/_native.pyi"} <= set(
        names
    )
    bundled = {path.relative_to(ROOT).as_posix() for path in (ROOT / "configs").rglob("*") if path.is_file()}
    assert {name.removeprefix("pool/") for name in names if name.startswith("pool/configs/")} == bundled
    kernels = {path.relative_to(ROOT).as_posix() for path in (ROOT / "pool").rglob("*.cu*")}
    assert {name for name in names if name.endswith((".cu", ".cuh"))} == kernels
    assert not [name for name in names if name.endswith((".cpp", ".h", ".inc", "CMakeLists.txt"))]


def test_from_an_empty_folder_the_demo_is_copied_trained_exported_and_evaluated(
    installed: Path, tmp_path: Path
) -> None:
    pool = installed / "pool"
    assert "demo " in run(pool, "configs", cwd=tmp_path)
    run(pool, "configs", "demo", "-o", "my.toml", cwd=tmp_path)
    settings = tomllib.loads((tmp_path / "my.toml").read_text())
    (sample,) = settings["data"]["train"]
    assert Path(sample).is_relative_to(installed.parent.resolve()), "not the checkout's"
    changes = [word for key, value in QUICK.items() for word in ("--set", f"{key}={value}")]
    run(pool, "train", "my.toml", *changes, cwd=tmp_path)
    run(pool, "export", "runs/demo/checkpoints/last", "-o", "net.nnue", cwd=tmp_path)
    epd = str(Path(sample).with_name("positions.epd"))
    assert "king and rook" in run(pool, "eval", "net.nnue", "--epd", epd, cwd=tmp_path)
    assert "250,000" in run(installed / "loader", "inspect", sample, cwd=tmp_path)
