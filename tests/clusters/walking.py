"""Have a keeper, or a submitter, killed with -9 just before one of its effects on the world."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

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
from submarine_engine.clusters import open_cluster
from submarine_engine.job import Resources, Role
from tests.jobs import bundle_of, spec_of
from tests.local.walked import Walk
cluster = open_cluster({cluster!r})
if {submitter}:
    Walk(os.environ["WALK"], ("submitter",), os.environ.get("WALK_AT", ""))
options = {options!r}
if counts := options.pop("roles", None):
    each = Resources(gpus=1)
    options["roles"] = tuple(Role(name=n, count=c, resources=each) for n, c in counts.items())
print(cluster.submit(spec_of(**options), bundle_of({code!r}), workdir=Path({folder!r})))
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
