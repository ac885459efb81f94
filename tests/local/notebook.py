"""Another notebook of the same user: submits the jobs on its stdin, prints their ids, and ends.

Stdin: ``{"jobs": [[script, gpus], …], "kill": false}``; with ``kill`` it ends by -9.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.job import JobSpec, Resources, Role

wanted = json.load(sys.stdin)
cluster = LocalCluster()
for script, gpus in wanted["jobs"]:
    bundle = Bundle(
        files={"script.py": script.encode()}, manifest=Manifest(entry="script.py", python="3.11")
    )
    spec = JobSpec(roles=(Role(resources=Resources(gpus=gpus)),))
    sys.stdout.write(cluster.submit(spec, bundle, workdir=Path("/")) + "\n")
sys.stdout.flush()
if wanted["kill"]:
    os.killpg(0, signal.SIGKILL)
