"""A flow as a zip that Azkaban takes: Flow 2.0's YAML, or the ``.job`` files of Flow 1.0.

The zip holds all that a run needs, so executors share no folder with who has built it::

    flow20.project, NAME.flow    what Azkaban reads; of 1.0 common.properties, a .job for each node
    flow/flow.json               the flow with its cells' source, to open as a notebook again
    flow/bundles/<sha256>/       the bundles of its nodes, byte for byte
    flow/modules/                Python files beside the notebook that its cells import

Azkaban unpacks it into the folder of one execution, where all jobs of that execution run, each of
them by one command: ``submarine flow node``. No shell reads it. Azkaban puts values in place of
``${name}``, evaluates ``$(…)``, and then splits at spaces that are not within quotes
(``ProcessJob.partitionCommandLine``); a backslash means nothing there.
"""

from __future__ import annotations

import io
import json
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from submarine_engine.errors import FlowError
from submarine_engine.flows.folder import Copies, Place, RemotePath
from submarine_engine.flows.model import ALL_SUCCESS, Flow, FlowPaths, Node, Parameter
from submarine_engine.history import write_aside

FOLDER = "flow"
"""The flow's folder within the zip, and so within the folder of an execution."""

RETRY_PAUSE = 10.0
"""Seconds between a node's tries: long enough for a cluster to notice that a machine is gone."""

# What a site, or who executes, may set for an execution; each command reads them.
SETTINGS = {
    "submarine.command": "submarine",
    "submarine.folder": FOLDER,
    # Stays over a job's tries, and over "Retry Failed Jobs" of an execution that still runs.
    "submarine.run": "azkaban-${azkaban.flow.execid}",
}

# Properties of jobs and flows, which a parameter of their name would change.
_KEPT = frozenset(
    ("command", "condition", "config", "dependencies", "name", "nodes", "retries", "type")
)
_EVALUATED = re.compile(r"\$[{(]")


def write(flow: Flow, folder: Place, into: Path) -> Path:
    """Write a flow as a Flow 2.0 zip; the same flow gives the same bytes.

    Parameters
    ----------
    flow
        The flow.
    folder
        The flow's own: it holds ``flow.json`` and the bundles. One at an address is where nodes
        run, so that any executor can run any of them.
    into
        Where the zip goes: the flow's own folder, where it is on this machine.

    Returns
    -------
    Path
        The zip, ``NAME-azkaban.zip``.

    Raises
    ------
    FlowError
        Azkaban cannot have a parameter of that name or with that value, or a bundle is not there.
    """
    head = {
        "flow20.project": "azkaban-flow-version: 2.0\n",
        f"{flow.name}.flow": "\n".join(_yaml(flow, folder)) + "\n",
    }
    path = _zip(flow, into)
    return _pack(flow, folder, head, path, refused=(".flow", ".project"))


def write_1(flow: Flow, folder: Place, into: Path) -> Path:
    """Write a flow as a Flow 1.0 zip, for an Azkaban that knows no other.

    Parameters
    ----------
    flow
        The flow.
    folder, into
        As for `write`.

    Returns
    -------
    Path
        The zip, ``NAME-azkaban-1.0.zip``.

    Raises
    ------
    FlowError
        As for `write`; or a node has a condition, which Flow 1.0 does not know.
    """
    if conditional := [node.name for node in flow.nodes if node.condition != ALL_SUCCESS]:
        raise FlowError(
            f"Flow 1.0 knows no conditions, and {', '.join(conditional)} has one",
            where=f"flow {flow.name}",
            fix="build it for Flow 2.0, which Azkaban reads too: --to azkaban",
        )
    last = _last(flow)
    head = {"common.properties": _properties(_config(flow, folder))}
    for node in flow.order:
        job = {"type": "command", **_job(flow, node)}
        if node.follows:
            job["dependencies"] = ",".join(node.follows)
        if flow.mail and node.name == last:
            job["failure.emails"] = flow.mail
        head[f"{node.name}.job"] = _properties(job)
    if last not in {node.name for node in flow.nodes}:
        ends = [node.name for node in flow.order if not flow.followers(node.name)]
        end = {"type": "noop", "dependencies": ",".join(ends)}
        if flow.mail:  # of Flow 1.0 Azkaban asks the last job who is written to
            end["failure.emails"] = flow.mail
        head[f"{last}.job"] = _properties(end)
    path = _zip_1(flow, into)
    return _pack(flow, folder, head, path, refused=(".job", ".pull", ".properties"))


def write_as_built(flow: Flow, folder: Place, into: Path) -> Path:
    """Write a flow for the Azkaban that it was built for last, by the zips that are there.

    Parameters
    ----------
    flow
        The flow.
    folder, into
        As for `write`.

    Raises
    ------
    FlowError
        As for `write` and `write_1`.
    """
    before = into if isinstance(folder, Path) else Path(flow.workdir)  # where `flow build` writes
    newer = _written(_zip_1(flow, before)) > _written(_zip(flow, before))
    return (write_1 if newer else write)(flow, folder, into)


def _zip(flow: Flow, into: Path) -> Path:
    return into / f"{flow.name}-azkaban.zip"


def _zip_1(flow: Flow, into: Path) -> Path:
    return into / f"{flow.name}-azkaban-1.0.zip"


def _written(path: Path) -> int:
    """Return when a file was written, in nanoseconds since 1970; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def read(archive: bytes, *, where: str) -> Flow:
    """Return the flow that a zip holds, checked as any flow.

    Parameters
    ----------
    archive
        The zip's bytes.
    where
        What people call it.

    Raises
    ------
    FlowError
        It is no zip, or none that `write` or `write_1` wrote.
    """
    fix = "give a zip that `submarine flow build --to azkaban` wrote, or a project made of one"
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as found:
            data = json.loads(found.read(f"{FOLDER}/flow.json"))
    except KeyError:
        raise FlowError("it holds no flow of Submarine's", where=where, fix=fix) from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, OSError) as error:
        raise FlowError(f"it cannot be read: {error}", where=where, fix=fix) from None
    return Flow.from_json(data, where=f"{where}: flow.json")


def quartz(schedule: str) -> str:
    """Return a line of cron as Quartz has it, by which Azkaban schedules.

    Quartz has seconds before, names days of the week from 1 for Sunday, and wants ``?`` in one of
    the two fields of days.

    Parameters
    ----------
    schedule
        Five fields, as `model.cron_fault` lets them pass.

    Raises
    ------
    FlowError
        It names days of the month and days of the week: for cron either is enough, and Quartz
        cannot say that.
    """
    minute, hour, day, month, week = schedule.split()
    if day != "*" and week != "*":
        raise FlowError(
            f"{schedule!r:.80} names days of the month and of the week; Azkaban has either",
            where="--schedule",
            fix="write * for one of them",
        )
    week = "?" if week == "*" and day != "*" else week
    day = "?" if week != "?" else day
    if week not in ("?", "*"):
        week = ",".join(map(_day_of_week, week.split(",")))
    return f"0 {minute} {hour} {day} {month} {week}"


def _day_of_week(part: str) -> str:
    """Return one part of cron's last field with Sunday as 1; 7 is Sunday too."""
    span, slash, step = part.partition("/")
    ends = span.split("-")
    if span == "*":
        ends = ["1", "7"]
    elif all(end.isdigit() for end in ends):
        numbers = [int(end) for end in ends]
        if len(numbers) > 1 and numbers[1] == 7:  # noqa: PLR2004 - Monday to Sunday: past the end
            days = range(numbers[0], 8, int(step or 1))
            return ",".join(dict.fromkeys(str(number % 7 + 1) for number in days))
        ends = [str(number % 7 + 1) for number in numbers]
        if slash and len(ends) == 1:  # from there to the end of the week
            ends.append("7")
    else:
        ends = [end.upper() for end in ends]
    return "-".join(ends) + slash + step


def unfit(text: str) -> str:
    """Return in words why a parameter cannot have a value in Azkaban; empty where it can.

    Parameters
    ----------
    text
        The value, as ``--param`` takes it.
    """
    if _EVALUATED.search(text):
        return "it holds ${ or $(, which Azkaban evaluates"
    if '"' in text:
        return 'it holds ", where Azkaban would end the word'
    return ""


def given_text(parameter: Parameter) -> str:
    """Return the default of `parameter` as ``--param`` takes it."""
    default = parameter.default
    return default if isinstance(default, str) else repr(default)


def _config(flow: Flow, folder: Place) -> dict[str, str]:
    """Return the properties of the flow: parameters, by which Azkaban's page asks for them."""
    found = {"failure.action": "finishPossible", **SETTINGS}
    if isinstance(folder, RemotePath):
        found["submarine.folder"] = str(folder)
        if fault := unfit(str(folder)):
            raise FlowError(fault, where=str(folder), fix="name another folder: --output")
    if flow.mail:
        found["failure.emails"] = flow.mail
    for parameter in flow.parameters:
        text = given_text(parameter)
        fault, fix = unfit(text), "write its value without"
        if parameter.name in _KEPT or not parameter.name.isascii():
            fault, fix = "Azkaban replaces no such name, or has its own use for it", "rename it"
        if fault:
            raise FlowError(
                f"parameter {parameter.name} cannot go to Azkaban: {fault}",
                where=f"{flow.notebook or flow.name}, the cell tagged `parameters`",
                fix=fix,
            )
        found[parameter.name] = text
    return found


def _job(flow: Flow, node: Node) -> dict[str, str]:
    words = ["${submarine.command} flow node", '"${submarine.folder}"', node.name]
    words.append('"--run=${submarine.run}"')
    words += [f'"--param={one.name}=${{{one.name}}}"' for one in flow.parameters]
    found = {"command": " ".join(words)}
    if node.retries:
        found["retries"] = str(node.retries)
        pause = RETRY_PAUSE if node.retry_delay is None else node.retry_delay
        found["retry.backoff"] = str(round(pause * 1000))
    return found


def _yaml(flow: Flow, folder: Place) -> Iterator[str]:
    """Yield the lines of the ``.flow`` file; what is text is quoted as in JSON, which is YAML."""
    yield f"# {flow.name}, made by `submarine flow build`: change the notebook, not this file."
    yield "config:"
    yield from _yaml_config(_config(flow, folder), "  ")
    yield "nodes:"
    for node in flow.order:
        yield f"  - name: {_yaml_text(node.name)}"
        yield "    type: command"
        if node.follows:
            yield f"    dependsOn: [{', '.join(map(_yaml_text, node.follows))}]"
        if node.condition != ALL_SUCCESS:
            yield f"    condition: {node.condition}"
        yield "    config:"
        yield from _yaml_config(_job(flow, node), "      ")


def _yaml_config(config: Mapping[str, str], indent: str) -> Iterator[str]:
    for key, value in config.items():
        # A key like `no` or `y` is a truth value in YAML.
        yield f"{indent}{key if '.' in key else _yaml_text(key)}: {_yaml_text(value)}"


def _yaml_text(text: str) -> str:
    """Return a double-quoted scalar; beyond ASCII by number, which no encoding can spoil."""
    return '"' + "".join(_yaml_char(char) for char in text) + '"'


def _yaml_char(char: str) -> str:
    if char < "\x7f":
        return json.dumps(char)[1:-1]
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"  # noqa: PLR2004 - YAML's two lengths


_IN_PROPERTIES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def _properties(found: Mapping[str, str]) -> str:
    """Return a file of Java's properties: a backslash escapes, beyond ASCII by UTF-16 number."""
    return "".join(f"{key}={_property(value)}\n" for key, value in found.items())


def _property(value: str) -> str:
    units = "".join(
        _IN_PROPERTIES.get(char, char) if " " <= char < "\x7f" or char in _IN_PROPERTIES
        else "".join(f"\\u{unit}" for unit in re.findall("....", char.encode("utf-16-be").hex()))
        for char in value
    )  # fmt: skip
    return f"\\{units}" if units.startswith(" ") else units


def _last(flow: Flow) -> str:
    """Return the name of the job that Flow 1.0 names the flow after: nothing comes behind it."""
    ends = [node.name for node in flow.nodes if not flow.followers(node.name)]
    names = {node.name for node in flow.nodes}
    if ends == [flow.name]:
        return flow.name
    last = flow.name
    while last in names:
        last += "-flow"
    return last


def _pack(
    flow: Flow, folder: Place, head: Mapping[str, str], target: Path, *, refused: tuple[str, ...]
) -> Path:
    """Write the zip, with the files of `head` and the flow's own."""
    paths = FlowPaths(folder)
    packed = io.BytesIO()
    with ExitStack() as stack, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in head.items():
            _add(archive, path, text.encode())
        flow_json = json.dumps(flow.to_json(), ensure_ascii=False, indent=1) + "\n"
        _add(archive, f"{FOLDER}/{paths.flow.name}", flow_json.encode())
        bundles = sorted({node.bundle for node in flow.nodes if node.bundle})
        parts = [(paths.bundle(digest), f"{paths.bundles.name}/{digest}") for digest in bundles]
        if paths.modules.is_dir():
            parts.append((paths.modules, paths.modules.name))
        stack.callback((copies := Copies()).close)
        for place, named in parts:
            part = copies.of(place)
            for file in _files(part, str(place)):
                if file.name.endswith(refused):
                    raise FlowError(
                        f"a file of the flow is called {file.name!r:.80}, which Azkaban would"
                        " read as its own",
                        where=str(file),
                        fix="give it another name",
                    )
                inside = file.relative_to(part).as_posix()
                _add(archive, f"{FOLDER}/{named}/{inside}", file.read_bytes())
    write_aside(target, packed.getvalue())
    return target


def _files(part: Path, where: str) -> list[Path]:
    found = sorted(path for path in part.rglob("*") if path.is_symlink() or not path.is_dir())
    if not found:
        raise FlowError(
            "a part of the flow is not there",
            where=where,
            fix="build the flow anew: submarine flow build",
        )
    for path in found:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise FlowError("it is no plain file", where=str(path), fix="build the flow anew")
    return found


def _add(archive: zipfile.ZipFile, path: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(path)  # of 1980: the same flow gives the same bytes
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    archive.writestr(entry, data)
