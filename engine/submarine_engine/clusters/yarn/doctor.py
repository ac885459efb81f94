"""What a job on YARN needs, checked: this machine, the daemons, the queue, one finding a line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from submarine_engine import kerberos
from submarine_engine.clusters import locks
from submarine_engine.clusters.yarn import gpus as inventory
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.hadoop import HadoopConf, load_hadoop
from submarine_engine.clusters.yarn.hadoop_json import (
    GPU,
    MEMORY,
    VCORES,
    at,
    clean_line,
    in_words,
    listed,
)
from submarine_engine.clusters.yarn.hdfs import name_nodes, open_hdfs
from submarine_engine.clusters.yarn.node_pages import NodeConnection
from submarine_engine.clusters.yarn.preflight import MASTER_MEMORY, queue_refusal, storage_problem
from submarine_engine.clusters.yarn.rest import ResourceManager, new_session
from submarine_engine.clusters.yarn.scheduler import (
    DEFAULT,
    Node,
    Queue,
    masters_that_fit,
    none_up,
    read_nodes,
    read_scheduler,
)
from submarine_engine.errors import ClusterError, KerberosError, SubmarineError
from submarine_engine.extras import install_extra
from submarine_engine.findings import BAD, NOTE, OK, Check
from submarine_engine.history import default_home
from submarine_engine.installer import running_clusters
from submarine_engine.installer.java import NEWEST, OLDEST
from submarine_engine.trust import untrusted

# The doctor's look at the cluster: what its daemons answer.


_TIMEOUT = (2.0, 5.0)  # seconds to connect, and to answer: a person waits for all of its checks
_LARGEST_ANSWER = 1 << 20
_NODES_TRIED = 3
_SKEW = 5.0


class Questions:
    """The cluster that is looked at, and the queue that jobs go to.

    Parameters
    ----------
    conf
        The cluster's configuration.
    queue
        The queue's name or path; None for ``default``.
    """

    def __init__(self, conf: HadoopConf, queue: str | None) -> None:
        self.conf = conf
        self.queue = queue or DEFAULT

    def manager(self) -> ResourceManager:
        """Return a way to ask the ResourceManager; a new one, since checks run side by side."""
        return ResourceManager(self.conf, timeout=_TIMEOUT)

    def nodes(self) -> tuple[Node, ...]:
        """Ask for the nodes."""
        return read_nodes(self.manager().get("/ws/v1/cluster/nodes"))

    def find_queue(self) -> Queue | None:
        """Ask for the queue."""
        scheduler = read_scheduler(self.manager().get("/ws/v1/cluster/scheduler"))
        return scheduler.find(self.queue)


def manager_checks(asked: Questions) -> Iterator[Check]:
    """Check that a ResourceManager of the cluster of `asked` is active, and its clock."""
    title, states = "ResourceManager", []
    active = None
    with new_session(asked.conf) as session:
        for url in asked.conf.rm_urls:
            state, info, date = _ask_manager(session, url, asked.conf)
            states.append(f"{url} {state}")
            if state == "active" and active is None:
                active = info, date
    told_of = "; ".join(states) or "no address is configured"
    if active is None:
        fix = "see whether it runs, and whether HADOOP_CONF_DIR names the right cluster"
        yield Check(title, BAD, told_of, fix)
        return
    release = clean_line(at(active[0], "clusterInfo", "hadoopVersion"), 40)
    yield Check(title, OK, f"{told_of}; Hadoop {release or 'of unknown version'}")
    yield from _clock(active[1], asked.conf)


def _ask_manager(
    session: requests.Session, url: str, conf: HadoopConf
) -> tuple[str, Any, tuple[str, float]]:
    query = {} if conf.kerberos else {"user.name": conf.user}
    try:
        answer = session.get(
            f"{url}/ws/v1/cluster/info", params=query, timeout=_TIMEOUT, allow_redirects=False
        )
        info = answer.json()
    except ValueError:  # requests' own for what is no JSON is one, too
        return "answers, but not as a ResourceManager does", None, ("", 0.0)
    except requests.RequestException as error:
        if (wrong := untrusted(error, url)) is not None:
            return f"cannot be trusted: {wrong.what}; {wrong.fix}", None, ("", 0.0)
        return f"does not answer ({_reason(error)})", None, ("", 0.0)
    state = clean_line(at(info, "clusterInfo", "haState"), 40).lower()
    if not answer.ok or not state:
        return f"refuses ({answer.status_code}): {_refusal(info)}", None, ("", 0.0)
    return state, info, (answer.headers.get("Date", ""), time.time())


def _refusal(info: object) -> str:
    return clean_line(at(info, "RemoteException", "message"), 120) or "no word why"


def _reason(error: Exception) -> str:
    text = str(error)
    for known in ("Connection refused", "timed out", "Name or service not known"):
        if known in text:
            return known.lower()
    return clean_line(text, 120)


def _clock(stamp: tuple[str, float], conf: HadoopConf) -> Iterator[Check]:
    try:
        skew = parsedate_to_datetime(stamp[0]).timestamp() - stamp[1]
    except ValueError:
        return
    if abs(skew) < _SKEW:
        return
    verdict = BAD if conf.kerberos and abs(skew) > kerberos.SKEW else NOTE
    ahead = "ahead of" if skew > 0 else "behind"
    what = f"the ResourceManager's is {abs(skew):.0f} s {ahead} this machine's"
    yield Check("clocks", verdict, what, "let both ask the same time server (chrony, ntpd)")


def node_checks(asked: Questions) -> Iterator[Check]:
    """Check that nodes of the cluster of `asked` take containers."""
    found = asked.nodes()
    up = [node for node in found if node.up]
    if not up:
        fix = "see the NodeManagers' logs; a full disk makes a node unhealthy"
        yield Check("nodes", BAD, none_up(found), fix)
        return
    down = [node for node in found if not node.up]
    what = f"{len(up)} {'takes' if len(up) == 1 else 'take'} containers"
    if not down:
        yield Check("nodes", OK, what)
        return
    names = ", ".join(f"{node.host} {node.state.lower()}" for node in down[:_NODES_TRIED])
    report = next((f": {node.report}" for node in down if node.report), "")
    yield Check("nodes", NOTE, f"{what}; {len(down)} not ({names}{report})", "see their logs")


def node_page_checks(asked: Questions) -> Iterator[Check]:
    """Check that logs can be read from the own pages of the nodes of `asked`."""
    title, problem = "NodeManager pages", ""
    tried = [node for node in asked.nodes() if node.up][:_NODES_TRIED]
    for node in tried:
        try:
            connection = NodeConnection(
                node.web, user=asked.conf.web_user, timeout=_TIMEOUT[0], tls=asked.conf.node_tls
            )
            try:
                answer = connection.get("/ws/v1/node/info")
                connection.body(_LARGEST_ANSWER)
            finally:
                connection.close()
            if answer.status >= 400:  # noqa: PLR2004 - the first status of a refusal
                problem = f"{node.web} refuses ({answer.status})"
        except ClusterError as error:
            problem = f"{node.web}: {error.what}"
        if problem:
            fix = "nothing has to be done; to see lines sooner, let this machine reach that port"
            what = f"{clean_line(problem, 160)}; logs come by way of HDFS instead"
            yield Check(title, NOTE, what, fix)
            return
    if tried:
        yield Check(title, OK, f"{', '.join(node.web for node in tried)}: logs come from there")


def aggregation_checks(asked: Questions) -> Iterator[Check]:
    """Check that logs outlive the nodes of `asked`; its manager's own setting wins over ours."""
    key, title = "yarn.log-aggregation-enable", "log aggregation"
    value, whose = _setting(asked, key), "at the ResourceManager"
    if not value:
        value, whose = asked.conf.get(key), "by this configuration"
    if value.lower() == "true":
        yield Check(title, OK, f"on ({whose})")
    else:
        what = f"off ({whose if value else 'as Hadoop has it'}): YARN keeps no logs of what is over"
        fix = f"nothing has to be done for jobs that are followed here; else set {key}"
        yield Check(title, NOTE, what, fix)


def _setting(asked: Questions, key: str) -> str:
    """Return a property of the ResourceManager's own configuration; empty where it tells none."""
    try:
        document: object = asked.manager().get("/conf", name=key, format="json")
    except ClusterError:
        return ""
    held = at(document, "property")
    values = listed(document, "properties") or [held if isinstance(held, dict) else {}]
    return clean_line(next((one.get("value") for one in values if one.get("key") == key), ""), 80)


def hdfs_checks(asked: Questions) -> Iterator[Check]:
    """Check that the HDFS of `asked` answers and the user has a place there."""
    if problem := storage_problem(asked.conf):
        yield Check("HDFS", BAD, problem.what, problem.fix)
        return
    if not asked.conf.has_hdfs:
        yield Check("HDFS", NOTE, f"none: files lie in {asked.conf.default_fs}")
        return
    files = open_hdfs(asked.conf)
    if files is None:
        what = f"no NameNode of {asked.conf.default_fs} answers WebHDFS"
        fix = "see whether it runs, and whether dfs.namenode.http-address can be reached from here"
        yield Check("HDFS", BAD, what, fix)
        return
    try:
        there = files.exists(files.home)
    finally:
        files.close()
    if there:
        yield Check("HDFS", OK, f"{asked.conf.default_fs}, your folder is {files.home}")
    else:
        fix = f"ask for it: hdfs dfs -mkdir {files.home}, and -chown to {asked.conf.user}"
        yield Check("HDFS", NOTE, f"{asked.conf.default_fs}: there is no {files.home} yet", fix)


# The doctor's look at this machine: programs, packages and variables on the way to YARN.


_PROGRAM_TIMEOUT = 15.0
"""Seconds: a JVM that begins on a busy machine; one that hangs must not hang us."""
_LONGEST_VARIABLE = 128 << 10  # MAX_ARG_STRLEN of Linux, execve(2)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_KEEPER = "submarine_engine.clusters.keeper"
_RELEASE = re.compile(r'version "(?:1\.)?(\d+)')


def yarn_command_check(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check that ``yarn classpath --glob`` answers by `environ`: skein starts its driver so."""
    title, fix = "yarn command", "put Hadoop's bin folder on the PATH"
    program = shutil.which("yarn", path=environ.get("PATH", ""))
    if program is None:
        yield Check(title, BAD, "there is no program `yarn` on the PATH", fix)
        return
    done = _run([program, "classpath", "--glob"], environ)
    if isinstance(done, str):
        yield Check(title, BAD, f"`{program} classpath --glob` {done}", fix)
    elif done.returncode:
        said = clean_line(done.stderr or done.stdout, 200)
        yield Check(title, BAD, f"`{program} classpath --glob` fails: {said}", "see what it says")
    elif ".jar" not in done.stdout:
        said = clean_line(done.stdout, 80) or "nothing"
        yield Check(title, BAD, f"`{program} classpath --glob` names no jars, but {said}", fix)
    elif len(done.stdout.encode()) >= _LONGEST_VARIABLE:
        size = f"{len(done.stdout) >> 10} KiB"
        what = f"its class path of {size} is longer than Linux lets a variable be"
        yield Check(title, BAD, what, "let a `yarn` of your own name fewer jars")
    else:
        yield Check(title, OK, f"{program}, {done.stdout.count('.jar')} jars on its class path")


def java_check(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check the Java that skein's driver would be started with, by the variables `environ`."""
    fix = f"let JAVA_HOME name a Java {OLDEST} to {NEWEST}"
    home = environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH", ""))
    if program is None:
        yield Check("Java", BAD, "JAVA_HOME is not set, and no `java` is on the PATH", fix)
        return
    done = _run([program, "-version"], environ)
    if isinstance(done, str):
        yield Check("Java", BAD, f"{program} {done}", fix)
        return
    release = _RELEASE.search(done.stderr + done.stdout)
    if release is None or done.returncode:
        said = clean_line(done.stderr or done.stdout, 120) or "nothing"
        yield Check("Java", BAD, f"{program} does not tell its version, but {said}", fix)
        return
    number = int(release[1])
    verdict = OK if OLDEST <= number <= NEWEST else BAD
    what = f"{number} at {program}" + ("" if verdict == OK else ", on which Hadoop does not run")
    yield Check("Java", verdict, what, "" if verdict == OK else fix)


def _run(command: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str] | str:
    """Run a program; return what it did, or in words why it did not."""
    try:
        return subprocess.run(  # noqa: S603 - the user's own Hadoop and Java, no shell
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROGRAM_TIMEOUT,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return f"does not end in {_PROGRAM_TIMEOUT:g} s"
    except OSError as error:
        return f"cannot be started: {error.strerror}"


def skein_check() -> Iterator[Check]:
    """Check that skein and what it needs is installed."""
    missing = [name for name in ("skein", "grpc", "requests", "fsspec") if find_spec(name) is None]
    if missing:
        yield Check("skein", BAD, f"{', '.join(missing)} not installed", install_extra("yarn"))
        return
    try:
        release = version("skein")
    except PackageNotFoundError:
        release = "of unknown version"
    yield Check("skein", OK, release)


def keeper_check(home: Path, conf: HadoopConf) -> Iterator[Check]:
    """Check whether jobs of `home` find a keeper and skein's driver for `conf` running."""
    folder = KeeperFolder(home, conf)
    if locks.is_free(folder.lock):
        what = f"none runs; the next job starts one at {folder.root}"
    else:
        count = len(folder.open_jobs())
        what = f"runs at {folder.root}, for {count} {'job' if count == 1 else 'jobs'}"
    yield Check("keeper", OK, what)
    for pid, environ in _keepers(folder):
        for check in (*yarn_command_check(environ), *java_check(environ)):
            if check.verdict == BAD:
                what = f"process {pid} was started where {check.title} was missing: {check.what}"
                fix = f"it ends once no job needs it, and the next job starts another: kill {pid}"
                yield Check("keeper", BAD, what, fix)
    yield Check("skein's driver", OK, _driver(folder.skein / "driver"))


def _keepers(folder: KeeperFolder) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the keeper's process, and the environment that it was started with."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            words = os.fsdecode((path / "cmdline").read_bytes()).split("\0")
            if {_KEEPER, str(folder.home), folder.root.name} <= {*words}:
                pairs = os.fsdecode((path / "environ").read_bytes()).split("\0")
                yield int(path.name), dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _driver(record: Path) -> str:
    try:
        data = json.loads(record.read_bytes())
        with suppress(PermissionError):  # it runs, for somebody else
            os.kill(int(data["pid"]), 0)
        return f"runs at {clean_line(data['address'], 60)} (process {int(data['pid'])})"
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "none runs; the next job starts one (2 to 8 s)"


def proxy_checks(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check `environ` for proxies that would take gRPC's calls to this very machine."""
    found = [
        key for name in _PROXIES for key in (name, name.upper()) if environ.get(key, "").strip()
    ]
    direct = f"{environ.get('no_proxy', '')},{environ.get('NO_PROXY', '')}".replace(" ", ",")
    spared = {"127.0.0.1", "localhost", "*"} & set(direct.split(","))
    if not found:
        yield Check("proxy variables", OK, "none set")
    elif spared:
        yield Check("proxy variables", OK, f"{', '.join(found)} set, but not for this machine")
    else:
        yield Check(
            "proxy variables",
            NOTE,
            f"{', '.join(found)} set: Submarine leaves it out on its way to the cluster, skein's "
            "own commands ask it for 127.0.0.1",
            "export no_proxy=localhost,127.0.0.1",
        )


def identity_check(conf: HadoopConf, environ: Mapping[str, str]) -> Iterator[Check]:
    """Check who the cluster takes the user for: a name, or a Kerberos ticket.

    Parameters
    ----------
    conf
        The cluster's configuration.
    environ
        The variables of whoever would submit: they may name the ticket and ``krb5.conf``.
    """
    if not conf.kerberos:
        yield Check("user", OK, f"{conf.user} (no Kerberos)")
        return
    config = environ.get(kerberos.CONFIG, "/etc/krb5.conf")
    if not os.access(config.partition(":")[0], os.R_OK):
        fix = f"let {kerberos.CONFIG} name the krb5.conf of the cluster's realm"
        yield Check("krb5.conf", BAD, f"{config} cannot be read", fix)
        return
    yield Check("krb5.conf", OK, config)
    kerberos.use(environ)
    try:
        ticket = kerberos.read_ticket()
        kerberos.check_files()
    except KerberosError as error:
        yield Check("ticket", BAD, f"{error.where}: {error.what}", error.fix)
        return
    yield Check("ticket", OK, str(ticket))
    for host in spnego_hosts(conf):
        wrong = kerberos.explain(host)
        title = f"SPNEGO at {host}"
        if wrong is None:
            yield Check(title, OK, f"the realm knows HTTP/{host}")
        else:
            yield Check(title, BAD, wrong.what, wrong.fix)


def spnego_hosts(conf: HadoopConf) -> list[str]:
    """Return the hosts of the ResourceManagers and NameNodes that `conf` names, each once."""
    hosts = [urlsplit(url).hostname for url in conf.rm_urls]
    hosts += [node.host for node in name_nodes(conf)]
    return list(dict.fromkeys(host for host in hosts if host))


def token_check(asked: Questions) -> Iterator[Check]:
    """Check that the HDFS of `asked` gives the token with which containers read and write there."""
    title = "delegation token"
    files = open_hdfs(asked.conf)
    if files is None:
        yield Check(title, NOTE, "no HDFS answers, so none is needed", "")
        return
    try:
        files.delegation_token()
        yield Check(title, OK, f"{files.where} gives one to {asked.conf.user}")
    finally:
        files.close()


# The doctor's look at the queue that jobs go to, and at the GPUs.


def queue_checks(asked: Questions) -> Iterator[Check]:
    """Check that the queue of `asked` is there, runs, and takes this user's jobs."""
    manager = asked.manager()
    scheduler = read_scheduler(manager.get("/ws/v1/cluster/scheduler"))
    found = scheduler.find(asked.queue)
    names = ", ".join(leaf.path.removeprefix("root.") for leaf in scheduler.leaves[:10])
    fix = f"choose another with --queue: {names}" if names else "choose another with --queue"
    if found is None:
        verdict = BAD if scheduler.strict else NOTE
        yield Check("queue", verdict, f"the ResourceManager does not tell of {asked.queue!r}", fix)
    elif found.state not in ("", "RUNNING"):
        yield Check("queue", BAD, f"{found.path} takes no jobs: it is {found.state}", fix)
    elif words := queue_refusal(manager, asked.conf, found):
        yield Check("queue", BAD, words, fix)
    else:
        most = f", at most {in_words(found.most)}" if found.most else ""
        waiting = f", {found.pending} waiting to start" if found.pending else ""
        counted = f"; applications: {found.applications}{waiting}" if found.most else ""
        yield Check("queue", OK, f"{found.path}{most}{counted}")


def gpu_checks(asked: Questions) -> Iterator[Check]:
    """Check that the scheduler accounts GPUs, and that the queue of `asked` may hold some."""
    found = [node for node in asked.nodes() if node.up]
    if found and not any(GPU in node.total for node in found):
        yield Check(
            "GPUs",
            NOTE,
            f"the scheduler accounts none, but {', '.join(sorted({*found[0].total}))}",
            "name yarn.io/gpu in resource-types.xml and yarn.nodemanager.resource-plugins, and "
            "let yarn.scheduler.capacity.resource-calculator be the DominantResourceCalculator",
        )
        return
    shares = inventory.gpu_shares(asked.manager())
    parts = [f"{one.kind} {one.name} {one.free} of {one.total} free" for one in shares[:8]]
    if not parts:
        yield Check("GPUs", NOTE, "no node has one", "see yarn.nodemanager.resource-plugins there")
        return
    mine = asked.find_queue()
    if mine is not None and mine.most is not None and not mine.most.get(GPU):
        yield Check("GPUs", NOTE, f"queue {mine.path} may hold none", "choose another with --queue")
    yield Check("GPUs", OK, f"known to the scheduler: {', '.join(parts)}")


def master_checks(asked: Questions) -> Iterator[Check]:
    """Check how many warm application masters the queue of `asked` has room for."""
    title, found = "application masters", asked.find_queue()
    if found is None or found.am_limit is None:
        yield Check(title, OK, "the scheduler tells no limit")
        return
    limit = {name: found.am_limit[name] for name in (MEMORY, VCORES) if name in found.am_limit}
    fits = masters_that_fit(found, MASTER_MEMORY, asked.conf.user)
    what = f"queue {found.path} gives them {in_words(limit)}"
    if fits:
        yield Check(title, OK, f"{what}: room for {fits} warm ones beside others' jobs")
        return
    yield Check(
        title,
        NOTE,
        f"{what}: none to spare for a warm one, so every job starts an application of its own",
        "raise yarn.scheduler.capacity.maximum-am-resource-percent",
    )


# What a job on YARN needs, checked: one finding a line, each with the way out.
#
# Every check runs by itself and is waited for a bounded time, whatever the cluster does to it.


_PATIENCE = 20.0  # seconds for one check: more than a connection and some answers may take


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
    asked = Questions(conf, queue)
    managers = run_checks([("ResourceManager", lambda: manager_checks(asked))], patience)
    others: list[tuple[str, Callable[[], Iterator[Check]]]] = [("HDFS", lambda: hdfs_checks(asked))]
    if all(check.verdict != BAD for check in managers):
        others += [
            ("nodes", lambda: node_checks(asked)),
            ("NodeManager pages", lambda: node_page_checks(asked)),
            ("queue", lambda: queue_checks(asked)),
            ("GPUs", lambda: gpu_checks(asked)),
            ("application masters", lambda: master_checks(asked)),
            ("log aggregation", lambda: aggregation_checks(asked)),
        ]
        if conf.kerberos:
            others.append(("delegation token", lambda: token_check(asked)))
    return managers + run_checks(others, patience)


def _machine(
    environ: Mapping[str, str],
    patience: float,
    conf: HadoopConf | None = None,
    home: Path | None = None,
) -> list[Check]:
    checks: list[tuple[str, Callable[[], Iterator[Check]]]] = [
        ("yarn command", lambda: yarn_command_check(environ)),
        ("Java", lambda: java_check(environ)),
        ("skein", skein_check),
        ("proxy variables", lambda: proxy_checks(environ)),
    ]
    if conf is not None and home is not None:
        checks.append(("keeper", lambda: keeper_check(home, conf)))
        checks.append(("user", lambda: identity_check(conf, environ)))
    return run_checks(checks, patience)


def run_checks(
    checks: list[tuple[str, Callable[[], Iterator[Check]]]], patience: float
) -> list[Check]:
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
