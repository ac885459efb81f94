"""A job runs with the lowest and with the highest versions that the extra `yarn` allows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs import end_processes_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
LOWEST = re.compile(r">=([0-9.]+)[^;]*")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def as_installed(folder):
    """Write what an installed project tells of its clusters; return where to import it from."""
    told = folder / "submarine_notebook-0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: submarine-notebook\nVersion: 0\n")
    clusters = PROJECT["entry-points"]["submarine.clusters"]
    rows = [f"{name} = {place}\n" for name, place in clusters.items()]
    (told / "entry_points.txt").write_text("".join(["[submarine.clusters]\n", *rows]))
    return f"{ROOT / 'engine'}:{folder}"


def requirements(which):
    named = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["yarn"]
    return named if which == "highest" else [LOWEST.sub(r"==\1", one) for one in named]


@pytest.mark.parametrize("which", ["lowest", "highest"])
def test_a_job_runs_with_these_versions(on_yarn, tmp_path, which):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, *requirements(which)], check=True)
    script = tmp_path / "train.py"
    script.write_text("print('on', 6 * 7)\n")
    home = tmp_path / "home"
    environment = {
        **os.environ, "PYTHONPATH": as_installed(tmp_path / "told"), "SUBMARINE_HOME": str(home),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }  # fmt: skip
    words = ["job", "run", str(script), "--cluster", "yarn", "--gpus", "0"]
    try:
        done = subprocess.run(
            [python, "-m", "submarine_engine.cli", *words],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "on 42\n" in done.stdout
    finally:
        if (home / "yarn").exists():
            (home / "yarn").rename(tmp_path / "over")  # so that the keeper ends
        end_processes_of(home, patience=3)
