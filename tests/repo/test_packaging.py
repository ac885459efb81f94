"""What users install: the wheel is whole, and the engine alone needs nothing of Jupyter."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

# The first one builds JupyterLab's extension and the wheel.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "engine/submarine_engine",
    "engine/submarine_runtime",
    "jupyter_ext/submarine_jupyter",
    "kernel/submarine_kernel",
    "magics/submarine_magics",
    "zeppelin_interpreter/submarine_zeppelin",
)
ENGINE_ONLY = """
import sys
import submarine_engine
for name in submarine_engine.__all__:
    getattr(submarine_engine, name)
jupyter = {"IPython", "ipykernel", "ipywidgets", "anywidget", "traitlets", "jupyter_client"}
print(*sorted(jupyter & set(sys.modules)))
"""
PLAIN_PROGRAM = """
from submarine_engine import launch, submit

def train(epochs, rate=0.1):
    print(f"{epochs} epochs")
    return {"epochs": epochs, "rate": rate}

if __name__ == "__main__":
    assert launch(train, 2) == {"epochs": 2, "rate": 0.1}
    assert submit(train, 3, rate=1.5).result(timeout=180) == {"epochs": 3, "rate": 1.5}
"""
LABEXTENSION = "share/jupyter/labextensions/@submarine-notebook/labextension"
MOST_SCRIPT = 300_000
"""Bytes of scripts and styles that the extension of JupyterLab may have."""


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """Build sdist and wheel of the project that lies in `source`; nothing built is there yet."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build from a clean checkout: the working tree without what git ignores."""
    source, folder = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in files.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    return build(source, folder)


@pytest.fixture(scope="module")
def wheel(built):
    return built[1]


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def installed(wheel: Path, python: str, folder: Path) -> Path:
    """Install the wheel alone into a fresh virtual environment; return its programs' folder."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install"]
    constraints = ["--quiet", "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *constraints, str(wheel)], check=True)
    return folder / "bin"


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_every_file_of_the_package(wheel, package):
    folder = ROOT / package
    files = {
        str(path.relative_to(folder.parent))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert f"{folder.name}/py.typed" in files
    assert files <= contents(wheel)


def test_the_wheel_holds_nothing_else(wheel):
    tops = {name.partition("/")[0] for name in contents(wheel)}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {
        Path(package).name for package in PACKAGES
    }


def test_the_wheel_brings_the_kernel_the_command_and_the_card(wheel):
    names = contents(wheel)
    assert any(name.endswith("share/jupyter/kernels/submarine/kernel.json") for name in names)
    assert any(name.endswith("jupyter_server_config.d/submarine_jupyter.json") for name in names)
    assert {Path(name).suffix for name in names if "/card/" in name} >= {".py", ".js", ".css"}
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
        text = archive.read(entry_points).decode()
    assert "submarine = submarine_engine.cli:main" in text
    assert "local = submarine_engine.clusters.local:LocalCluster" in text


def test_the_wheel_brings_the_built_extension_of_jupyterlab(wheel):
    names = contents(wheel)
    (place,) = {n.partition(LABEXTENSION)[0] for n in names if f"{LABEXTENSION}/static/" in n}
    ours = {n.removeprefix(f"{place}{LABEXTENSION}/") for n in names if LABEXTENSION in n}
    assert {"package.json", "install.json"} <= ours
    schemas = {Path(name).name for name in ours if name.startswith("schemas/")}
    assert {"panel.json", "status.json", "toolbar.json", "commands.json"} <= schemas
    with zipfile.ZipFile(wheel) as archive:
        read = {name: archive.read(f"{place}{LABEXTENSION}/{name}") for name in ours}
    (entry,) = [n for n in ours if n.startswith("static/remoteEntry.") and n.endswith(".js")]
    metadata = json.loads(read["package.json"])
    assert metadata["jupyterlab"]["_build"]["load"] == entry
    assert json.loads(read["install.json"])["packageName"] == "submarine-notebook"
    assert not [name for name in ours if name.endswith(".map")]
    size = sum(len(data) for name, data in read.items() if name.endswith((".js", ".css")))
    assert size <= MOST_SCRIPT


def test_a_wheel_is_built_from_the_sdist_without_node(built, tmp_path):
    sdist, wheel = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert list(source.glob("jupyter_ext/labextension/dist/static/remoteEntry.*.js"))
    hidden = {"PATH": str(tmp_path / "no-programs"), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=source, env=hidden, check=True, capture_output=True)
    assert contents(next(tmp_path.glob("*.whl"))) == contents(wheel)


def test_the_engine_alone_runs_jobs_on_each_python(wheel, each_python, tmp_path):
    programs = installed(wheel, each_python, tmp_path / "venv")
    python = programs / "python"
    assert run(python, "-c", ENGINE_ONLY, cwd=tmp_path).split() == []
    (tmp_path / "train.py").write_text(PLAIN_PROGRAM)
    assert "2 epochs" in run(python, "train.py", cwd=tmp_path)
    assert "job run" in run(programs / "submarine", "--help", cwd=tmp_path)
    assert "train" in run(programs / "submarine", "job", "list", cwd=tmp_path)
