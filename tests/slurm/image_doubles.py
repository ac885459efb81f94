"""What sites run images by, as doubles: apptainer's `exec`, and the options that pyxis gives srun.

Both run the command in a root of its own, which has the system's folders, the interpreter that is
the image's, and the folders that it is shown, nothing else: as a container's would be.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

PYTHON = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
"""The interpreter in the image."""

OF_THE_IMAGE = ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/dev", sys.base_prefix)

APPTAINER = """\
#!{python}
import os, sys
words = sys.argv[1:]
if words.pop(0) != "exec":
    sys.exit("apptainer: unknown command")
shown, drivers = [], ""
while words[0].startswith("-"):
    flag = words.pop(0)
    if flag == "--nv":
        drivers = "shown"
    elif flag == "--bind":
        shown = words.pop(0).split(",")
    else:
        sys.exit(f"apptainer: unknown flag {{flag}}")
image = words.pop(0)
path = "/usr/sbin:/usr/bin:/sbin:/bin"
os.environ.update(DOUBLE_OF_IMAGE=image, DOUBLE_OF_DRIVERS=drivers, PATH=path)
here = os.path.dirname(os.path.abspath(__file__))
text = '''
root=$1; number=$2; shift 2
mount -t tmpfs submarine-test "$root" || exit 255
while [ "$number" -gt 0 ]; do
    if [ -d "$1" ]; then mkdir -p "$root$1" && mount --rbind "$1" "$root$1" || exit 255; fi
    number=$((number - 1)); shift
done
exec chroot "$root" "$@"
'''
folders = [*{of_the_image!r}, *shown]
told = [here + "/root", str(len(folders)), *folders, *words]
os.execvp("unshare", ["unshare", "--mount", "sh", "-c", text, "sh", *told])
"""

SRUN = """\
#!{python}
import os, subprocess, sys
words = sys.argv[1:]
if words == ["--help"]:
    subprocess.run([{srun!r}, "--help"], check=True)
    print("      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH")
    sys.exit()
told = dict(one.split("=", 1) for one in words if one.startswith("--container-"))
if told:
    words = [one for one in words if not one.startswith("--container-")]
    first = next(number for number, one in enumerate(words) if not one.startswith("-"))
    pairs = [one.split(":")[:2] for one in told["--container-mounts"].split(",")]
    assert all(outside == inside for outside, inside in pairs), pairs
    shown = ",".join(outside for outside, _ in pairs)
    begin = [{apptainer!r}, "exec", "--bind", shown, told["--container-image"]]
    words = [*words[:first], *begin, *words[first:]]
os.execv({srun!r}, ["srun", *words])
"""


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def apptainer_double(folder: Path, name: str = "apptainer") -> Path:
    """Make a double of apptainer in a folder that is first in PATH from now on; return it."""
    (folder / "root").mkdir(exist_ok=True)
    text = APPTAINER.format(python=sys.executable, of_the_image=OF_THE_IMAGE)
    # The fixture `programs` takes it back.
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return _write(folder / name, text)


def pyxis_double(folder: Path) -> Path:
    """Make a double of an srun that has pyxis, likewise."""
    runner = apptainer_double(folder, "double-of-enroot")
    text = SRUN.format(python=sys.executable, srun=shutil.which("srun"), apptainer=str(runner))
    return _write(folder / "srun", text)


def may_mount() -> bool:
    """Return whether a process here can have a root of its own."""
    words = ["unshare", "--mount", "mount", "-t", "tmpfs", "submarine-test", "/mnt"]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0
