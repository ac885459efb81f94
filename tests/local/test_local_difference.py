"""How two jobs differ, by what their folders tell."""

from __future__ import annotations

import json
import os
import pickle
import platform
import shutil

import pytest
from submarine_engine.bundle.model import Bundle, CapturedValue, LoadedFile, Manifest
from submarine_engine.clusters.driver import PastCluster
from submarine_engine.difference import Row, compare
from submarine_engine.errors import CommandError, ConfigError
from submarine_engine.future import Job
from submarine_engine.history import JobPaths, read_json, write_json
from submarine_engine.job import Role
from submarine_engine.provenance import ENVIRONMENT, PROVENANCE

from tests.jobs import spec_of

TRAIN = """from submarine_runtime import report
import helper
for step in range(3):
    report(loss={rate} / (step + 1), step=step)
"made with {rate}"
"""
ENVIRONMENTS = ({"numpy": "1.26", "torch": "2.6"}, {"numpy": "2.0", "flax": "0.8"})


def bundle_of(script, values=(), **files):
    named = dict(values)
    content = {"script.py": script.encode()}
    content |= {f"{name}.py": text.encode() for name, text in files.items()}
    content |= {f"values/{name}.pkl": pickle.dumps(value) for name, value in named.items()}
    manifest = Manifest(
        entry="script.py",
        python=platform.python_version(),
        modules=tuple(f"{name}.py" for name in files),
        loads=tuple(LoadedFile(path=f"values/{name}.pkl", names=(name,)) for name in named),
        values=tuple(
            CapturedValue(name=name, cell="", type=type(value).__name__, size=1, how="pickle")
            for name, value in named.items()
        ),
    )
    return Bundle(files=content, manifest=manifest)


@pytest.fixture
def ran(local):
    """Return a function that runs a bundle to its end, and returns the job."""

    def run(bundle, **options):
        spec = spec_of(**options)
        job = Job(local.cluster, local.cluster.submit(spec, bundle, workdir=local.folder))
        job.wait(180)
        return job

    return run


def note(local, job, packages, git=None, data=None):
    """Note what a job ran with, as if it had been so."""
    root = local.paths(job.id).root
    told = [[name, version, ""] for name, version in packages.items()]
    write_json(root / ENVIRONMENT, {"python": "3.11.7", "prefix": "/usr", "packages": told})
    write_json(root / PROVENANCE, {"git": git, "data": data})


def told(found):
    sections = {}
    for sign, text in found.lines():
        if sign == "#":
            lines = sections[text] = []
        elif sections and sign != "?":
            lines.append(f"{sign} {text}")
    return sections


def repository(commit, diff="", changed=()):
    return {"root": "/repo", "commit": commit * 40, "branch": "trunk", "changed": list(changed),
            "untracked": [], "diff": diff, "cut": False, "problem": ""}  # fmt: skip


def data(content, size):
    return {"path": "/data", "files": 3, "size": size, "newest": 1.0, "names": content,
            "content": content, "problem": ""}  # fmt: skip


def test_all_that_differs_is_told(local, ran):
    values = {"rows": [1, 2], "gone": 1, "same": {"a", "b"}, "large": bytes(100_000)}
    first = ran(
        bundle_of(TRAIN.format(rate=1), values, helper="x = 1\n", old="y = 1\n"),
        name="first", env={"A": "1", "API_TOKEN": "not-for-eyes"}, input_path=str(local.folder),
    )  # fmt: skip
    values = {"rows": [1, 3], "new": "text", "same": {"b", "a"}, "large": bytes(99_999) + b"1"}
    second = ran(
        bundle_of(TRAIN.format(rate=2), values, helper="x = 2\n"),
        name="second", env={"A": "2", "API_TOKEN": "nor-this"}, input_path=str(local.folder),
        time_limit=7200.0, memory=1024,
    )  # fmt: skip
    note(local, first, ENVIRONMENTS[0], repository("a"), data("1", 52))
    note(local, second, ENVIRONMENTS[1], repository("b", "d", ["a.py"]), data("2", 60))
    found = first.diff(second)
    assert not found.same
    assert found.unknown == ()
    assert told(found) == {
        "code": [
            "@ script.py",
            "@ @@ -1,5 +1,5 @@",
            "  from submarine_runtime import report",
            "  import helper",
            "  for step in range(3):",
            "-     report(loss=1 / (step + 1), step=step)",
            '- "made with 1"',
            "+     report(loss=2 / (step + 1), step=step)",
            '+ "made with 2"',
            "@ helper.py",
            "@ @@ -1 +1 @@",
            "- x = 1",
            "+ x = 2",
            "@ old.py",
            "- y = 1",
        ],
        "values": [
            "~ rows: [1, 2] → [1, 3]",
            "- gone: 1",
            "~ large: bytes, 100 kB, with another content",
            "+ new: 'text'",
        ],
        "options": [
            "~ --name: first → second",
            "~ --env A: 1 → 2",
            "~ --env API_TOKEN: (a secret), with another content",
            "~ --time_limit: not given → 2h",
            "~ --memory: not given → 1G",
        ],
        "versions": [
            "~ numpy: 1.26 → 2.0",
            "- torch: 2.6",
            "+ flax: 0.8",
        ],
        "data": ["~ /data: 3 files, 52 bytes → 3 files, 60 bytes"],
        "git": [
            "~ commit: aaaaaaaaaaaa (trunk) → bbbbbbbbbbbb (trunk)",
            "~ uncommitted: nothing → a.py",
        ],
        "results": ["~ result: 'made with 1' → 'made with 2'"],
        "reported last": ["~ loss: 0.333333 → 0.666667"],
    }  # fmt: skip
    assert json.loads(json.dumps(found.to_json()))["same"] is False
    assert "not-for-eyes" not in str(found)


@pytest.mark.filterwarnings("ignore:which packages")
def test_a_rerun_differs_in_nothing(local, ran):
    values = {"words": {"a", "b", "c"}, "large": bytes(100_000)}
    bundle = bundle_of("import random\nrandom.seed(1)\nrandom.random()", values)
    first = ran(bundle)
    second = first.rerun()
    second.wait(180)
    note(local, first, ENVIRONMENTS[0])
    note(local, second, ENVIRONMENTS[0])
    found = first.diff(second)
    assert found.same, str(found)
    assert str(found).endswith("nothing differs")
    with pytest.raises(CommandError, match=f"both are the job {first.id}"):
        first.diff(first)


def test_what_is_not_known_is_said(local, ran, declare_gpus):
    """Of a job of an earlier release, of one that goes on, and of one whose files are gone."""
    first, second = ran(bundle_of("1")), ran(bundle_of("2"))
    assert first.diff(second).unknown == (f"the packages of job {first.id} and {second.id}",)
    paths = local.paths(second.id)
    shutil.rmtree(paths.bundle)
    paths.events.unlink()
    paths.record.write_text("[")
    found = first.diff(second)
    assert {text.partition(" of job")[0] for text in found.unknown} == {
        "its script", "what it asked for", "the packages", "how it ended",
    }  # fmt: skip
    assert "nothing differs, as far as it is known" in str(found)
    gate = local.folder / "gate"
    waits = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    going = Job(local.cluster, local.submit(waits))
    local.until_running(going.id)
    found = first.diff(going)
    assert any("which is not over" in text for text in found.unknown)
    assert told(found)["results"] == ["~ state: succeeded → running"]
    gate.touch()
    going.wait(180)


def test_jobs_of_other_clusters_are_compared_by_their_folders(local, ran):
    first, second = ran(bundle_of("1")), ran(bundle_of("1"))
    record = read_json(local.paths(second.id).record)
    write_json(local.paths(second.id).record, {**record, "cluster": "elsewhere"})
    gone = Job(PastCluster("elsewhere", ConfigError("gone"), local.home), second.id)
    assert told(first.diff(gone)) == {"options": ["~ --cluster: local → elsewhere"]}


MARKED = "a-token-of-a-service"


def test_what_a_secret_is_reads_as_its_name(local, ran, monkeypatch):
    """Wherever it stands: script, option, variable, value (also where that is cut), result."""
    monkeypatch.setenv("SERVICE", MARKED)
    script = "import os\nos.environ['SERVICE'] + '{0}'  # {1}"
    first = ran(bundle_of(script.format(1, "nothing")), secrets=("SERVICE",))
    second = ran(
        bundle_of(script.format(2, MARKED), {"cut": f"{'x' * 25}{MARKED}{'y' * 200}"}),
        secrets=("SERVICE",), env={"PLAIN": f"<{MARKED}>"}, time_limit=60.0,
        roles=(Role(args=("--with", MARKED)),),
    )  # fmt: skip
    third = ran(bundle_of(script.format(3, MARKED)))  # its own marks do not tell of it
    for found in (first.diff(second), compare(*(local.paths(job.id) for job in (third, second)))):
        shown = str(found), json.dumps(found.to_json()), found._repr_html_()
        assert all(MARKED[:9] not in text for text in shown)
        assert all("secret SERVICE" in text for text in shown)
        told_of = {row.name for section in found.sections for row in section.rows}
        assert {"--env PLAIN", "arguments", "cut"} <= told_of


def test_several_jobs_stand_beside_each_other(local, ran):
    jobs = [
        ran(bundle_of(TRAIN.format(rate=rate), {"rate": rate}, helper="")) for rate in (1, 2, 2)
    ]
    for number, job in enumerate(jobs[:2]):
        note(local, job, ENVIRONMENTS[number])
    found = compare(*(local.paths(job.id) for job in jobs))
    assert [job.id for job in found.jobs] == [job.id for job in jobs]
    assert [code.id for code in found.code] == [job.id for job in jobs[1:]]
    rows = {section.title: {row.name: row for row in section.rows} for section in found.sections}
    assert rows["values"]["rate"].values == ("1", "2", "2")
    assert rows["versions"]["torch"].values == ("2.6", None, None)  # not known of the third
    assert rows["versions"]["flax"].values == (None, "0.8", None)
    assert found.unknown == (f"the packages of job {jobs[2].id}",)
    assert rows["reported last"]["step"] == Row("step", ("2", "2", "2"), same=True)
    assert set(rows["GPU time"]) == {"GPUs", "queued", "held", "busy"}
    text = str(found)
    assert "    loss: 0.333333 → 0.666667 → 0.666667" in text
    assert f"code of job ({jobs[2].id})" in text
    assert "GPU time" not in text  # no two runs are alike in it
    with pytest.raises(CommandError, match=f"both are the job {jobs[0].id}"):
        compare(local.paths(jobs[0].id))


def test_a_loss_that_came_to_nothing_is_told(local, ran):
    script = "from submarine_runtime import report\nfor loss in (1.0, {}):\n    report(loss=loss)"
    first, second = (ran(bundle_of(script.format(last))) for last in ("0.5", "float('nan')"))
    assert told(first.diff(second))["reported last"] == ["~ loss: 0.5 → NaN"]


# What the jobs' own code may have put there.


class _Runs:
    def __reduce__(self):
        return os.mkdir, (os.environ["MARK"],)


def test_nothing_of_a_job_s_files_is_run_or_obeyed(local, ran, monkeypatch):
    mark = local.folder / "ran"
    monkeypatch.setenv("MARK", str(mark))
    first = ran(bundle_of("1", {"value": 1}))
    second = ran(bundle_of("'<script>alert(1)</script>\x1b[2J\u202e'", {"value": _Runs()}))
    found = first.diff(second)
    assert not mark.exists()
    (line,) = told(found)["values"]
    assert line.startswith("~ value: 1 → _Runs, ")
    assert "\x1b" not in str(found)
    assert "\u202e" not in str(found)
    page = found._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    paths = local.paths(second.id)
    for path in (paths.bundle / "script.py", paths.bundle / "values" / "value.pkl",
                 paths.task("worker-0").results / "return.pkl"):  # fmt: skip
        path.unlink()
        os.mkfifo(path)  # would be waited for
    (paths.bundle / "manifest.json").unlink()
    (paths.bundle / "manifest.json").symlink_to("/etc/passwd")
    assert f"its script of job {second.id}" in first.diff(second).unknown


def test_a_file_outside_the_bundle_is_not_shown(local, ran):
    first, second = ran(bundle_of("1")), ran(bundle_of("1"))
    (local.folder / "private.py").write_text("mine")
    paths = local.paths(second.id)
    up = os.path.relpath(local.folder / "private.py", paths.bundle)
    manifest = read_json(paths.bundle / "manifest.json")
    write_json(paths.bundle / "manifest.json", {**manifest, "modules": [up]})
    assert "mine" not in str(first.diff(second))


def test_much_is_cut(local, ran):
    first = ran(bundle_of("\n".join(f"x = {n}" for n in range(2000))))
    second = ran(bundle_of("\n".join(f"y = {n}" for n in range(2000)) + f"\nz = {'1' * 1000!r}"))
    lines = told(first.diff(second))["code"]
    assert len(lines) == 501
    assert lines[-1].startswith("@ … and ")
    long = ran(bundle_of("x = 0\n" * 10_001))
    assert told(first.diff(long))["code"][1] == "~ 2000 lines → 10001 lines, too many to compare"


def test_a_job_that_is_gone_is_not_compared(local, ran):
    first = ran(bundle_of("1"))
    gone = Job(local.cluster, JobPaths(local.home, "20200101-000000-aaaaa").job_id)
    assert "how it ended of job 20200101-000000-aaaaa" in first.diff(gone).unknown
