"""The wheel as a user installs it: what is in it, and that it works outside a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]
QUICK = ("model.l1=32", "data.batch_size=512", "train.steps=4", "train.validate_every=2", "pool.threads=1")
SMALLER = [word for change in QUICK for word in ("--set", change)]
UV_NAMES = {  # of pip's settings, which uv does not read
    "PIP_CERT": "SSL_CERT_FILE",
    "PIP_EXTRA_INDEX_URL": "UV_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_INDEX_URL",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run([str(word) for word in command], check=True, timeout=800)
    (path,) = folder.glob("sparsepool-*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of programs of an environment with the wheel; all else comes from that of the tests."""
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
    page = {path.relative_to(ROOT).as_posix() for path in (ROOT / "pool/watch").rglob("*") if path.is_file()}
    assert {name for name in names if name.startswith("pool/watch/")} == {n for n in page if "__pycache__" not in n}
    assert not [name for name in names if name.endswith((".cpp", ".h", ".inc", "CMakeLists.txt"))]


def test_from_an_empty_folder_the_demo_trains_exports_and_evaluates(installed: Path, tmp_path: Path) -> None:
    pool = installed / "pool"
    assert "demo " in run(pool, "configs", cwd=tmp_path)
    assert "king and rook" in run(pool, "demo", *SMALLER, cwd=tmp_path)
    run(pool, "watch", "runs/demo", "-o", "report.html", cwd=tmp_path)
    settings = tomllib.loads((tmp_path / "runs/demo/demo.toml").read_text())
    (sample,) = settings["data"]["train"]
    assert Path(sample).is_relative_to(installed.parent.resolve()), "not the checkout's"
    assert "250,000" in run(installed / "loader", "inspect", sample, cwd=tmp_path)


def test_a_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 6_000_000


@pytest.fixture(scope="session")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the program uv, as pip installs it."""
    venv = tmp_path_factory.mktemp("uv") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=100)
    subprocess.run([venv / "bin/pip", "install", "--quiet", "uv"], check=True, timeout=300)
    return venv / "bin/uv"


def test_the_lines_of_the_page_install_with_uv(wheel: Path, uv: Path, tmp_path: Path) -> None:
    """The wheel stands in for the checkout's folder, which is compiled no second time."""
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    lines = [line.split() for line in page.splitlines() if line.startswith("uv ")]
    assert [line[1:3] for line in lines] == [["venv"], ["pip", "install"], ["tool", "install"]]
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "programs")}
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {name: os.environ[pip] for pip, name in UV_NAMES.items() if pip in os.environ}
    for line in lines:
        words = [str(uv), *(str(wheel) if word == "." else word for word in line[1:])]
        subprocess.run(words, cwd=tmp_path, env={**environment, **tools}, check=True, timeout=600)
    assert "king and rook" in run(tmp_path / ".venv/bin/pool", "demo", *SMALLER, cwd=tmp_path)
    assert run(tmp_path / "programs/pool", "--version", cwd=tmp_path).startswith("sparsepool ")
    assert run(tmp_path / "programs/loader", "--version", cwd=tmp_path).startswith("loader ")
