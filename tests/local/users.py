"""Real other users of this machine, who share its GPUs: made by root, and removed afterwards."""

from __future__ import annotations

import grp
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from submarine_engine.clusters.local import shared

from tests.jobs import until

AGENT = Path(__file__).with_name("agent.py")
ROOT = Path(__file__).parents[2]
WAIT = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"
PRELUDE = """
import io, json, os, sys, time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.job import JobSpec, Resources, Role
def submit(script, gpus=1, **options):
    files = {"script.py": script.encode()}
    bundle = Bundle(files=files, manifest=Manifest(entry="script.py", python="3.11"))
    spec = JobSpec(roles=(Role(resources=Resources(gpus=gpus)),), **options)
    return cluster.submit(spec, bundle, workdir=Path("/"))
def command(words, folder):
    from submarine_engine.cli import main
    from submarine_engine.clusters import machine
    machine._people = None
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    former = os.environ["SUBMARINE_MACHINE_FOLDER"]
    os.environ["SUBMARINE_MACHINE_FOLDER"] = folder
    try:
        with redirect_stdout(out), redirect_stderr(out):
            code = main(words)
    finally:
        os.environ["SUBMARINE_MACHINE_FOLDER"] = former
    out.flush()
    return code, out.buffer.getvalue().decode()
cluster = LocalCluster()
"""


@cache
def python():
    """Return a Python that every user may run: this one where that can be, else the system's."""
    for program in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):
            told = subprocess.run(
                [program, "-c", "import sys; print(sys.version_info >= (3, 10))"],
                user=65534,
                group=65534,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
            )
            if told.stdout.strip() == "True":
                return program
    return None


def environment_for_all(folder):
    """Return the Python of an environment that every user may run; it has what this one has."""
    subprocess.run([python(), "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "here.pth").write_text("\n".join(here()) + "\n")
    return str(folder / "bin/python")


def here():
    """Return where this process's packages are."""
    paths = [str(ROOT), *(entry for entry in sys.path if entry)]
    return [path for path in paths if not path.startswith(sys.base_prefix)]


class User:
    """Somebody else, and a process of theirs that does what it is told."""

    def __init__(self, place, name, ids, *, groups=(), gpus=4):
        (self.uid, self.gid), self.name, self.groups = ids, name, list(groups)
        self.home = place.folder / name
        self.home.mkdir(mode=0o700)
        os.chown(self.home, *ids)
        self.place, self.gpus = place, gpus
        self._agent = None

    @property
    def environment(self):
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "SUBMARINE_LOCAL_GPUS": str(self.gpus),
            "SUBMARINE_GRACE": "5",
            shared.VARIABLE: str(self.place.machine),
            "PYTHONPATH": os.pathsep.join(here()),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def popen(self, *command, **options):
        return subprocess.Popen(
            command,
            user=self.uid,
            group=self.gid,
            extra_groups=self.groups,
            env={**self.environment, **options.pop("environment", {})},
            cwd=self.home,
            text=True,
            start_new_session=True,
            **options,
        )

    def program(self, *words):
        """Run the `submarine` program; return its exit status, and all that it wrote."""
        process = self.popen(
            python(), "-m", "submarine_engine.cli", *words,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        out, _ = process.communicate()
        return process.returncode, out

    def command(self, *words, machine=None):
        """Likewise in the process that is there, which takes no second to begin.

        Parameters
        ----------
        machine
            Another folder than that of the machine's users.
        """
        folder = str(machine or self.place.machine)
        return self.do(f"result = command({list(words)!r}, {folder!r})")

    def log(self, job_id):
        """Return what a job has printed, as root reads it."""
        jobs = self.home / ".local/share/submarine/jobs"
        return (jobs / job_id / "tasks/worker-0/stdout").read_text()

    def told(self, code):
        """Run code as this user; return all that came of it."""
        if self._agent is None:
            pipe = subprocess.PIPE
            self._agent = self.popen(python(), str(AGENT), stdin=pipe, stdout=pipe)
            self.do(PRELUDE)
        self._agent.stdin.write(json.dumps(code) + "\n")
        self._agent.stdin.flush()
        return json.loads(self._agent.stdout.readline())

    def do(self, code):
        told = self.told(code)
        assert "error" not in told, told
        return told["result"]

    def submit(self, script, gpus=1, **options):
        return self.do(f"result = submit({script!r}, {gpus}, **{options!r})")

    def status(self, job_id):
        code = "s = cluster.status({!r}); result = [s.state.value, s.reason, s.waiting_reason]"
        return self.do(code.format(job_id))

    def until(self, job_id, *states):
        until(lambda: self.status(job_id)[0] in states)
        return self.status(job_id)

    def until_waits(self, job_id, words):
        """Wait until a job says that it waits for that."""
        until(lambda: self.status(job_id)[2] == words)

    def leave(self):
        """End all that runs as this user, who is nobody but the test's."""
        if self._agent is not None:
            self._agent.stdin.close()
            self._agent.wait()
            self._agent.stdout.close()
        until(self._is_gone)

    def _is_gone(self):
        left = [int(entry.name) for entry in Path("/proc").iterdir() if self._has(entry)]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    def _has(self, entry):
        with suppress(OSError, IndexError):
            if entry.name.isdecimal() and entry.stat().st_uid == self.uid:
                return (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False


class Place:
    """A machine that users share: its folder, its group, its users."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="shared-"))
        self.folder.chmod(0o755)
        self.machine = self.folder / "machine"
        # No process's id: the same one may be another container's, or a run's that was killed.
        self._own = secrets.token_hex(4)
        self.group = f"gpus{self._own}"
        self._names, self._users = [], []

    def begin(self):
        subprocess.run(["groupadd", self.group], check=True)
        shared.setup(self.group, self.machine)
        return self

    @property
    def gid(self):
        return grp.getgrnam(self.group).gr_gid

    def user(self, name, *, member=True, gpus=4):
        """Make a user of the machine."""
        full = f"{name}{self._own}"
        subprocess.run(
            ["useradd", "-M", "-N", "-g", "nogroup", "-d", str(self.folder / full), full],
            check=True,
        )
        self._names.append(full)
        if member:
            subprocess.run(["usermod", "-aG", self.group, full], check=True)
        seen = pwd.getpwnam(full)
        groups = [self.gid] if member else []
        user = User(self, full, (seen.pw_uid, seen.pw_gid), groups=groups, gpus=gpus)
        self._users.append(user)
        return user

    def number(self, uid, *, gpus=4):
        """Make a member who is nothing but a number."""
        user = User(self, f"user {uid}", (uid, self.gid), groups=[self.gid], gpus=gpus)
        self._users.append(user)
        return user

    def policy(self, text):
        (self.machine / "policy.toml").write_text(text)

    def end(self):
        for user in self._users:
            user.leave()
        for name in self._names:
            subprocess.run(["userdel", name], check=True)
        subprocess.run(["groupdel", self.group], check=True)
        shutil.rmtree(self.folder)


def needs_root():
    """Skip where no users can be made, or none of them can run a Python."""
    if os.geteuid() != 0:
        pytest.skip("only root can make users")
    if python() is None:
        pytest.skip("no Python here can be run by another user")


def waiting(gate):
    """Return the script of a job that goes on until `gate` is there."""
    return WAIT.format(str(gate))
