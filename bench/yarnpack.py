"""A job that brings its whole environment, beside cluster-pack, on one cluster in one run.

cluster-pack pins old packages, so it gets an environment of its own, made here; ours is installed
into the same one, and both bring all of it to the container: ours in layers to HDFS, cluster-pack
as one pex, for which it resolves every package from the index anew (hence not ours, which may not
be there). That lies on this machine's disk, since its way to HDFS (pyarrow) needs ``libhdfs.so``,
which a Hadoop of jars has not; skein uploads it with each submission.

tf-yarn is no peer here: it needs tensorflow-io with the TensorFlow that this is built for, 1.5 GB,
and submits by cluster-pack and skein, so that what is measured of these is the least that it takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.table import Figure, in_turn
from bench.yarnlogs import on_yarn

ROUNDS = 3
PATIENCE = 1200.0
_REPOSITORY = Path(__file__).parents[1]
_PEER = ("cluster-pack==0.3.19", "setuptools<81", "wheel")
_FIRST = "import time\nopen({path!r}, 'w').write(str(time.monotonic()))\n"
_CLUSTER_PACK = """
import sys
import cluster_pack
import skein
from cluster_pack.skein import skein_launcher

def first_line(path):
    import time
    open(path, "w").write(str(time.monotonic()))

package, _ = cluster_pack.upload_env(
    package_path=sys.argv[1], ignored_packages=["submarine-notebook"]
)
with skein.Client() as client:
    skein_launcher.submit_func(
        client, func=first_line, args=[sys.argv[2]], memory="512 MiB", package_path=package
    )
"""


class Both:
    """Ours and cluster-pack in one environment.

    Parameters
    ----------
    folder
        Where all of it lies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = folder / "first"
        self._bin = folder / "peer" / "bin"
        subprocess.run([sys.executable, "-m", "venv", folder / "peer"], check=True)
        pip = [str(self._bin / "python"), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, *_PEER, f"{_REPOSITORY}[yarn]"], check=True)
        (folder / "first.py").write_text(_FIRST.format(path=str(self._first)))
        (folder / "pack.py").write_text(_CLUSTER_PACK)

    def ours(self) -> float:
        """Submit by our command; return the seconds to the first line of the job."""
        words = ["-m", "submarine_engine.cli", "job", "run", "first.py", "--cluster", "yarn"]
        return self._time([*words, "--environment", "pack", "--gpus", "0", "--memory", "512M"])

    def cluster_pack(self) -> float:
        """Submit by a program of cluster-pack's."""
        package = f"file://{self._folder}/environment.pex"
        return self._time(["pack.py", package, str(self._first)])

    def _time(self, words: list[str]) -> float:
        environment = {**os.environ, "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}"}
        begun = time.monotonic()
        done = subprocess.run(
            [self._bin / "python", *words],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        while time.monotonic() < begun + PATIENCE:
            if self._first.exists() and (text := self._first.read_text()):
                self._first.unlink()
                return float(text) - begun
            time.sleep(0.01)
        raise RuntimeError("the job has not written its first line")


@contextmanager
def _both(folder: Path) -> Iterator[Both]:
    with on_yarn(folder):
        yield Both(folder)


def first(folder: Path) -> Figure:
    """Measure the first job of an environment: packed, sent, unpacked; once, it takes long."""
    with _both(folder) as both:
        mine, theirs = both.ours(), both.cluster_pack()
    return Figure(
        what="YARN: new environment, request → first line",
        target="≤ 0.5 of cluster-pack",
        unit="s",
        ours=[mine],
        peers={"cluster-pack": [theirs]},
    )


def again(folder: Path) -> Figure:
    """Measure the jobs after it, each by a command of its own."""
    with _both(folder) as both:
        mine, theirs = in_turn(ROUNDS, both.ours, both.cluster_pack)
    return Figure(
        what="YARN: known environment, request → first line",
        target="≤ 1.0 of cluster-pack",
        unit="s",
        ours=mine,
        peers={"cluster-pack": theirs},
    )
