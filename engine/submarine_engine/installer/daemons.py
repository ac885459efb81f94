"""The daemons of a cluster: started in order, asked whether a job could run, ended."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from submarine_engine import kerberos
from submarine_engine.errors import ClusterError, KerberosError
from submarine_engine.installer import realm, tls
from submarine_engine.installer.plan import ClusterPlan, Layout
from submarine_engine.installer.sites import quick_flags

# The processes of a cluster, found by what the kernel shows of them, and ended.
#
# No file remembers a pid: a daemon carries its cluster's folder and its own name among its
# arguments (``/proc/PID/cmdline``), a container of a NodeManager its folder in ``LOCAL_DIRS``. So
# what was started and what runs cannot differ, wherever a start was interrupted, and a number that
# was given to a stranger since is never taken for ours: a process is looked at again once its pidfd
# is held.


_END_PATIENCE = 30.0  # seconds: a process that is killed goes late where it waits for a disk
KDC, KDC_PROGRAM = "kdc", "krb5kdc"
"""The KDC of a secure cluster: known by its pid file, which is in the cluster's folder."""


def marks(layout: Layout, daemon: str) -> list[str]:
    """Return the arguments by which a daemon is known.

    Parameters
    ----------
    layout
        The cluster's files.
    daemon
        Its name; empty for what stands before each name.
    """
    return [f"-Dsubmarine.cluster={layout.root}", f"-Dsubmarine.daemon={daemon}"]


def find_daemons(layout: Layout) -> dict[str, int]:
    """Return the pids of the daemons of the cluster in `layout`, by name."""
    found = {}
    for pid in own_pids():
        if name := _daemon_name(pid, layout):
            found[name] = pid
    return found


def end_daemon(layout: Layout, name: str, number: int = signal.SIGKILL) -> bool:
    """Send a signal to a daemon and wait until it is gone; whether it is.

    With a signal that may be caught, the wait ends after half a minute.

    Parameters
    ----------
    layout
        The cluster's files.
    name
        The daemon's.
    number
        The signal's.
    """
    return all(
        end_process(pid, lambda pid: _daemon_name(pid, layout) == name, number)
        for pid in list(own_pids())
        if _daemon_name(pid, layout) == name
    )


def end_containers(layout: Layout) -> None:
    """Kill what NodeManagers of the cluster have started, and wait until it is gone.

    The daemons are gone by now; a container may start more processes while it is looked at.

    Parameters
    ----------
    layout
        The cluster's files.

    Raises
    ------
    ClusterError
        Some are still there after half a minute.
    """
    end = time.monotonic() + _END_PATIENCE
    while found := [pid for pid in own_pids() if _is_container(pid, layout)]:
        if time.monotonic() > end:
            raise ClusterError(
                f"processes of the cluster's containers do not end: {', '.join(map(str, found))}",
                where=str(layout.root),
                fix="see what they wait for (`ps`), then say `submarine cluster down` again",
            )
        for pid in found:
            end_process(pid, lambda pid: _is_container(pid, layout))


def end_process(pid: int, ours: Callable[[int], bool], number: int = signal.SIGKILL) -> bool:
    """Signal a process if it is ours, and wait for its end; whether it is gone.

    Parameters
    ----------
    pid
        Which.
    ours
        Asked once more when no other process can have its number.
    number
        The signal's.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if not ours(pid):  # the number is another process's by now
            return True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        waiting = select.poll()  # a pidfd can be read when its process has ended
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(_END_PATIENCE * 1000))
    finally:
        os.close(handle)


def own_pids() -> Iterator[int]:
    """Yield the processes of this user, but for this one."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError):
                if entry.stat().st_uid == os.geteuid() and int(entry.name) != os.getpid():
                    yield int(entry.name)


def _daemon_name(pid: int, layout: Layout) -> str | None:
    arguments = strings_of(pid, "cmdline")
    if str(realm.pid_file(layout)) in arguments and Path(arguments[0]).name == KDC_PROGRAM:
        return KDC
    if marks(layout, "")[0] not in arguments:
        return None
    prefix = marks(layout, "")[1]
    return next((a.removeprefix(prefix) for a in arguments if a.startswith(prefix)), None)


def _is_container(pid: int, layout: Layout) -> bool:
    """Whether a process was started by a NodeManager of the cluster.

    Its environment names the container's folders; the shell that is about to set that environment
    has its script in the NodeManager's.
    """
    nodes = f"{layout.data}/nodemanager-"
    if any(entry.startswith(f"LOCAL_DIRS={nodes}") for entry in strings_of(pid, "environ")):
        return True
    arguments = strings_of(pid, "cmdline")
    shell = bool(arguments) and Path(arguments[0]).name in ("bash", "sh")
    return shell and any(argument.startswith(nodes) for argument in arguments[1:])


def strings_of(pid: int, file: str) -> list[str]:
    """Return what a file of a process holds between NUL bytes; empty where that is not ours to see.

    Parameters
    ----------
    pid
        The process's.
    file
        Of its folder in ``/proc``: ``cmdline``, ``environ``.
    """
    place, until = Path(f"/proc/{pid}"), time.monotonic() + _EXECS_WITHIN
    try:
        while not (content := (place / file).read_bytes()) and _is_in_exec(place):
            if time.monotonic() > until:
                break
            time.sleep(0.001)
    except OSError:  # gone, or not ours to see
        return []
    return os.fsdecode(content).split("\0")


_EXECS_WITHIN = 0.5  # seconds: execve(2) takes a millisecond, and more where the machine is busy


def _is_in_exec(place: Path) -> bool:
    """Return whether a process has a program, and no words of it yet."""
    try:
        return not (place / "cmdline").read_bytes() and bool((place / "exe").readlink())
    except OSError:  # a zombie, or not ours to see
        return False


# The daemons of a cluster: what each is, starting it, ending it.


_YARN = "org.apache.hadoop.yarn.server"
_HDFS = "org.apache.hadoop.hdfs.server"
_CLASSES = {
    "resourcemanager": f"{_YARN}.resourcemanager.ResourceManager",
    "nodemanager": f"{_YARN}.nodemanager.NodeManager",
    "namenode": f"{_HDFS}.namenode.NameNode",
    "datanode": f"{_HDFS}.datanode.DataNode",
}
_HEAP = {"resourcemanager": 400, "nodemanager": 400, "namenode": 256, "datanode": 256}
# What a daemon, and through it a container, gets of the environment: that of a real cluster's.
_KEPT = re.compile(r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_TOLD = 3
_TAIL = 1 << 16

FORMATTER = "namenode-formatter"
"""The NameNode while it makes the file system."""


class Daemon:
    """One daemon of a cluster.

    Parameters
    ----------
    name
        ``resourcemanager``, ``namenode``, ``datanode``, ``nodemanager-N``, or ``kdc`` of a secure
        cluster.
    plan
        What the cluster is made of.
    layout
        The cluster's files.
    """

    def __init__(self, name: str, plan: ClusterPlan, layout: Layout) -> None:
        self.name = name
        self.log = layout.log(name)
        self._plan = plan
        self._layout = layout

    def __repr__(self) -> str:
        return f"<Daemon {self.name} of {self._layout.root}>"

    @property
    def pid(self) -> int | None:
        """Its process; None where it does not run."""
        return find_daemons(self._layout).get(self.name)

    @property
    def web(self) -> str:
        """The address of its pages; empty for the KDC, which has none."""
        plan = self._plan
        if self.name == KDC:
            return ""
        _, _, number = self.name.partition("-")
        if number:
            return plan.node_web(int(number))
        webs = {
            "resourcemanager": plan.rm_web,
            "namenode": plan.namenode_web,
            "datanode": plan.datanode_web,
        }
        return webs[self.name]

    def start(self) -> None:
        """Start it where it does not run; returns at once, see `HadoopCluster.wait_ready`."""
        if self.pid is None:
            self.run()

    def stop(self) -> None:
        """Ask it to end (SIGTERM) and wait; kill it after half a minute."""
        if not end_daemon(self._layout, self.name, signal.SIGTERM):
            self.kill()

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait until it is gone."""
        end_daemon(self._layout, self.name)

    def run(self, *arguments: str, wait: bool = False) -> None:
        """Run its class with `arguments`, in a session of its own unless waited for.

        Parameters
        ----------
        *arguments
            Words for its class; the KDC has none.
        wait
            Whether to return at its end alone; not for the KDC.

        Raises
        ------
        ClusterError
            It was waited for, and failed.
        ValueError
            The KDC is to have arguments, or to be waited for.
        """
        kind, _, number = self.name.partition("-")
        layout, plan = self._layout, self._plan
        if kind == KDC:
            if arguments or wait:
                raise ValueError(f"the {KDC} has no arguments, and is not waited for")
            self._launch(realm.kdc_command(layout), realm.kdc_environment(layout))
            return
        folders = [str(layout.conf), str(layout.web), plan.class_path]
        if number:
            folders.insert(0, str(layout.node_conf(int(number))))
        if plan.secure:
            folders.insert(0, str(layout.tls))
        secure = [*realm.java_flags(layout), *realm.native_flags(layout)] if plan.secure else []
        command = [
            str(plan.java.program),
            *quick_flags(_HEAP[kind]),
            *plan.java.flags(),
            *secure,
            f"-Djava.io.tmpdir={layout.tmp}",
            *marks(layout, FORMATTER if wait else self.name),
            "-cp",
            ":".join(folders),
            _CLASSES[kind],
            *arguments,
        ]
        self._launch(command, wait=wait)

    def _launch(
        self, command: list[str], more: Mapping[str, str] | None = None, *, wait: bool = False
    ) -> None:
        plan, layout = self._plan, self._layout
        # `setsid --fork` is gone at once, and init waits for the daemon, not this process.
        launcher = [] if wait else ["setsid", "--fork"]
        with open(self.log, "ab", opener=_private) as log:
            done = subprocess.run(  # noqa: S603 - our own program
                [*launcher, *command], env={**daemon_environment(plan, layout), **(more or {})},
                cwd=layout.tmp,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, umask=0o077, check=False,
            )  # fmt: skip
        if done.returncode:
            raise self.failure()

    def failure(self) -> ClusterError:
        """Return the error of a daemon that does not run, with the last words of its last life."""
        lines = _last_life(self.log)
        words = [
            line for line in lines if re.search(r" (?:ERROR|FATAL) |Exception: |Error: ", line)
        ]
        told = "\n".join(line[:300] for line in (words or lines)[-_TOLD:]) or "it said nothing"
        return ClusterError(
            f"the {self.name} has ended by itself:\n{told}",
            where=str(self.log),
            fix=f"see `submarine cluster logs {self.name}`; then `submarine cluster down`, and up",
        )


def daemon_names(plan: ClusterPlan) -> list[str]:
    """Return the names of a cluster's daemons, in the order in which they are shown.

    Parameters
    ----------
    plan
        What the cluster is made of.
    """
    hdfs = ["namenode", "datanode"] if plan.hdfs else []
    kdc = [KDC] if plan.secure else []
    return [*kdc, "resourcemanager", *hdfs, *(f"nodemanager-{n}" for n in range(plan.nodes))]


def daemon_environment(plan: ClusterPlan, layout: Layout) -> dict[str, str]:
    """Return the environment that daemons run in.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.
    """
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    return {**kept, **cluster_environment(plan, layout, kept)}


def cluster_environment(
    plan: ClusterPlan, layout: Layout, outer: Mapping[str, str]
) -> dict[str, str]:
    """Return what programs need in order to find the cluster, above an `outer` environment.

    Parameters
    ----------
    plan
        The cluster.
    layout
        Its files.
    outer
        What these variables are added to.
    """
    here = str(layout.bin)
    path = [entry for entry in outer.get("PATH", "").split(":") if entry not in ("", here)]
    found = {
        "HADOOP_CONF_DIR": str(layout.conf),
        "JAVA_HOME": str(plan.java.home),
        "PATH": ":".join([here, *path]),
    }
    if plan.secure:
        own = realm.environment(layout)
        # In the cluster's own realm a ticket of another of its users is meant: it stays.
        kept = (
            outer.get(kerberos.CACHE) if outer.get(kerberos.CONFIG) == own[kerberos.CONFIG] else ""
        )
        found |= {**own, kerberos.CACHE: kept or own[kerberos.CACHE]}
    if any(name.lower() in _PROXIES and value for name, value in outer.items()):
        # gRPC, for one, would ask the proxy for loopback.
        direct = [outer.get("no_proxy") or outer.get("NO_PROXY") or "", "127.0.0.1", "localhost"]
        found["no_proxy"] = ",".join(filter(None, direct))
    return found


def _last_life(log: Path) -> list[str]:
    """Return what a daemon has written since its last start; the end of it where it is long."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:  # it was never started
        return []
    return text.rpartition("STARTUP_MSG: Starting")[2].splitlines()


def _private(path: str | Path, flags: int) -> int:
    return os.open(path, flags, 0o600)


# Whether a job could run: asked of the daemons themselves, over HTTP on loopback.


_ANSWER_PATIENCE = 5.0  # seconds: on loopback; a JVM that collects garbage answers within some
_ACTORS = "BPServiceActorInfo"
# Nobody there, or a daemon that is still on its way up and says other things than it will.
_NO_ANSWER = (OSError, HTTPException, ValueError, KeyError, TypeError, KerberosError)


_NO_FOLDERS = "HDFS lacks the folders that jobs need"


class _Folder(NamedTuple):
    """A folder of HDFS; an owner's own, or whoever made it has it."""

    path: str
    mode: str
    owner: str = ""


def missing_parts(plan: ClusterPlan, layout: Layout) -> list[str]:
    """Return what is still missing before a job could run, in words; empty when it could.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.
    """
    if plan.secure and not realm.kdc_answers(plan):
        return ["the kdc does not answer"]
    asked = _DaemonClient(layout if plan.secure else None)
    found = [_missing_yarn(plan, asked)]
    if plan.hdfs:
        found.append(_missing_hdfs(plan, asked))
    return [problem for problem in found if problem]


def _missing_yarn(plan: ClusterPlan, ask: _DaemonClient) -> str:
    try:
        nodes = ask(f"{plan.rm_web}/ws/v1/cluster/nodes")["nodes"]
        known = {str(node["id"]).rpartition(":")[2]: node for node in (nodes or {}).get("node", ())}
    except _NO_ANSWER:
        return "the resourcemanager does not answer"
    ready = sum(_node_runs(plan, number, known, ask) for number in range(plan.nodes))
    if ready == plan.nodes:
        return ""
    return f"{ready} of {plan.nodes} nodes running with {plan.gpus} GPUs"


def _node_runs(
    plan: ClusterPlan, number: int, known: Mapping[str, Any], ask: _DaemonClient
) -> bool:
    node = known.get(str(plan.node_port(number, 0)))
    if node is None or node["state"] != "RUNNING" or _gpus(node) != plan.gpus:
        return False
    # What the ResourceManager says of a node that was killed stays true for seconds: it has to be
    # of the node's present life.
    try:
        own = ask(f"{plan.node_web(number)}/ws/v1/node/info")["nodeInfo"]
        return bool(own["nodeHealthy"] and own["lastNodeUpdateTime"] == node["lastHealthUpdate"])
    except _NO_ANSWER:
        return False


def _gpus(node: dict[str, Any]) -> int:
    kinds = node["totalResource"]["resourceInformations"]["resourceInformation"]
    return next((int(kind["value"]) for kind in kinds if kind["name"] == "yarn.io/gpu"), 0)


def _missing_hdfs(plan: ClusterPlan, ask: _DaemonClient) -> str:
    try:
        if _bean(ask, plan.namenode_web, "NameNode", "NameNodeInfo")["Safemode"]:
            return "HDFS is in safe mode"
        if not _bean(ask, plan.namenode_web, "NameNode", "FSNamesystemState")["NumLiveDataNodes"]:
            return "HDFS has no datanode"
    except _NO_ANSWER:
        return "the namenode does not answer"
    if not _datanode_runs(plan, ask):
        return "the datanode does not answer"
    return "" if all(_has_folder(plan, ask, one) for one in _folders(plan)) else _NO_FOLDERS


def _folders(plan: ClusterPlan) -> list[_Folder]:
    # Whoever submits needs a home, and NodeManagers a place for logs that everybody may write.
    # HDFS gives the folders above one the same mode: others have homes below /user.
    shared = [_Folder("/user", "755"), _Folder("/tmp", "1777")]  # noqa: S108 - of HDFS
    users = realm.users(plan) if plan.secure else (plan.user,)
    return [*shared, *(_Folder(f"/user/{user}", "700", user) for user in users)]


def _datanode_runs(plan: ClusterPlan, ask: _DaemonClient) -> bool:
    try:
        actors = json.loads(_bean(ask, plan.datanode_web, "DataNode", "DataNodeInfo")[_ACTORS])
        return bool(actors) and all(actor["ActorState"] == "RUNNING" for actor in actors)
    except _NO_ANSWER:
        return False


def _bean(ask: _DaemonClient, web: str, service: str, name: str) -> dict[str, Any]:
    (found,) = ask(f"{web}/jmx?qry=Hadoop:service={service},name={name}")["beans"]
    return dict(found)


def make_folders(plan: ClusterPlan, layout: Layout) -> None:
    """Make the folders that jobs need in HDFS; `missing_parts` tells whether they are there.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.
    """
    ask = _DaemonClient(layout if plan.secure else None)
    with suppress(*_NO_ANSWER):
        for path, mode, owner in _folders(plan):
            where, who = _in_hdfs(plan, path)
            made = ask(f"{where}?op=MKDIRS&permission={mode}{who}", "PUT")["boolean"]
            if made and owner and plan.secure:
                ask(f"{where}?op=SETOWNER&owner={owner}&group={owner}", "PUT")


def _has_folder(plan: ClusterPlan, ask: _DaemonClient, folder: _Folder) -> bool:
    where, who = _in_hdfs(plan, folder.path)
    try:
        status = ask(f"{where}?op=GETFILESTATUS{who}")["FileStatus"]
    except _NO_ANSWER:
        return False
    return folder.owner in ("", status["owner"])


def _in_hdfs(plan: ClusterPlan, path: str) -> tuple[str, str]:
    """Return the address of a path, and what of a query tells who asks."""
    who = "" if plan.secure else f"&user.name={plan.user}"
    return f"{plan.namenode_web}/webhdfs/v1{path}", who


class _DaemonClient:
    """Asks daemons; those of a secure cluster, whose `layout` is given, as its NameNode."""

    def __init__(self, layout: Layout | None) -> None:
        self._layout = layout
        handlers = [] if layout is None else [HTTPSHandler(context=tls.context(layout))]
        # A proxy of the environment has no business on loopback.
        self._opener = build_opener(ProxyHandler({}), *handlers)

    def __call__(self, url: str, method: str = "GET") -> dict[str, Any]:
        request = Request(url, method=method)  # noqa: S310 - an address of ours
        if self._layout is not None:
            request.add_header("Authorization", realm.header(self._layout))
        try:
            with self._opener.open(request, timeout=_ANSWER_PATIENCE) as answer:
                found: dict[str, Any] = json.loads(answer.read() or b"{}")
        except HTTPError as error:
            error.close()
            raise
        return found


# Starting daemons in order, and waiting until a job could run.


_NAP = 0.1  # seconds: daemons take seconds to begin; each look is some requests on loopback


class Starter:
    """Starts what is not running of a cluster, and waits for it.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.
    timeout
        Seconds that all of it may take.
    """

    def __init__(self, plan: ClusterPlan, layout: Layout, timeout: float) -> None:
        self._plan = plan
        self._layout = layout
        self._timeout = timeout
        self._end = time.monotonic() + timeout

    def start(self, names: Sequence[str]) -> None:
        """Start daemons, all at once: the configuration lets them look for each other often.

        Those of HDFS come last, since the file system may have to be made first.

        Parameters
        ----------
        names
            Daemons that do not run.
        """
        if KDC in names:
            realm.make_realm(self._plan, self._layout)
            Daemon(KDC, self._plan, self._layout).run()
            if not realm.wait_for_kdc(self._plan, self._end):
                raise Daemon(KDC, self._plan, self._layout).failure()
        names = [name for name in names if name != KDC]
        for name in sorted(names, key=("namenode", "datanode").__contains__):
            if name == "namenode":
                self._format()
            Daemon(name, self._plan, self._layout).run()

    def wait(self) -> None:
        """Wait until a job could run; make the folders that it needs in HDFS.

        Raises
        ------
        ClusterError
            A daemon has ended by itself, or it takes too long.
        """
        while problems := missing_parts(self._plan, self._layout):
            running = find_daemons(self._layout)
            for name in daemon_names(self._plan):
                if name not in running:
                    raise Daemon(name, self._plan, self._layout).failure()
            if time.monotonic() > self._end:
                raise ClusterError(
                    f"it is not ready after {self._timeout:g} s: {'; '.join(problems)}",
                    where=f"cluster {self._layout.name}",
                    fix="`submarine cluster up` waits on, `submarine cluster logs` shows why",
                )
            if _NO_FOLDERS in problems:
                make_folders(self._plan, self._layout)
            time.sleep(_NAP)

    def _format(self) -> None:
        """Make the file system where there is none yet; one half made is made anew.

        Who made that may be at it still, where the process that waited for it was killed.
        """
        end_daemon(self._layout, FORMATTER)
        if self._layout.formatted.exists():
            return
        for folder in (self._layout.namenode, self._layout.datanode):
            shutil.rmtree(folder, ignore_errors=True)
        Daemon("namenode", self._plan, self._layout).run(
            "-format", "-force", "-nonInteractive", wait=True
        )
        self._layout.formatted.touch(mode=0o600)
