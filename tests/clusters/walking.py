"""Have a keeper, or a submitter, killed with -9 just before one of its effects on the world."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from submarine_engine.clusters import open_cluster
from submarine_engine.history import job_ids
from submarine_engine.job import JobState

from tests.jobs import follow, until

CHANGING = r"\d{8}-\d{6}-[a-z2-7]{5}|(?<=\.)[0-9a-f]{6,}$|[0-9a-f]{16,}|\d+"
"""What of a point's name is another one at each run: a job's id, what is random, numbers."""

DULL = re.compile(r"open (#|\..*|.*\.pyc)$|os\.mkdir tmp.*|fcntl\.flock #$")
"""A file that is written aside is renamed next; descriptors have no name."""

REPEATED = 3  # effects of one name that are points of a walk

WALK = "tests.local.walked"
ROOT = Path(__file__).parents[2]
SITE = """
import os, sys
words = getattr(sys, "orig_argv", ())
if os.environ.get("WALK") and "submarine_engine.clusters.keeper" in words:
    sys.path.append({root!r})
    from {module} import Walk
    Walk(os.environ["WALK"], ("keeper",), os.environ.get("WALK_AT", ""))
"""
SUBMIT = """
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from submarine_engine.clusters import ANY, open_cluster
from submarine_engine.clusters.choice import cluster_for
from submarine_engine.job import Resources, Role
from tests.jobs import bundle_of, spec_of
from tests.local.walked import Walk
cluster = {cluster!r} != ANY and open_cluster({cluster!r})
if {submitter}:
    Walk(os.environ["WALK"], ("submitter",), os.environ.get("WALK_AT", ""))
options = {options!r}
if counts := options.pop("roles", None):
    each = Resources(gpus=1)
    options["roles"] = tuple(Role(name=n, count=c, resources=each) for n, c in counts.items())
spec = spec_of(**options)
if not cluster:  # to choose one is part of the walk
    cluster, spec = cluster_for(ANY, spec)
print(cluster.submit(spec, bundle_of({code!r}), workdir=Path({folder!r})))
"""
CODE = """
import os, time
descriptor = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(descriptor, b"ran\\n")
for number in range(500):
    print("line", number)
while {hold!r} and not os.path.exists({gate!r}): time.sleep(0.02)
7
"""
LOG = "".join(f"line {number}\n" for number in range(500))


def submit(  # noqa: PLR0913 - of a walk
    folder, cluster, role, number, *, where="", hold=False, code="", walk=WALK, **options
):
    """Submit a job from a process of its own while `role` is killed at its effect `number`.

    Parameters
    ----------
    where
        A pattern: only effects that it matches are counted, each ``EVENT WORD``.
    code
        What is to run, where it is something else than `CODE`.
    hold
        Whether the code waits for the file ``gate`` before it ends.
    walk
        The module whose `Walk` a keeper has.

    Returns
    -------
    str or None
        The job's id; None where its submitter was killed.
    """
    site = folder / "walking"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE.format(root=str(ROOT), module=walk))
    python_path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    environment = {"WALK": f"{role}:{number}:{folder}", "WALK_AT": where, "PYTHONPATH": python_path}
    plain = CODE.format(side=str(folder / "side"), gate=str(folder / "gate"), hold=hold)
    program = SUBMIT.format(
        path=[entry for entry in sys.path if entry] + [str(ROOT)],
        cluster=cluster,
        submitter=role == "submitter",
        options=options,
        code=code or plain,
        folder=str(folder),
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode == -signal.SIGKILL:
        return None
    assert told.returncode == 0, told.stderr
    return told.stdout.strip()


def recovered(folder, home, name, *, tasks=1):
    """Have what was killed recovered by whoever looks; return the job's story, None for no job.

    Of a job of several tasks one alone writes.
    """
    cluster = open_cluster(name)
    jobs = list(job_ids(home))
    assert len(jobs) <= 1
    story = follow(cluster, jobs[0]) if jobs else None
    until(lambda: all(gpu.job_id is None for gpu in cluster.gpus()))
    runs = (folder / "side").read_text() if (folder / "side").exists() else ""
    if story is None:
        assert runs == ""
        return None
    assert story.state is JobState.SUCCEEDED, story.status
    assert (runs, story.out) == ("ran\n", LOG)
    kinds = [kind for kind in story.kinds if kind != "Waiting"]
    assert max(Counter(kinds).values()) == tasks, kinds
    return story


def name_of(effect):
    """Return what an effect is called at each run."""
    return re.sub(CHANGING, "#", effect)


def pattern_of(name):
    """Return what matches the effects of a name."""
    return "^" + re.escape(name).replace(r"\#", f"(?:{CHANGING})") + "$"


def walk_all(folder, role, one_walk, dull=DULL):
    """Have `role` killed at each point of the way of a job, and print what came of each.

    Parameters
    ----------
    folder
        Has a folder for each walk, named by its number, afterwards.
    one_walk
        Is called with such a folder, the number of an effect and a pattern of effects, as `submit`
        has them; with 0 nobody is killed. Submits a job in a home of its own, holds it to its
        promises, and returns its story, None for no job.
    dull
        As `points_of` has it.
    """
    first = folder / "0"
    first.mkdir()
    assert one_walk(first, 0, "") is not None
    names = [name_of(one) for one in (first / "effects").read_text().splitlines()]
    table = []
    for name, number in points_of(names, dull, REPEATED):
        own = folder / str(len(table) + 1)
        own.mkdir()
        try:
            story = one_walk(own, number, pattern_of(name))
        except AssertionError as error:
            raise AssertionError(f"{role} killed at {name} {number}: {error}") from error
        came = "not submitted" if story is None else story.state.value
        reached = "" if (own / "killed").exists() else ", not reached"
        table.append((f"{name} {number}", came + reached))
    counts = dict(Counter(came for _, came in table))
    lines = [f"\n{role}: {counts}", *("  {:60} {}".format(*line) for line in table)]
    sys.stdout.write("\n".join(lines) + "\n")
    assert any("reached" not in came for _, came in table)


def points_of(names, dull, repeated):
    """Yield each point of a walk: a name, and the how many-th of that name it is.

    Parameters
    ----------
    names
        Of all effects, in their order.
    dull
        A pattern of those at which nobody is killed.
    repeated
        How many of one name are points at most.
    """
    found = Counter()
    for name in names:
        found[name] += 1
        if not dull.match(name) and found[name] <= repeated:
            yield name, found[name]
