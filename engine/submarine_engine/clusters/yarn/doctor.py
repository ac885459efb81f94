"""What a job on YARN needs, checked: one finding a line, each with the way out.

Every check runs by itself and is waited for a bounded time, whatever the cluster does to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from submarine_engine.clusters.yarn import doctor_cluster, doctor_machine, doctor_queue
from submarine_engine.clusters.yarn.doctor_cluster import Asked
from submarine_engine.clusters.yarn.hadoop import HadoopConf, load_hadoop
from submarine_engine.doctor import BAD, NOTE, OK, Check
from submarine_engine.errors import SubmarineError
from submarine_engine.history import default_home
from submarine_engine.installer import running_clusters

_PATIENCE = 20.0


def yarn_checks(
    environ: Mapping[str, str],
    *,
    queue: str | None = None,
    home: Path | None = None,
    patience: float = _PATIENCE,
) -> list[Check]:
    """Check the way to the cluster that `environ` names; never raises for what it finds.

    Parameters
    ----------
    environ
        The environment of whoever would submit.
    queue
        Where to; None for ``default``.
    home
        Where jobs are kept, see `default_home`.
    patience
        Seconds after which a check that has not ended is said to hang.
    """
    try:
        conf = load_hadoop(environ)
    except SubmarineError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        return [Check("Hadoop configuration", BAD, what, error.fix), *_machine(environ, patience)]
    environ = {**environ, **conf.environment}
    what = f"{conf.folder}, from {conf.origin}; its file system is {conf.default_fs}"
    found = [Check("Hadoop configuration", OK, what), *_passed_over(conf, home or default_home())]
    return (
        found
        + _on_cluster(conf, queue, patience)
        + _machine(environ, patience, conf, home or default_home())
    )


def _passed_over(conf: HadoopConf, home: Path) -> Iterator[Check]:
    """Find clusters of the user's own that run, and that jobs do not go to."""
    for cluster in running_clusters(home):
        if cluster.layout.conf != conf.folder:
            what = f"{cluster.name!r} runs, and jobs do not go there: {conf.origin} comes before it"
            fix = f'in a terminal: eval "$(submarine cluster env --name {cluster.name})"'
            yield Check("cluster of your own", NOTE, what, fix)


def _on_cluster(conf: HadoopConf, queue: str | None, patience: float) -> list[Check]:
    asked = Asked(conf, queue)
    managers = run([("ResourceManager", lambda: doctor_cluster.managers(asked))], patience)
    others: list[tuple[str, Callable[[], Iterator[Check]]]] = [
        ("HDFS", lambda: doctor_cluster.hdfs(asked))
    ]
    if all(check.verdict != BAD for check in managers):
        others += [
            ("nodes", lambda: doctor_cluster.nodes(asked)),
            ("NodeManager pages", lambda: doctor_cluster.node_pages(asked)),
            ("queue", lambda: doctor_queue.queue(asked)),
            ("GPUs", lambda: doctor_queue.gpus(asked)),
            ("application masters", lambda: doctor_queue.masters(asked)),
            ("log aggregation", lambda: doctor_cluster.log_aggregation(asked)),
        ]
    return managers + run(others, patience)


def _machine(
    environ: Mapping[str, str],
    patience: float,
    conf: HadoopConf | None = None,
    home: Path | None = None,
) -> list[Check]:
    checks: list[tuple[str, Callable[[], Iterator[Check]]]] = [
        ("yarn command", lambda: doctor_machine.yarn_command(environ)),
        ("Java", lambda: doctor_machine.java(environ)),
        ("skein", doctor_machine.skein),
        ("proxy variables", lambda: doctor_machine.proxies(environ)),
    ]
    if conf is not None and home is not None:
        checks.append(("keeper", lambda: doctor_machine.keeper(home, conf)))
        checks.append(("user", lambda: doctor_machine.identity(conf, environ)))
    return run(checks, patience)


def run(checks: list[tuple[str, Callable[[], Iterator[Check]]]], patience: float) -> list[Check]:
    """Run checks side by side and return what they found, in their order.

    What does not end in `patience` seconds is left to a thread that ends with the process.
    """
    running = [(title, *_start(title, check)) for title, check in checks]
    until = time.monotonic() + patience
    found: list[Check] = []
    for title, thread, results in running:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            what = f"no answer in {patience:g} s"
            found.append(
                Check(title, BAD, what, "see whether the network drops what is sent to it")
            )
        else:
            found += results
    return found


def _start(
    title: str, check: Callable[[], Iterator[Check]]
) -> tuple[threading.Thread, list[Check]]:
    results: list[Check] = []

    def work() -> None:
        try:
            results.extend(check())
        except SubmarineError as error:
            what = f"{error.where}: {error.what}" if error.where else error.what
            results.append(Check(title, BAD, what, error.fix))
        except Exception as error:  # noqa: BLE001 - whatever a broken cluster answers is a finding
            results.append(Check(title, BAD, f"cannot be checked: {type(error).__name__}: {error}"))

    thread = threading.Thread(target=work, name=f"doctor: {title}", daemon=True)
    thread.start()
    return thread, results
