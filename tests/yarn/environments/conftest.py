"""A site-packages folder of the test's own, filled as installers fill one."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
from submarine_engine.clusters import layers


def install(site: Path, name: str, version: str = "1.0", needs=(), **options):
    """Write files and a ``RECORD`` of them, as wheels are installed.

    `options`: ``files``, text by path; ``scripts``, text by name; ``editable``, the project's path.
    """
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    for old in site.glob(f"{name.replace('-', '_')}-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    metadata = f"Name: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    content = {f"{info}/METADATA": f"{metadata}\nRequires-Dist: nonsense"}
    content.update(options.get("files", {}))
    scripts = options.get("scripts", {})
    content.update({f"../../../bin/{script}": text for script, text in scripts.items()})
    if "editable" in options:
        told = {"url": f"file://{options['editable']}", "dir_info": {"editable": True}}
        content[f"{info}/direct_url.json"] = json.dumps(told)
    rows = []
    for path, text in content.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode() if isinstance(text, str) else text
        file.write_bytes(data)
        file.chmod(0o755 if path.startswith("../") else 0o644)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    (site / info / "RECORD").write_text("".join([*rows, f"{info}/RECORD,,\n"]))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a folder that stands for this environment's site-packages."""
    folder = tmp_path / "venv" / "lib" / "python3" / "site-packages"
    folder.mkdir(parents=True)
    monkeypatch.setattr(layers, "sites", lambda: [folder])
    return folder
