"""What can be served: a folder in MLflow's format, or an object that one of its flavours keeps.

A model travels to its replicas as one value of their script, packed.
"""

from __future__ import annotations

import inspect
import io
import json
import logging
import os
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from submarine_engine.errors import CommandError, JobError, SubmarineError, UnsupportedError
from submarine_engine.extras import install_extra
from submarine_engine.records import open_job

MLMODEL = "MLmodel"
_WIDTH = "n_features_in"
"""In the metadata of models that are kept here: how many numbers they take."""
_MOST_COLUMNS = 1000
_EXAMPLE = "serving_input_example.json"
"""What MLflow itself keeps of an input example: the body of a request."""
_LARGEST_EXAMPLE = 64 << 10
_OF_JOB = "job:"
_FLAVOURS = {
    "sklearn": "mlflow.sklearn",
    "torch": "mlflow.pytorch",
    "keras": "mlflow.keras",
    "tensorflow": "mlflow.tensorflow",
    "xgboost": "mlflow.xgboost",
    "lightgbm": "mlflow.lightgbm",
    "catboost": "mlflow.catboost",
    "statsmodels": "mlflow.statsmodels",
}
"""MLflow's flavours, by the package that a class of the model comes from."""


def packed(folder: Path) -> bytes:
    """Return a model's files as one value; the same files give the same bytes.

    Parameters
    ----------
    folder
        In MLflow's format.

    Raises
    ------
    CommandError
        It is no such folder, or cannot be read.
    """
    _check(folder)
    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(_files(folder)):
                told = archive.gettarinfo(path, path.relative_to(folder).as_posix())
                told.mtime, told.uid, told.gid, told.uname, told.gname = 0, 0, 0, "", ""
                told.mode = 0o600
                with path.open("rb") as file:
                    archive.addfile(told, file)
    except OSError as error:
        raise CommandError(
            f"the model cannot be read: {error.strerror or error}", where=str(folder)
        ) from error
    return buffer.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Write the files of a packed model.

    Parameters
    ----------
    data
        As `packed` gave it.
    folder
        An empty one.
    """
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = (folder / member.name).resolve()
            if not member.isfile() or not path.is_relative_to(folder.resolve()):
                raise ValueError(member.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            file = archive.extractfile(member)
            path.write_bytes(file.read() if file else b"")


def _check(folder: Path) -> None:
    fix = "name the folder that MLflow has saved a model to: it has a file MLmodel"
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "is not there"
        raise CommandError(f"{folder} {what}", where="serve", fix=fix)
    try:
        text = (folder / MLMODEL).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CommandError(
            f"{folder} is no model in MLflow's format: it has no file {MLMODEL}",
            where="serve",
            fix=fix,
        ) from error
    if "python_function" not in text:
        raise CommandError(
            f"the model in {folder} has no flavour python_function, which is what is served",
            where="serve",
            fix="save it once more by one of MLflow's flavours for Python: mlflow.sklearn, …",
        )


def takes(folder: Path) -> dict[str, Any]:
    """Return what a request to a model may look like, as far as its file says.

    Parameters
    ----------
    folder
        In MLflow's format.

    Returns
    -------
    dict
        ``example``, a request that was kept with it; ``columns``, the names of what it takes, or
        ``width``, how many numbers, and ``type``, what NumPy calls these. Without those that the
        files do not say, or say in a way that nobody can read.
    """
    import yaml  # noqa: PLC0415 - comes with MLflow

    kept = _kept_example(folder)
    example = {} if kept is None else {"example": kept}
    try:
        told = yaml.safe_load((folder / MLMODEL).read_text(encoding="utf-8"))
        signature = told.get("signature")
        inputs = json.loads(signature["inputs"]) if signature else []
        columns = [str(one["name"]) for one in inputs if one.get("name")]
        if columns:
            return {"columns": columns[:_MOST_COLUMNS], **example}
        tensor = inputs[0]["tensor-spec"] if inputs else {}
        shape = tensor.get("shape")
        width = shape[-1] if shape else (told.get("metadata") or {}).get(_WIDTH, 0)
        kind = {"type": str(tensor["dtype"])} if tensor else {}
        return {**({"width": int(width), **kind} if int(width) > 0 else kind), **example}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return example


def _kept_example(folder: Path) -> dict[str, Any] | None:
    """Return the request that is kept with a model; None where there is none that is small."""
    path = folder / _EXAMPLE
    try:
        if path.stat().st_size > _LARGEST_EXAMPLE:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def flavours(folder: Path) -> dict[str, Any]:
    """Return what a model's file tells of its flavours; empty where it cannot be read.

    Parameters
    ----------
    folder
        In MLflow's format.
    """
    import yaml  # noqa: PLC0415 - comes with MLflow

    try:
        found = yaml.safe_load((folder / MLMODEL).read_text(encoding="utf-8"))["flavors"]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if path.is_file():  # what a link in it leads to travels, too
                yield path


@contextmanager
def open_model(named: str, here: Path) -> Iterator[Path]:
    """Give the folder of the model that a word names, as long as it is needed.

    Parameters
    ----------
    named
        A path, or ``job:NAME`` for a model that a job has left: among its artifacts.
    here
        Where relative paths begin.

    Raises
    ------
    CommandError
        There is none.
    JobError
        The job has left none, or more than one.
    """
    if named.startswith(_OF_JOB):
        yield _of_job(named.removeprefix(_OF_JOB))
    else:
        yield here / Path(named).expanduser()


def _of_job(name: str) -> Path:
    job = open_job(name)
    left = [one for one in job.artifacts() if one.path.name == MLMODEL]
    if len(left) != 1:
        what = f"has left {len(left)} models" if left else "has left no model in MLflow's format"
        raise JobError(
            f"it {what} among its artifacts",
            job_id=job.id,
            fix="have its code save one below $SUBMARINE_OUTPUT_PATH: "
            'mlflow.sklearn.save_model(model, os.environ["SUBMARINE_OUTPUT_PATH"] + "/model")',
        )
    return left[0].path.parent


def flavour_of(model: object) -> str:
    """Return the module of MLflow that keeps an object.

    Parameters
    ----------
    model
        What is to be served.

    Raises
    ------
    CommandError
        None does.
    """
    for kind in type(model).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in _FLAVOURS:
            return _FLAVOURS[package]
        if kind.__module__.startswith("mlflow.pyfunc"):
            return "mlflow.pyfunc"
    if callable(model) and not isinstance(model, type):
        return "mlflow.pyfunc"
    raise CommandError(
        f"{type(model).__qualname__} is no model that MLflow keeps",
        where="serve",
        fix="give a model of scikit-learn, PyTorch, Keras, XGBoost …, an mlflow.pyfunc.PythonModel,"
        " or a function of the inputs",
    )


@contextmanager
def saved(model: object) -> Iterator[Path]:
    """Give a folder with an object in MLflow's format, as long as it is needed.

    Parameters
    ----------
    model
        What is to be served.

    Raises
    ------
    CommandError
        MLflow does not keep it.
    UnsupportedError
        MLflow is not installed.
    """
    flavour = flavour_of(model)
    check_installed()
    with tempfile.TemporaryDirectory(prefix="submarine-model-") as root:
        folder = Path(root, "model")
        try:
            with _silent():
                _save(import_module(flavour), flavour, model, folder)
        except SubmarineError:
            raise
        except Exception as error:
            said = str(error).strip().partition("\n")[0][:300]
            raise CommandError(
                f"MLflow does not keep the model: {type(error).__name__}: {said}",
                where="serve",
                fix=f"save it yourself by {flavour}.save_model, and serve that folder",
            ) from error
        yield folder


@contextmanager
def _silent() -> Iterator[None]:
    """Keep to ourselves what MLflow says of how we keep the model: nobody else can heed it.

    It warns of its own types as it is imported, and of functions without type hints past every
    filter; that a function is pickled it has in its log.
    """
    log = logging.getLogger("mlflow.pyfunc")
    log.addFilter(_is_grave)
    try:
        with warnings.catch_warnings(record=True):
            yield
    finally:
        log.removeFilter(_is_grave)


def _is_grave(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _save(module: Any, flavour: str, model: object, folder: Path) -> None:  # noqa: ANN401 - MLflow's
    width = _width(model)
    # Else MLflow starts a process to guess requirements: replicas run in the job's own Python.
    how: dict[str, Any] = {"pip_requirements": []}
    if width is not None:
        how["metadata"] = {_WIDTH: width}
    if flavour == "mlflow.pyfunc":
        module.save_model(str(folder), python_model=model, **how)
        return
    if flavour == "mlflow.sklearn":  # its usual one since 3.17 needs a package more
        how["serialization_format"] = "cloudpickle"
    known = inspect.signature(module.save_model).parameters
    if flavour == "mlflow.pytorch" and "serialization_format" in known:
        how["serialization_format"] = "pickle"  # its usual one since 3.12 needs an example
    module.save_model(model, str(folder), **how)


def _width(model: Any) -> int | None:  # noqa: ANN401 - of whatever framework
    """Return how many numbers a model takes a row, as it says itself; None where it does not."""
    asks: tuple[Callable[[], Any], ...] = (
        lambda: model.n_features_in_,  # scikit-learn, and its kin
        lambda: model.num_features(),  # noqa: PLW0108 - XGBoost's Booster; others have none
        lambda: model.input_shape[1] if len(model.input_shape) == 2 else None,  # Keras  # noqa: PLR2004 - rows of numbers
        lambda: model[0].in_features,  # torch.nn.Sequential
    )
    for ask in asks:
        with suppress(Exception):  # it has no such thing, or is not ready to tell
            found = ask()
            if isinstance(found, int) and found > 0:
                return found
    return None


def check_installed() -> None:
    """Refuse where what serves is missing in this Python.

    Raises
    ------
    UnsupportedError
        It is.
    """
    try:
        for name in ("mlflow", "pandas", "tornado"):
            import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"models cannot be served here: {error}", where="serve", fix=install_extra("serve")
        ) from error
