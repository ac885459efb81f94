"""The flow that a notebook or a folder has now, built or not, for who shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from submarine_engine.errors import FlowError, SubmarineError
from submarine_engine.flows.build import build_flow, options_of
from submarine_engine.flows.folder import Place, RemotePath
from submarine_engine.flows.model import Flow
from submarine_engine.flows.notebook import read_notebook
from submarine_engine.flows.runner import newest_status

_SUFFIX = ".flow"
_FILE = "flow.json"
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentFlow:
    """A flow, and how it stands to its notebook.

    Parameters
    ----------
    flow
        What it is.
    folder
        Where it is, or would be.
    notebook
        Its notebook; None where that is not there any more.
    built
        Whether it is in `folder`.
    changed
        Whether the notebook's cells are others by now.
    """

    flow: Flow
    folder: Place
    notebook: Path | None
    built: bool
    changed: bool = False


def current_flow(path: Place) -> CurrentFlow:
    """Return the flow of a notebook, of its own folder, or of the folder that it lies in.

    Parameters
    ----------
    path
        A notebook: ``train.ipynb`` (its flow is ``train.flow`` beside it, else what would be built
        of it now); a flow's folder; or a folder that holds one flow's.

    Raises
    ------
    FlowError
        There is none there, several, or it cannot be read.
    SubmarineError
        The notebook cannot become a flow, as `build_flow` says.
    """
    if isinstance(path, RemotePath):  # its notebook is elsewhere
        return CurrentFlow(flow=Flow.read(path), folder=path, notebook=None, built=True)
    if path.suffix == ".ipynb":
        folder = path.with_suffix(_SUFFIX)
        if not (folder / _FILE).is_file():
            return CurrentFlow(
                flow=build_flow(path, None), folder=folder, notebook=path, built=False
            )
        return _built(folder, path if path.is_file() else None)
    folder = path if (path / _FILE).is_file() else _only_one(path)
    flow = Flow.read(folder)
    for place in (Path(flow.workdir), folder.parent):
        if flow.notebook and (place / flow.notebook).is_file():
            return _built(folder, place / flow.notebook)
    return _built(folder, None)


def _only_one(path: Path) -> Path:
    found = sorted(one.parent for one in path.glob(f"*{_SUFFIX}/{_FILE}"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise FlowError(
            "there is no flow in this folder",
            where=str(path),
            fix="make one of a notebook: submarine flow build train.ipynb",
        )
    listed = ", ".join(one.name for one in found[:_NAMED])
    raise FlowError(
        f"this folder has {len(found)} flows", where=str(path), fix=f"name one of them: {listed}"
    )


def _built(folder: Path, notebook: Path | None) -> CurrentFlow:
    flow, changed = Flow.read(folder), False
    if notebook is not None:
        try:
            now = [one.cell.raw for one in read_notebook(notebook).cells]
            changed = now != [cell.raw for cell in flow.cells]
        except SubmarineError:  # what is wrong with it is said by who builds it
            changed = True
    return CurrentFlow(flow=flow, folder=folder, notebook=notebook, built=True, changed=changed)


def build_again(path: Place) -> CurrentFlow:
    """Build the flow of a notebook: for the first time, or as it was built before.

    Parameters
    ----------
    path
        As of `current_flow`.

    Raises
    ------
    FlowError
        Its notebook is not there, or a run of it goes on, whose nodes would be others then.
    SubmarineError
        The notebook cannot become a flow, as `build_flow` says.
    """
    found = current_flow(path)
    if found.notebook is None:
        raise FlowError(
            "its notebook is not there any more",
            where=str(Path(found.flow.workdir) / found.flow.notebook),
            fix="submarine flow open makes a notebook of the flow",
        )
    if found.built:
        newest = newest_status(found.folder)
        if newest is not None and newest.driven and not newest.over:
            raise FlowError(
                f"run {newest.run} goes on, and would find other nodes",
                where=str(found.folder),
                fix="wait for its end, or cancel it; then build the flow again",
            )
        build_flow(found.notebook, found.folder, options_of(found.flow))
    else:
        build_flow(found.notebook, found.folder)
    return current_flow(found.folder)
