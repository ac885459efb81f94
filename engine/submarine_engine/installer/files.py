"""Writing what a cluster's daemons and its users read; removing all of it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from submarine_engine.history import write_aside
from submarine_engine.installer import sites
from submarine_engine.installer.gpus import to_xml
from submarine_engine.installer.layout import Layout
from submarine_engine.installer.plan import Plan
from submarine_engine.installer.programs import programs


def write_files(plan: Plan, layout: Layout) -> None:
    """Write the plan first, then configuration and programs; what was half written is whole then.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    _make(layout.root)
    write_aside(layout.plan, plan.to_json().encode())
    for folder in layout.folders():
        _make(folder)
    for name, properties in sites.shared_sites(plan, layout).items():
        _write(layout.conf / name, sites.to_xml(properties))
    _write(layout.conf / "log4j.properties", sites.LOG4J)
    for number in range(plan.nodes):
        folder = layout.node_conf(number)
        _make(folder)
        _make(layout.node_data(number))
        _make(layout.gpu_program(number).parent)
        _write(layout.node_gpus(number), to_xml(plan.cards_of(number)))
        _write(folder / "yarn-site.xml", sites.to_xml(sites.node_site(plan, layout, number)))
    for path, text in programs(plan, layout).items():
        _write(path, text)
        path.chmod(0o700)


def remove_files(layout: Layout) -> None:
    """Remove everything of a cluster but its lock, whatever a job has made of its folders' modes.

    Raises
    ------
    OSError
        Something cannot be removed.
    """
    with suppress(FileNotFoundError):
        for folder, names, _ in os.walk(layout.root):
            for name in names:
                path = Path(folder, name)
                if not path.is_symlink() and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
                    path.chmod(0o700)
        shutil.rmtree(layout.root)


def _make(folder: Path) -> None:
    """Make a folder and those above it for the owner alone."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def _write(path: Path, text: str) -> None:
    write_aside(path, text.encode())
