"""The properties of Zeppelin's interpreter setting, ours and those of the former interpreter.

The former one's names are those of Zeppelin 0.11's ``submarine/interpreter-setting.json``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from submarine_engine.command.options import RUN, find_of_run, of_clusters
from submarine_engine.command.values import did_you_mean
from submarine_engine.declared import known_settings
from submarine_engine.errors import CommandError, ConfigError

from submarine_zeppelin.outputs import LIMIT

_PORTS = 65536
SETTING = "submarine."
JOB = "submarine.job."

OPTIONS = {
    "submarine.yarn.queue": "queue",
    "tf.checkpoint.path": "checkpoint_path",
    "tf.worker.services.docker.image": "docker_image",
    "tf.worker.services.num": "num_workers",
    "tf.worker.services.gpu": "gpus",
    "tf.worker.services.cpu": "cpus",
    "tf.worker.services.memory": "memory",
    "tf.parameter.services.num": "num_ps",
}
"""Properties of the former interpreter and the options of ``job run`` that they mean."""

ENVIRONMENT = {
    "HADOOP_CONF_DIR": "HADOOP_CONF_DIR",
    "SUBMARINE_HADOOP_CONF_DIR": "HADOOP_CONF_DIR",
    "submarine.hadoop.conf.dir": "HADOOP_CONF_DIR",
    "submarine.hadoop.home": "HADOOP_HOME",
    "SUBMARINE_HADOOP_HOME": "HADOOP_HOME",
    "submarine.hadoop.krb5.conf": "KRB5_CONFIG",
}
"""Properties and the environment variables of the kernels that they mean."""

LINKS_LISTEN, LINKS_URL = "SUBMARINE_LINKS_LISTEN", "SUBMARINE_LINKS_URL"
"""Variables of the interpreter: where it serves the links of jobs, and how browsers get there."""

ELSEWHERE = "SUBMARINE_BROWSERS_ELSEWHERE"
"""Variable of the interpreter: Zeppelin is reached from other machines than its own."""

_LINKS = {"submarine.links.listen": LINKS_LISTEN, "submarine.links.url": LINKS_URL}

_CLUSTER = ("submarine.cluster", "SUBMARINE_CLUSTER")
_QUEUE = "submarine.yarn.queue"
_FORMER = (_QUEUE, "HADOOP_YARN_SUBMARINE_JAR", "hadoop.yarn.submarine.jar")
"""Properties that only a setting of the former interpreter has: it knew no cluster but YARN."""

_PYTHON = "zeppelin.python"
_PS = {
    "tf.parameter.services.memory": "memory",
    "tf.parameter.services.cpu": "vcores",
    "tf.parameter.services.gpu": "gpu",
}
_PS_IMAGE = "tf.parameter.services.docker.image"
_DISTRIBUTED = ("machinelearning.distributed.enable", "machinelearing.distributed.enable")
_OUTPUT = "zeppelin.interpreter.output.limit"
_AT_ONCE = "submarine.concurrent.max"
_KERBEROS = ("SUBMARINE_HADOOP_KEYTAB", "SUBMARINE_HADOOP_PRINCIPAL",
             "submarine.hadoop.keytab", "submarine.hadoop.principal")  # fmt: skip
_NEEDLESS = frozenset({
    "HADOOP_YARN_SUBMARINE_JAR", "hadoop.yarn.submarine.jar", "INTERPRETER_LAUNCH_MODE",
    "interpreter.launch.mode", "DOCKER_HADOOP_HDFS_HOME", "DOCKER_JAVA_HOME",
    "DOCKER_CONTAINER_TIME_ZONE", "docker.container.time.zone", "docker.container.network",
    "SUBMARINE_INTERPRETER_DOCKER_IMAGE", "submarine.algorithm.hdfs.path",
    "submarine.algorithm.hdfs.files", "yarn.webapp.http.address",
    "tf.tensorboard.enable",
})  # fmt: skip
_OURS = ("submarine.", "SUBMARINE_", "tf.", "machinelearning.", "machinelearing.")


@dataclass(slots=True)
class Properties:
    """What the properties of a setting mean.

    Attributes
    ----------
    options
        Defaults of ``job run``, text by the option's key.
    names
        The properties that gave these defaults, by the option's key.
    environment
        Variables of the kernels' environment.
    problems
        What cannot be used, a sentence each.
    output_limit
        Bytes of text that a paragraph shows.
    at_once
        How many jobs of one note run at a time; of one alone the next has its results.
    """

    options: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    output_limit: int = LIMIT
    at_once: int = 1

    def check(self) -> None:
        """Raise one `ConfigError` that names every problem, where there is any."""
        if self.problems:
            count = len(self.problems)
            what = (
                f"{count} propert{'y' if count == 1 else 'ies'} of the interpreter cannot be used"
            )
            raise ConfigError(
                f"{what}:\n" + "\n".join(f"  {problem}" for problem in self.problems),
                fix="change them in Zeppelin's interpreter settings, and restart the interpreter",
            )


def read_properties(properties: Mapping[str, str]) -> Properties:
    """Read a setting's properties; empty ones count as absent, Zeppelin's own are passed over.

    Nothing is raised: `Properties.check` does that where a job depends on them.
    """
    given = {name: str(value).strip() for name, value in properties.items()}
    given = {name: value for name, value in given.items() if value}
    found = Properties()
    distributed = any(given.get(name, "").lower() == "true" for name in _DISTRIBUTED)
    _choose_cluster(found, given)
    for name, value in sorted(given.items()):
        if name in OPTIONS:
            if distributed or not name.endswith("services.num"):
                _option(found, name, OPTIONS[name], value)
        elif name in ENVIRONMENT:
            found.environment.setdefault(ENVIRONMENT[name], value)
        elif name in (_OUTPUT, _AT_ONCE):
            _count(found, name, value)
        elif name in _DISTRIBUTED:
            _truth(found, name, value)
        elif name.startswith(JOB):
            _option(found, name, name[len(JOB) :], value)
        elif name not in (*_PS, _PS_IMAGE, *_KERBEROS, *_NEEDLESS):
            _setting(found, name, value)
    if distributed:
        _distributed(found, given)
    _kerberos(found, given)
    # A kernel cuts a job's log by itself, so that no more than is shown has to be sent.
    limit = "SUBMARINE_CELL_OUTPUT_LIMIT"
    found.environment.setdefault(limit, str(found.output_limit))
    return found


def _choose_cluster(found: Properties, given: dict[str, str]) -> None:
    """Stay on YARN, as the former interpreter's setting means it, unless it says otherwise."""
    cluster = next((given[name] for name in _CLUSTER if name in given), "")
    if not cluster and any(name in given for name in _FORMER):
        found.environment[_CLUSTER[1]] = "yarn"
        if given.get(_PYTHON, "").startswith("/"):
            found.environment["SUBMARINE_YARN_PYTHON"] = given[_PYTHON]
    if cluster == "local":
        given.pop(_QUEUE, None)  # that one has none


def _option(found: Properties, name: str, key: str, value: str) -> None:
    option = find_of_run(f"--{key}")
    if option is None:
        known = {one.key: f"{JOB}{one.key}" for one in (*RUN, *of_clusters())}
        hint = did_you_mean(key, known)
        found.problems.append(f"{name}: there is no option --{key}. {hint}".rstrip())
        return
    if option.kind is None or option.is_flag:
        if not _truth(found, name, value):
            return
    else:
        try:
            option.kind.read(value)
        except CommandError as error:
            found.problems.append(f"{name}={value}: {error.what}; {error.fix}".rstrip("; "))
            return
    found.options[option.key] = value
    found.names[option.key] = name


def _count(found: Properties, name: str, value: str) -> None:
    if not value.isdecimal() or not int(value):
        what = f"bytes; for example {LIMIT}" if name == _OUTPUT else "jobs; for example 4"
        found.problems.append(f"{name}={value}: it is no number of {what}")
    elif name == _OUTPUT:
        found.output_limit = int(value)
    else:
        found.at_once = int(value)


def read_place(text: str) -> tuple[str, int] | None:
    """Read `text`, ``HOST:PORT``; None where it is none.

    Without a host it is all addresses of the machine.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < _PORTS or "/" in host:
        return None
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - it says so


def _link(found: Properties, name: str, value: str) -> None:
    if name.endswith("listen"):
        right, example = read_place(value) is not None, "0.0.0.0:8900"
    else:
        right = re.fullmatch(r"https?://[^\s<>\"']+", value) is not None
        example = "https://zeppelin.example/jobs"
    if right:
        found.environment[_LINKS[name]] = value
    else:
        what = "an address to listen on" if name.endswith("listen") else "an address of browsers"
        found.problems.append(f"{name}={value}: it is no {what[3:]}; for example {example}")


def _truth(found: Properties, name: str, value: str) -> bool:
    if value.lower() in ("true", "false"):
        return True
    found.problems.append(f"{name}={value}: it is neither true nor false")
    return False


def _setting(found: Properties, name: str, value: str) -> None:
    """Take a setting of the configuration: ``submarine.yarn_python``, ``SUBMARINE_YARN_PYTHON``."""
    if name in _LINKS:
        _link(found, name, value)
    if name in _LINKS or not name.startswith(_OURS):
        return
    key = name.removeprefix(SETTING).removeprefix("SUBMARINE_").lower().replace(".", "_")
    keys = known_settings()
    if key not in keys:
        keys = known_settings(search=True)
    if key not in keys or name.startswith("tf."):
        known = [
            *OPTIONS,
            *_PS,
            *(f"{SETTING}{key}" for key in keys),
            *_NEEDLESS,
            *ENVIRONMENT,
            *_LINKS,
            _AT_ONCE,
        ]
        hint = did_you_mean(name, known)
        found.problems.append(f"{name}: there is no such property. {hint}".rstrip())
        return
    try:
        keys[key].read(value)
    except (CommandError, ValueError) as error:
        what = error.what if isinstance(error, CommandError) else error
        found.problems.append(f"{name}={value}: {what}; for example {keys[key].example}")
    else:
        found.environment[keys[key].variable] = value


def _distributed(found: Properties, given: Mapping[str, str]) -> None:
    if given.get("tf.worker.services.num", "0") == "0":
        found.problems.append("tf.worker.services.num: it is missing, and the job is distributed")
        found.options.pop("num_workers", None)
    if given.get("tf.parameter.services.num", "0") == "0":
        return
    resources = [f"{key}={given[name]}" for name, key in _PS.items() if name in given]
    if resources:
        _option(found, "tf.parameter.services.*", "ps_resources", ",".join(resources))
    image = given.get(_PS_IMAGE)
    if image and image != given.get("tf.worker.services.docker.image", image):
        found.problems.append(f"{_PS_IMAGE}={image}: all containers of a job start from one image")


def _kerberos(found: Properties, given: Mapping[str, str]) -> None:
    if any(name in given for name in _KERBEROS):
        found.problems.append(
            "keytab and principal: this interpreter uses the ticket of `kinit`; empty them"
        )
