"""What YARN is asked for: an application as skein describes it, and what containers are sent.

The payload is one archive of bundle and plan, and the runtime, which stays the same within a
release: files may be replaced by another release while a keeper lives.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import py_compile
import shlex
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol
from xml.sax.saxutils import escape
from zipfile import ZipFile, ZipInfo

import skein
import submarine_runtime
from submarine_runtime.container import CHUNK, GPUS, RESULTS_KEY
from submarine_runtime.sealing import KEY_FILE, seal
from submarine_runtime.webhdfs import CA_FILE

from submarine_engine.clusters.yarn.environments import docker_environment, probe_command
from submarine_engine.clusters.yarn.hdfs import name_nodes
from submarine_engine.clusters.yarn.options import read_viewers
from submarine_engine.history import JobPaths, write_aside
from submarine_engine.trust import certificates

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.driver import KeeperFolder
    from submarine_engine.job import JobSpec, Resources, Role


# What a container is sent: bundle and plan as one archive, and the runtime, which stays the same.
#
# What is sent is of one release: files may be replaced by another while a keeper lives.


RUNTIME_FILE = "submarine_runtime.zip"
"""Lies in a container's working directory: Python imports from it."""

PYTHON = "SUBMARINE_RELEASE"
"""Variable with the notebook's version of Python, of which a container's has to be a release."""

BEGIN = f"""
import os, sys
wanted = os.environ.pop("{PYTHON}", "")
mine = "%d.%d.%d" % sys.version_info[:3]
if wanted and wanted.split(".")[:2] != mine.split(".")[:2]:
    sys.exit(
        "submarine: the notebook has Python %s, and %s here is %s: what was sent cannot be loaded."
        " Send the notebook's own environment (--environment pack), or name an interpreter of the"
        " same release." % (wanted, sys.executable, mine)
    )
here = os.getcwd()
sys.path[:] = [here + "/{RUNTIME_FILE}"] + [path for path in sys.path if path not in ("", here)]
from submarine_runtime.container import begin
begin()
"""
"""The program that a container begins with; any Python can tell by it that it is another one."""

INLINE_LIMIT = 384 * 1024
"""Bytes of an archive that travel in a container's environment rather than by HDFS."""

INLINE_MOST = 1024 * 1024
"""Bytes that still may where there is no HDFS: Linux has room for 2 MB of arguments in all."""

_CHUNK_SIZE = 96 * 1024  # one variable may have 128 KiB (MAX_ARG_STRLEN), name and all
_RUNTIME = Path(submarine_runtime.__file__).parent
# Beside the runtime, and found by fsspec there as what is installed; see `job_hdfs`.
_INFO = "submarine_hdfs-1.dist-info"
_PLUGIN = {
    "submarine_hdfs.py": Path(__file__).with_name("job_hdfs.py").read_bytes(),
    f"{_INFO}/METADATA": b"Metadata-Version: 2.1\nName: submarine-hdfs\nVersion: 1\n",
    f"{_INFO}/entry_points.txt": b"[fsspec.specs]\n"
    b"hdfs = submarine_hdfs:Hdfs\nwebhdfs = submarine_hdfs:WebHdfs\n",
}


def pack(
    paths: JobPaths,
    plan: Mapping[str, Any],
    large: Mapping[str, str] | None = None,
    key: bytes = b"",
) -> bytes:
    """Return the archive of one task: the same bytes for the same content.

    File after file, each a line of two numbers (the lengths of its name and of its content), then
    name and content; all of it as zlib has it. What unpacks the usual kinds takes long to import.

    Parameters
    ----------
    paths
        The job's files: its bundle is packed.
    plan
        ``task.json``, with the task's ``environment``, and in ``anew`` whether the interpreter is
        to start with that.
    large
        Files of the bundle that come by themselves: the SHA-256 of each, by its name there.
    key
        The job's, with which its results are marked; empty for none.
    """
    files = {RESULTS_KEY: key} if key else {}
    for path in sorted(paths.bundle.rglob("*")):
        name = path.relative_to(paths.bundle).as_posix()
        if path.is_file() and name not in (large or {}):
            files[f"bundle/{name}"] = path.read_bytes()
    files["task.json"] = json.dumps({**plan, "large": dict(large or {})}).encode()
    return zlib.compress(b"".join(_entry(name.encode(), data) for name, data in files.items()), 6)


def _entry(name: bytes, data: bytes) -> bytes:
    return b"%d %d\n%b%b" % (len(name), len(data), name, data)


def _runtime() -> bytes:
    """Return the runtime as one file that Python imports from, compiled for this release, too."""
    files = dict(_PLUGIN)
    with TemporaryDirectory() as folder:
        for path in sorted(_RUNTIME.glob("*.py")):
            files[f"submarine_runtime/{path.name}"] = path.read_bytes()
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            # An absolute name: no file of the bundle's can be meant by it in a traceback.
            name = f"/submarine_runtime/{path.name}"
            py_compile.compile(str(path), f"{folder}/x", name, True, invalidation_mode=mode)
            files[f"submarine_runtime/{path.stem}.pyc"] = Path(folder, "x").read_bytes()
    packed = BytesIO()
    with ZipFile(packed, "w") as file:
        for name, data in files.items():
            file.writestr(ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return packed.getvalue()


def chunks(variables: Mapping[str, str], archive: bytes, key: bytes) -> dict[str, str]:
    """Return what a container is sent as environment variables, sealed.

    A NodeManager copies them into files that others may read.

    Parameters
    ----------
    variables
        Those that may hold a token, as addresses in HDFS do.
    archive
        The payload; empty where it comes by one of these addresses.
    key
        What the container has in its `KEY_FILE`.
    """
    text = base64.b64encode(seal(json.dumps(variables).encode() + b"\n" + archive, key)).decode()
    pieces = [text[start : start + _CHUNK_SIZE] for start in range(0, len(text), _CHUNK_SIZE)]
    return {f"{CHUNK}{number}": piece for number, piece in enumerate(pieces)}


RUNTIME = _runtime()
"""The content of `RUNTIME_FILE`."""

RELEASE = hashlib.sha256(BEGIN.encode() + RUNTIME).hexdigest()
"""Tells what is sent by one release from what is sent by another."""


# What YARN is asked for: applications and their services, as skein describes them.


MASTER_MEMORY = 256
"""Mebibytes of an application's master: skein's own program, without a GPU."""

PROBED = "SUBMARINE-PROBED"
"""What a warm master writes once it has tried the interpreter, whatever came of that."""

_COUNTS = (1, 2, 4, 8)
"""GPUs of a container that a warm master can be asked for, whichever of them it was started for."""

_HEARTBEAT = 0.2  # seconds: containers come with a heartbeat, and Hadoop's own takes five
_EXPIRY = "yarn.am.liveness-monitor.expiry-interval-ms"
_TAG = 100
_FILE = ".skein.sh"
"""What skein calls a container's script.

YARN starts ``/bin/bash -c "bash .skein.sh >…"``, and when that outer shell ends, the container is
over for it: the folder is removed, and what still runs is killed. SIGTERM goes to all of them. So
the script is the outer shell's ``BASH_ENV``: that shell runs it itself, with the trap of it.
"""

# QUIT is what an administrator's "thread dump" sends: a JVM prints its stacks, a shell would end.
_SCRIPT = """\
unset BASH_ENV
umask 027
BEGIN=%s
EVENTS=%s
ARTIFACTS=%s
L="${LOG_DIRS%%,*}"
exec >>"$L/stdout" 2>>"$L/stderr"
trap '' QUIT
trap : TERM
"$SUBMARINE_PYTHON" -u -c "$BEGIN" &
task=$!
kills() {
  while read -r name count; do [ "$name" = oom_kill ] && return; done </proc/vmstat
} 2>/dev/null
kills; before=$count oom=
while :; do
  wait $task; code=$?
  kill -0 $task 2>/dev/null || break
done
trap '' TERM
# A signal may have ended the wait, and the task itself since then: its own status counts.
wait $task 2>/dev/null; late=$?; [ $late = 127 ] || code=$late
kills; [ $code = 0 ] || [ "$count" = "$before" ] || oom=" oom"
shopt -s dotglob nullglob
set -- logdir/*
if [ $# -gt 0 ]; then
  "$SUBMARINE_PYTHON" -S -c "$EVENTS" "$PWD/logdir" "$L/events"
fi
set -- artifacts/*
if [ $# -gt 0 ]; then
  "$SUBMARINE_PYTHON" -S -c "$ARTIFACTS" "$PWD/artifacts" "$L"
fi
echo "$code$oom" > "$L/exit"
# What brings files to HDFS (`ship`) opens them all, before the node may remove them: a moment.
for _ in {1..100}; do
  read -r ship <"$L/.shipping" && kill -0 "$ship" || break
  sleep 0.05
done 2>/dev/null
exit $code
"""


_EVENTS = f"""
import sys
sys.path.insert(0, "{RUNTIME_FILE}")
from submarine_runtime.eventpack import finish
finish(*sys.argv[1:])
"""

_ARTIFACTS = _EVENTS.replace("eventpack", "artifacts")


def shape_key(spec: JobSpec, environment: str) -> str:
    """Return what tells warm masters of one notebook apart: whatever an application fixes.

    Parameters
    ----------
    spec
        The job: its roles, queue, image, node label and viewers count.
    environment
        The key of the job's environment.
    """
    roles = [[role.name, [one.to_json() for one in _offered(role)]] for role in spec.roles]
    fixed = [
        spec.queue,
        spec.docker_image,
        spec.options.get("node_label"),
        spec.options.get("view_users"),
        roles,
        environment,
        RELEASE,
    ]
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:16]


def service_name(role: Role) -> str:
    """Return what a warm master calls the containers of that role and size."""
    return f"{role.name}-{role.resources.gpus or 0}"


def _offered(role: Role) -> list[Resources]:
    """Return the sizes of a role's containers that one warm master can be asked for.

    A container without GPUs is for itself: not every cluster knows them.
    """
    counts = _COUNTS if role.resources.gpus in _COUNTS else (role.resources.gpus or 0,)
    return [replace(role.resources, gpus=count) for count in counts]


def _services(
    spec: JobSpec, sent: Mapping[str, skein.File], python: Mapping[str, str]
) -> dict[str, skein.Service]:
    """Return the services of a warm master, none of which has a container yet."""
    roles = [replace(role, resources=one) for role in spec.roles for one in _offered(role)]
    return {service_name(role): _service(role, spec, python, sent, cold=False) for role in roles}


class Sidecar(Protocol):
    """What an application runs besides the job's own containers."""

    def service(
        self, files: Mapping[str, skein.File], environment: Mapping[str, str]
    ) -> dict[str, skein.Service]:
        """Return its service by name.

        Parameters
        ----------
        files
            What each of the application's containers is sent, by the name that it has there.
        environment
            The variables that name the interpreter and, if there is one, the image.
        """


def describe_application(  # noqa: PLR0913 - what an application is made of
    spec: JobSpec,
    folder: KeeperFolder,
    launch: Mapping[str, Any],
    *,
    job_id: str | None,
    environments: Mapping[str, Mapping[str, str]],
    board: Sidecar | None = None,
) -> skein.ApplicationSpec:
    """Describe an application.

    Parameters
    ----------
    spec
        The job; for a warm master the one that it is started for.
    folder
        The keeper's: files that are sent lie there.
    launch
        The job's ``launch.json``: the interpreter on the nodes, and what it comes in.
    job_id
        The one job that it is for, whose containers it starts at once and with which it ends. None
        for a warm master, which starts none by itself.
    environments
        Of each role's containers, by the role's name; a warm master's get theirs as they are asked
        for.
    board
        The TensorBoard beside the job.
    """
    cold = job_id is not None
    key = skein.File(str(folder.sealing_key), type="file")
    sent = {**_archives(launch), RUNTIME_FILE: runtime_file(folder), KEY_FILE: key}
    sent |= _trusted(folder)
    python = {"SUBMARINE_PYTHON": launch["python"]}
    services = (
        {
            role.name: _service(role, spec, {**python, **environments[role.name]}, sent, cold=True)
            for role in spec.roles
        }
        if cold
        else _services(spec, sent, python)
    )
    if board is not None:
        image = docker_environment(spec.docker_image) if spec.docker_image else {}
        services |= board.service(sent, {**python, **image})
    files = {"submarine.jar": skein.File(str(heartbeat_jar(folder)), type="file")}
    if launch["probed"] and not cold:
        files.update(_archives(launch))
    notebook = Path(spec.notebook).name if spec.notebook else ""
    return skein.ApplicationSpec(
        name=f"submarine {spec.name if cold or spec.parent else notebook or 'notebook'}",
        queue=spec.queue or "default",
        node_label=spec.options.get("node_label", ""),
        tags=_tags(folder.conf.user, notebook, job_id, spec.parent),
        master=skein.Master(
            resources=skein.Resources(memory=f"{MASTER_MEMORY} MiB", vcores=1),
            files=files,
            script="" if cold else _master_script(launch),
            env={"JAVA_TOOL_OPTIONS": "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"},
        ),
        services=services,
        acls=_access(spec, secure=folder.conf.kerberos),
        max_attempts=1,
    )


def _access(spec: JobSpec, *, secure: bool) -> skein.ACLs:
    """Return who may see the application; YARN itself lets its owner and administrators.

    The master's own pages show what is in its store: where the users are known, they are the
    owner's alone. Elsewhere whoever looks at them is nobody, the owner too.
    """
    viewers = spec.options.get("view_users")
    names = read_viewers(str(viewers)) if viewers else []
    ui_users = [] if secure else ["*"]
    return skein.ACLs(enable=secure or bool(names), view_users=names, ui_users=ui_users)


def _trusted(folder: KeeperFolder) -> dict[str, skein.File]:
    """Return the certificates by which containers know HDFS's https pages, where they are named."""
    conf = folder.conf
    if not conf.ca or not any(node.secure for node in name_nodes(conf)):
        return {}
    path = _keep(folder.root / CA_FILE, certificates(conf.ca))
    return {CA_FILE: skein.File(str(path), type="file")}


def _master_script(launch: Mapping[str, Any]) -> str:
    """Return what a warm master runs beside itself: it does not end with its last container then.

    Before that it tries the interpreter, on a node and without a GPU.
    """
    probe = f"{probe_command(launch['python'])}\necho {PROBED}\n" if launch["probed"] else ""
    return f"{probe}exec sleep 2147483647"


def _archives(launch: Mapping[str, Any]) -> dict[str, skein.File]:
    # Private: unpacked once on a node for all of the user's applications, not for each.
    return {
        name: skein.File(source, type="archive", visibility="private")
        for name, source in launch["archives"].items()
    }


def _service(
    role: Role,
    spec: JobSpec,
    environment: Mapping[str, str],
    files: Mapping[str, skein.File],
    *,
    cold: bool,
) -> skein.Service:
    asked = role.resources
    image = docker_environment(spec.docker_image) if spec.docker_image else {}
    return skein.Service(
        instances=role.count if cold else 0,
        resources=skein.Resources(
            memory=f"{asked.memory or 2048} MiB", vcores=asked.vcores or 1, gpus=asked.gpus or 0
        ),
        env={GPUS: str(asked.gpus or 0), "BASH_ENV": _FILE, **image, **environment},
        files=dict(files),
        script=_SCRIPT % tuple(map(shlex.quote, (BEGIN, _EVENTS, _ARTIFACTS))),
        allow_failures=not cold,
        node_label=spec.options.get("node_label", ""),
    )


def job_tag(job_id: str) -> str:
    """Return the tag of the job `job_id`'s own application: who takes it over finds it by that."""
    return f"submarine-job:{job_id}"


def _tags(user: str, notebook: str, job_id: str | None, parent: str | None) -> set[str]:
    tags = {"submarine", f"submarine-user:{user}"}
    if notebook:
        tags.add(f"submarine-notebook:{notebook}")
    if job_id:
        tags.add(job_tag(job_id))
    if parent:
        tags.add(f"submarine-parent:{parent}")
    # YARN takes printable ASCII without commas, 100 characters at most.
    return {"".join(c if " " < c < "\x7f" and c != "," else "_" for c in t)[:_TAG] for t in tags}


def heartbeat_jar(folder: KeeperFolder) -> Path:
    """Return a jar that makes an application's master ask for containers five times a second.

    Its heartbeat is half of `yarn.am.liveness-monitor.expiry-interval-ms`, five seconds at most,
    and a jar beside it comes before Hadoop's own configuration on its classpath.

    Parameters
    ----------
    folder
        The keeper's: the jar is kept there, with the configuration's ``yarn-site.xml`` and that one
        value more.
    """
    path = folder.root / "submarine.jar"
    site = (folder.conf.folder / "yarn-site.xml").read_text()
    value = str(int(_HEARTBEAT * 2000))
    ours = f"<property><name>{escape(_EXPIRY)}</name><value>{value}</value></property>"
    end = site.rindex("</configuration>")
    content = f"{site[:end]}{ours}{site[end:]}"
    entry = zipfile.ZipInfo("yarn-site.xml", (1980, 1, 1, 0, 0, 0))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as jar:
        jar.writestr(entry, content)
    return _keep(path, packed.getvalue())


def runtime_file(folder: KeeperFolder) -> skein.File:
    """Return the runtime, in `folder`: a node fetches it once for all of an application."""
    return skein.File(str(_keep(folder.root / RUNTIME_FILE, RUNTIME)), type="file")


def _keep(path: Path, data: bytes) -> Path:
    if not path.exists() or path.read_bytes() != data:
        write_aside(path, data)
    return path
