"""A packed environment: the same Python elsewhere, in layers that change on their own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from submarine_engine.clusters import layers

from tests.yarn.environments.conftest import install

MEGABYTE = 1_000_000


def keys(plan):
    return {layer.folder: layer.key for layer in plan.layers}


def unpack(plan, root):
    """Put every layer where YARN puts it: in a cache, with a link beside the container."""
    for layer in plan.layers:
        cached = root / "cache" / f"{layer.key}.tar.gz"
        archive = layer.write()
        if not cached.exists():
            cached.mkdir(parents=True)
            subprocess.run(["tar", "-xzf", archive, "-C", cached], check=True)
        archive.unlink()
        (root / layer.folder).unlink(missing_ok=True)
        (root / layer.folder).symlink_to(cached)


def run(root, plan, code, **environment):
    done = subprocess.run(
        [plan.python, "-c", code],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_packed_environment_imports_what_this_one_does(site, tmp_path):
    project = tmp_path / "project"
    (project / "mine").mkdir(parents=True)
    (project / "mine" / "__init__.py").write_text("value = 'edited'")
    finder = f"MAPPING: dict[str, str] = {{'found': '{project / 'found'}'}}\nNAMESPACES = {{}}\n"
    (project / "found").mkdir()
    (project / "found" / "__init__.py").write_text("value = 'found'")
    install(site, "plain-one", files={"plain/__init__.py": "value = 1"})
    install(
        site,
        "Script_er",
        files={"scripter.py": "def main(): import sys; print('script', sys.executable)"},
        scripts={
            "scripter": f"#!{sys.executable}\nimport scripter\nscripter.main()\n",
            "long": "#!/bin/sh\n'''exec' /x/python \"$0\" \"$@\"\n' '''\nprint('long')\n",
        },
    )
    install(site, "mine", editable=project, files={"_mine.pth": f"{project}\n"})
    install(site, "found", editable=project, files={"__editable___found_finder.py": finder})
    (site / "by_hand.py").write_text("value = 'hand'")
    (site / "__pycache__").mkdir()
    plan = layers.plan_layers()
    assert list(keys(plan)) == ["base", "small", "local"]
    assert plan.versions["plain-one"] == "1.0"
    assert sorted(plan.notes) == [
        f"found goes along as it is now in {project / 'found'}",
        f"mine goes along as it is now in {project / 'mine'}",
    ]
    unpack(plan, tmp_path / "node")
    code = """
import by_hand, found, json, mine, multiprocessing, plain, subprocess, sys
outputs = [
    subprocess.run(words, shell=True, env=env, capture_output=True, text=True).stdout.strip()
    for words, env in (("scripter", None), ("long", None), ("which python3", None),
                       (f"{sys.executable} -c 'import plain; print(plain.value)'", {}))]
print(json.dumps([plain.value, mine.value, found.value, by_hand.value, sys.executable, *outputs]))
"""
    told = json.loads(run(tmp_path / "node", plan, code, PYTHONHOME="/nowhere"))
    program = str(tmp_path / "node" / plan.python)
    values, (executable, scripter, long, which, child) = told[:4], told[4:]
    assert values == [1, "edited", "found", "hand"]
    assert executable == program
    assert scripter.startswith(f"script {tmp_path / 'node'}")
    assert (long, which, child) == ("long", str(tmp_path / "node" / "base/bin/python3"), "1")


def test_only_what_changes_is_another_layer(site, tmp_path):
    big = "x" * (layers._LARGE + 1)
    install(site, "large", files={"large/data.bin": big})
    install(site, "small-one", files={"one.py": "1"})
    code = tmp_path / "code"
    code.mkdir()
    (code / "module.py").write_text("1")
    (site / "code.pth").write_text(f"{code}\n")
    first = keys(layers.plan_layers())
    assert list(first) == ["base", "large-large", "small", "local"]
    assert keys(layers.plan_layers()) == first

    def changed():
        now = keys(layers.plan_layers())
        return {name for name in now if now[name] != first.get(name)}

    install(site, "small-one", "1.1", files={"one.py": "2"})
    assert changed() == {"small"}
    install(site, "small-one", files={"one.py": "1"})
    assert changed() == set()
    (code / "module.py").write_text("2")
    assert changed() == {"local"}
    (code / "module.py").write_text("1")
    install(site, "large", "2", files={"large/data.bin": big})
    assert changed() == {"large-large"}
    install(site, "large", files={"large/data.bin": big})
    (site / "by_hand.py").write_text("1")
    assert changed() == {"small"}


def test_a_package_edited_in_place_is_another_layer(site):
    install(site, "package", files={"package/__init__.py": "value = 1"})
    before = keys(layers.plan_layers())
    assert keys(layers.plan_layers()) == before
    (site / "package" / "__init__.py").write_text("value = 2")
    assert keys(layers.plan_layers())["small"] != before["small"]


def test_packages_that_find_each_other_by_path_lie_in_one_layer(site):
    def names(groups):
        return sorted(sorted(one.name for one in group) for group in groups)

    install(site, "nvidia-a", files={"nvidia/a/lib.so": "a"})
    install(site, "nvidia-b", files={"nvidia/b/lib.so": "b"})
    install(site, "torch", needs=("nvidia-a (>=1)", "sympy"), files={"torch/x.py": ""})
    install(site, "sympy", files={"sympy/x.py": ""})
    install(site, "google-x", files={"google/x/y.py": ""})
    install(site, "google-y", files={"google/y/y.py": ""})
    groups = layers.together(list(layers.distributions(site)))
    assert names(groups) == [
        ["google-x", "google-y"],
        ["nvidia-a", "nvidia-b", "torch"],
        ["sympy"],
    ]


def test_code_of_a_large_project_stays_behind_and_is_named(site, tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "_LARGEST_LOCAL", MEGABYTE)
    (tmp_path / "code" / "heavy").mkdir(parents=True)
    (tmp_path / "code" / "heavy" / "__init__.py").write_text("#" * (MEGABYTE + 1))
    (site / "code.pth").write_text(f"{tmp_path / 'code'}\n")
    plan = layers.plan_layers()
    assert list(keys(plan)) == ["base"]
    (note,) = plan.notes
    assert "heavy stays behind" in note
    assert str(tmp_path / "code") in note
    assert "pip install" in note


def test_archives_hold_nothing_of_this_machine(site, tmp_path):
    (tmp_path / "outside").write_text("outside")
    install(
        site, "linked", files={"linked/real.py": "1"}, scripts={"tool": f"#!{sys.executable}\n"}
    )
    (site / "linked" / "near.py").symlink_to("real.py")
    (site / "linked" / "far.py").symlink_to(tmp_path / "outside")
    (site / "linked" / "broken.py").symlink_to(tmp_path / "nowhere")
    record = site / "linked-1.0.dist-info" / "RECORD"
    rows = "".join(f"linked/{name}.py,sha256=x,1\n" for name in ("near", "far", "broken", "gone"))
    record.write_text(record.read_text() + rows)
    small = layers.plan_layers().layers[1]
    archive = small.write()
    with tarfile.open(archive) as members:
        found = {member.name: member for member in members}
        assert members.extractfile("bin/tool").read() == b"#!/usr/bin/env python3\n"
        assert members.extractfile("site/linked/far.py").read() == b"outside"
    archive.unlink()
    assert found["site/linked/near.py"].linkname == "real.py"
    assert "site/linked/broken.py" not in found
    assert "site/linked/gone.py" not in found
    assert {(m.uid, m.gid, m.uname, m.gname) for m in found.values()} == {(0, 0, "", "")}
    assert not any(name.startswith(("/", "..")) for name in found)


def test_what_breaks_off_leaves_no_half_archive(site, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    install(site, "package", files={"data.bin": os.urandom(500_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            layers.plan_layers().layers[1].write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "tmp").iterdir()) == []


ELSEWHERE = """
import sys
from submarine_engine.clusters import layers
plan = layers.plan_layers()
for layer in plan.layers:
    print(layer.folder, layer.key, layer.write(), plan.python)
"""


def test_each_supported_python_can_be_packed(each_python, tmp_path):
    """From a virtual environment, which is nothing without the Python that it is made of."""
    venv = tmp_path / "venv"
    subprocess.run([each_python, "-m", "venv", "--without-pip", venv], check=True)
    (folder,) = venv.glob("lib/python*/site-packages")
    install(folder, "packed", files={"packed.py": "value = 1"})
    engine = Path(layers.__file__).parents[2]
    lines = subprocess.run(
        [venv / "bin" / "python", "-c", ELSEWHERE],
        env={"PYTHONPATH": str(engine), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    made = [line.split() for line in lines]
    assert [layer[0] for layer in made] == ["base", "small"]
    for name, _, archive, _ in made:
        (tmp_path / "node" / name).mkdir(parents=True)
        subprocess.run(["tar", "-xzf", archive, "-C", tmp_path / "node" / name], check=True)
    code = (
        "import ctypes, hashlib, json, multiprocessing, packed, ssl, sys, zlib\n"
        "print(json.dumps([sys.version, sys.prefix, sys.base_prefix, *sys.path]))"
    )
    done = subprocess.run(
        [made[0][3], "-c", code],
        cwd=tmp_path / "node",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version, *places = json.loads(done.stdout)
    here = subprocess.run(
        [each_python, "-c", "import sys; print(sys.version)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert version == here.stdout.strip()
    inside = str(tmp_path / "node")
    assert all(place.startswith(inside) for place in places if place), places
