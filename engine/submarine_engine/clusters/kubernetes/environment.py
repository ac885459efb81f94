"""The Python of a job's pods: the image's, or a packed one that is sent to them, layer by layer."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime.pod import ENVIRONMENT, ROOT

from submarine_engine.amounts import shortened
from submarine_engine.amounts import size as amount
from submarine_engine.clusters.environment import environment_kind
from submarine_engine.clusters.kubernetes.files import FULL_FIX, PodFiles
from submarine_engine.clusters.layers import digest_of, plan_layers
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.history import make_private

if TYPE_CHECKING:
    from submarine_engine.clusters.kubernetes.client import Kubernetes
    from submarine_engine.clusters.layers import Layer

OPTION = "--environment"

_KINDS = "same, pack, an archive of this machine (.tar.gz) or /path/to/bin/python3 in the image"
_OF_TAR = (".tar.gz", ".tgz", ".tar")
_OLDEST = (3, 10)  # what our own programs in a pod need, whatever Python the job has
_AT_ONCE = 4  # pods that are sent to at a time
_SAYS_EVERY = 2.0  # seconds
_LOOKS_EVERY = 0.2  # seconds between two looks whether a layer is unpacked
_AGAIN_FIRST, _AGAIN_LAST = 1.0, 15.0  # seconds until it goes on after a connection broke
_UNUSED = 30 * 86400.0  # seconds after which an archive is removed from this machine
_UNFINISHED = 86400.0
_TRIES = 3  # how often a layer is sent to one pod without a connection that broke


def check_environment(wanted: str | None) -> None:
    """Refuse what names no environment of a job on Kubernetes.

    Parameters
    ----------
    wanted
        What ``--environment`` says; None for the image's own.

    Raises
    ------
    SubmissionError
        It is none.
    """
    if environment_kind(wanted or "same", _KINDS, "the image") != "archive":
        return
    file = Path(str(wanted)).expanduser()
    if "://" in str(wanted) or not str(wanted).lower().endswith(_OF_TAR):
        raise SubmissionError(
            f"{wanted} cannot be brought to pods",
            where=OPTION,
            fix="name a .tar.gz of this machine, as venv-pack makes it, or write pack",
        )
    if not file.is_file():
        raise SubmissionError(
            "there is no such archive", where=str(file), fix="check the path, or make it"
        )


def prepare_environment(
    wanted: str | None, cache: Path, tell: Callable[[str], object]
) -> dict[str, Any]:
    """Make ready what is sent to pods; return what the keeper has to know of it.

    Parameters
    ----------
    wanted
        As `check_environment` has it, checked.
    cache
        A folder of this machine where archives are kept, named by what they are made of.
    tell
        Called with a sentence where a step takes long.

    Returns
    -------
    dict
        ``python`` where the image's interpreter is named; ``task_python`` and ``layers`` for a
        packed environment; and ``notes`` for people.

    Raises
    ------
    SubmissionError
        It cannot be packed.
    """
    kind = environment_kind(wanted or "same", _KINDS, "the image")
    try:
        if kind == "pack":
            make_private(cache)
            _clean(cache)
            plan = plan_layers()
            return {
                "task_python": f"{ROOT}/{ENVIRONMENT}/{plan.python}",
                "layers": [_made(layer, cache, tell) for layer in plan.layers],
                "machine": platform.machine(),
                "notes": list(plan.notes),
            }
        if kind == "archive":
            file = Path(str(wanted)).expanduser().absolute()
            sha256 = digest_of(file)
            return {
                "task_python": f"{ROOT}/{ENVIRONMENT}/{ENVIRONMENT}/bin/python",
                "layers": [_layer(ENVIRONMENT, file.name, sha256, file)],
            }
    except OSError as error:
        raise SubmissionError(
            f"the environment cannot be packed: {error.strerror or error}",
            where=str(getattr(error, "filename", None) or cache),
            fix="see whether its disk is full; the packages of a broken environment: pip check",
        ) from error
    return {"python": wanted} if kind == "python" else {}


def _made(layer: Layer, cache: Path, tell: Callable[[str], object]) -> dict[str, Any]:
    """Return a layer whose archive is in the cache, as the keeper knows it."""
    found = next(iter(sorted(cache.glob(f"{layer.key}-*.tar.gz"))), None)
    if found is None:
        tell(f"packing {layer.title} ({amount(layer.size)}), once")
        made = layer.write(cache)
        found = cache / f"{layer.key}-{digest_of(made)}.tar.gz"
        made.rename(found)
    os.utime(found)
    sha256 = found.name.removesuffix(".tar.gz").rpartition("-")[2]
    return _layer(layer.folder, layer.title, layer.key, found, sha256)


def _layer(
    folder: str, title: str, key: str, archive: Path, sha256: str | None = None
) -> dict[str, Any]:
    told = {"folder": folder, "title": title, "key": key, "sha256": sha256 or key}
    return {**told, "file": str(archive), "size": archive.stat().st_size}


def _clean(cache: Path) -> None:
    """Remove archives that nobody has used for long, and what was left half written."""
    for path in cache.iterdir():
        limit = _UNFINISHED if path.name.startswith("submarine-") else _UNUSED
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > limit:
                path.unlink()


def refuse_other_python(launch: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """Refuse an image whose Python cannot do what it is wanted for.

    Parameters
    ----------
    launch
        What `KubernetesBackend.prepare` returned.
    told
        What a pod has said of itself, see `PodFiles.hello`.

    Raises
    ------
    SubmissionError
        It cannot.
    """
    here, there = str(launch["here"]), str(told.get("python"))[:50]
    image = str(launch["image"])
    if not launch.get("layers"):
        if here.split(".")[:2] != there.split(".")[:2]:
            raise SubmissionError(
                f"the image has Python {there}, and this is {here}: values could not be read there",
                where=image,
                fix="send this environment's own: --environment pack; or name an image of this"
                " Python by --docker_image or kubernetes_image, or another interpreter in it by"
                " kubernetes_python",
            )
        return
    if tuple(int(part) for part in there.split(".")[:2] if part.isdigit()) < _OLDEST:
        raise SubmissionError(
            f"the image has Python {there}: what receives the environment needs 3.10 or newer",
            where=image,
            fix="name another image by --docker_image or kubernetes_image; of which release its"
            " Python is, does not matter otherwise",
        )
    machine, wanted = str(told.get("machine"))[:50], launch.get("machine")
    if wanted and machine != wanted:
        raise SubmissionError(
            f"the packed environment is for {wanted}, and the pod's node is {machine}",
            where=image,
            fix=f"choose nodes by --node_selector kubernetes.io/arch={_ARCHITECTURES[wanted]}"
            if wanted in _ARCHITECTURES
            else "choose nodes of this machine's kind by --node_selector",
        )


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class EnvironmentSender:
    """Brings a packed environment to the pods of an attempt, in threads of its own.

    What is on a volume already is not sent. A connection that breaks is made anew, and a layer goes
    on where it stood.

    Parameters
    ----------
    api
        The cluster.
    launch
        What `KubernetesBackend.prepare` returned.
    volumes
        Where pods have volumes that may keep it.
    """

    def __init__(self, api: Kubernetes, launch: Mapping[str, Any], volumes: Sequence[str]) -> None:
        self._api, self._launch, self._volumes = api, launch, list(volumes)
        # On a volume the others find what the first has brought.
        self._slots = threading.Semaphore(1 if volumes else _AT_ONCE)
        self._rest_may = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._begun: set[str] = set()
        self._there: set[str] = set()
        self._refused: SubmissionError | None = None
        self._words: dict[str, str] = {}
        self._said_at = 0.0
        self._said = ""
        self.note = ""
        """Why no volume keeps the environment, where there are some; for people."""

    def begin(self, task: str, pod: str) -> None:
        """Begin with the pod of a task; nothing where it was begun before."""
        if task not in self._begun:
            self._begun.add(task)
            name = f"environment of {pod}"
            threading.Thread(target=self._run, args=(task, pod), name=name, daemon=True).start()

    def has(self, task: str) -> bool:
        """Return whether a task's pod has its environment.

        Raises
        ------
        SubmissionError
            It cannot have it.
        """
        with self._lock:
            if self._refused is not None:
                raise self._refused
            return task in self._there

    @property
    def began(self) -> Collection[str]:
        """The tasks that were begun with."""
        return self._begun

    @property
    def words(self) -> str:
        """How far it is, in words that change every two seconds; empty where nothing goes."""
        with self._lock:
            now = "; ".join(self._words[task] for task in sorted(self._words)[:2])
            if len(self._words) > 2:  # noqa: PLR2004 - a line has room for two
                now += f"; and to {len(self._words) - 2} more"
            if not now or not self._said or time.monotonic() - self._said_at > _SAYS_EVERY:
                self._said, self._said_at = now, time.monotonic()
            return self._said

    def close(self) -> None:
        """Stop sending; what has come stays in the pods."""
        self._stop.set()

    def _run(self, task: str, pod: str) -> None:
        with self._slots:
            files = PodFiles(self._api, pod, task, str(self._launch["python"]))
            refused = None
            try:
                self._see_through(task, files)
            except SubmissionError as error:
                refused = error
            except OSError as error:
                refused = SubmissionError(
                    f"the packed environment cannot be read: {error.strerror or error}",
                    where=str(error.filename or "the packed environment"),
                    fix="submit the job again: it is packed anew",
                )
            finally:
                files.close()
            with self._lock:
                self._refused = self._refused or refused
                self._words.pop(task, None)
        if self._volumes and not self._rest_may.is_set():
            self._rest_may.set()
            self._slots.release(_AT_ONCE - 1)

    def _see_through(self, task: str, files: PodFiles) -> None:
        """Bring a pod its environment, however often the connection breaks."""
        pause = _AGAIN_FIRST
        while not self._stop.is_set():
            before = self._words.get(task, "")
            try:
                self._bring(task, files)
            except ClusterError as error:
                went_on = self._words.get(task, "") != before
                pause = _AGAIN_FIRST if went_on else min(2 * pause, _AGAIN_LAST)
                self._say(task, f"its environment goes on to {task} soon: {error.what}")
                self._stop.wait(pause)
            else:
                with self._lock:
                    self._there.add(task)
                return

    def _bring(self, task: str, files: PodFiles) -> None:
        """Bring all layers to a pod; ClusterError where the connection breaks."""
        chosen = files.choose(self._volumes)
        if self._volumes and not chosen.get("kept"):
            self.note = shortened(str(chosen.get("why")), 200)
        layers = self._launch["layers"]
        total, done = sum(layer["size"] for layer in layers), 0
        for layer in layers:

            def tell(gone: int, done: int = done) -> None:
                gone += done
                text = f"its environment goes to {task}: {amount(gone)} of {amount(total)}"
                self._say(task, text)

            self._bring_layer(task, files, layer, tell)
            done += layer["size"]
        self._check(files)

    def _bring_layer(
        self, task: str, files: PodFiles, layer: Mapping[str, Any], tell: Callable[[int], object]
    ) -> None:
        which = {name: str(layer[name]) for name in ("folder", "key", "sha256")}
        tries = 0
        while not self._stop.is_set():
            told = files.look(which)
            if told.get("there"):
                return
            if failed := str(told.get("failed") or "")[:200]:
                raise SubmissionError(
                    f"the environment cannot be unpacked in the pod: {failed}",
                    where=str(layer["title"]),
                    fix=FULL_FIX,
                )
            have = told.get("have")
            at = have if isinstance(have, int) and 0 <= have <= layer["size"] else 0
            if at == layer["size"]:
                if not told.get("works"):
                    files.unpack(which)
                self._say(task, f"its environment is unpacked for {task}: {layer['title']}")
                self._stop.wait(_LOOKS_EVERY)
                continue
            tries += 1
            if tries > _TRIES:
                raise SubmissionError(
                    f"what came of the environment is not what was sent, {_TRIES} times",
                    where=str(layer["title"]),
                    fix="see whether the node's disk is broken, and submit the job again",
                )
            self._send(files, layer, at, tell)

    def _send(
        self, files: PodFiles, layer: Mapping[str, Any], at: int, tell: Callable[[int], object]
    ) -> None:
        gone = at

        def went(count: int) -> None:
            nonlocal gone
            gone += count
            if self._stop.is_set():
                raise ClusterError("it is wanted no more")
            tell(gone)

        with Path(layer["file"]).open("rb") as archive:
            files.send(archive, str(layer["sha256"]), at, went)

    def _check(self, files: PodFiles) -> None:
        """Refuse an environment that does not run in the image.

        Raises
        ------
        SubmissionError
            It does not.
        ClusterError
            That is not known yet.
        """
        python = str(self._launch["task_python"])
        told = files.check(python)
        there, said = str(told.get("python"))[:50], shortened(str(told.get("said")), 300)
        here = str(self._launch["here"])
        if there.split(".")[:2] == here.split(".")[:2]:
            return
        if not there and not said:
            raise ClusterError("its Python takes long to begin", where=python)
        what = f"is Python {there}, and this is {here}" if there else f"does not run there: {said}"
        raise SubmissionError(
            f"the environment that was sent {what}",
            where=str(self._launch["image"]),
            fix="pack it on a machine whose system is no newer than the image's, or name a newer"
            " image by --docker_image or kubernetes_image; it needs bash in it",
        )

    def _say(self, task: str, words: str) -> None:
        with self._lock:
            self._words[task] = words


__all__ = [
    "EnvironmentSender", "check_environment", "prepare_environment", "refuse_other_python",
]  # fmt: skip
