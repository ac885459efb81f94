"""One machine, several users: whose turn it is, who has what, and what the owner allows."""

from __future__ import annotations

import json
import os

import pytest
from submarine_engine.cli import main
from submarine_engine.clusters.local.policy import Policy
from submarine_engine.clusters.local.shared import setup
from submarine_engine.errors import ConfigError

from tests.jobs import until

from .users import waiting

pytestmark = pytest.mark.service  # it makes users


def test_what_one_user_holds_another_is_not_given(alice, bob, gate):
    held = alice.submit(waiting(gate), 3)
    alice.until(held, "running")
    one = bob.submit("import os; print(os.environ['CUDA_VISIBLE_DEVICES'])\n", 1)
    bob.until(one, "succeeded")
    assert bob.log(one) == "3\n"
    two = bob.submit("", 2)
    bob.until_waits(two, f"3 of 4 GPUs are {alice.name}'s; you are next")
    code, text = bob.program("gpus")
    assert code == 0
    assert text.count(alice.name) == 3
    assert held not in text
    gate.touch()
    bob.until(two, "succeeded")
    alice.until(held, "succeeded")


def test_users_take_turns(alice, bob, gate):
    held = alice.submit(waiting(gate), 4)
    alice.until(held, "running")
    stamp = "import time; print(time.time())\n"
    theirs = [(alice, alice.submit(stamp, 4)) for _ in range(3)]
    theirs += [(bob, bob.submit(stamp, 4)) for _ in range(3)]
    until(lambda: "you are next" in bob.status(theirs[3][1])[2])
    until(lambda: alice.status(theirs[0][1])[2].endswith(f"{bob.name} is before you"))
    gate.touch()
    began = []
    for user, job in theirs:
        user.until(job, "succeeded")
        began.append((float(user.log(job)), user.name))
    names = [name for _, name in sorted(began)]
    assert names[:2] == [bob.name, alice.name]
    assert {names[2], names[3]} == {bob.name, alice.name}


@pytest.mark.parametrize("number", ["SIGSTOP", pytest.param("SIGKILL", marks=pytest.mark.long)])
def test_who_does_not_take_a_turn_keeps_nobody(alice, bob, gate, number):
    held = alice.submit(waiting(gate), 4)
    alice.until(held, "running")
    first = bob.submit("", 2)
    until(lambda: bob.status(first)[2].endswith("you are next"))
    keeper = bob.do(
        "import subprocess\n"
        "told = subprocess.run(['pgrep', '-u', str(os.getuid()), '-f', 'scheduler import main'],"
        " capture_output=True, text=True).stdout.split()\n"
        "result = [int(pid) for pid in told]"
    )
    second = alice.submit("", 2)
    until(lambda: alice.status(second)[2].endswith(f"{bob.name} is before you"))
    for pid in keeper:
        bob.do(  # one of a test before may be about to end
            f"import signal\ntry: os.kill({pid}, signal.{number})\nexcept ProcessLookupError: pass"
        )
    gate.touch()
    alice.until(second, "succeeded")
    for pid in keeper if number == "SIGSTOP" else ():
        bob.do(f"try: os.kill({pid}, signal.SIGCONT)\nexcept ProcessLookupError: pass")
    bob.until(first, "succeeded")


@pytest.fixture
def root(place, monkeypatch, capsys):
    """Give the `submarine` program as root has it: its exit status, and what it wrote."""
    monkeypatch.setenv("SUBMARINE_MACHINE_FOLDER", str(place.machine))

    def program(*words):
        code = main(words)
        return code, "".join(capsys.readouterr())

    return program


def test_an_owner_sees_all_and_ends_what_he_must(alice, bob, gate, root):
    job = alice.submit(waiting(gate), 4, name="long")
    alice.until(job, "running")
    later = bob.submit("", 1)
    until(lambda: bob.status(later)[2].endswith("you are next"))
    waits = f"{bob.name} waits with 1 job, the first for 1 GPU"
    until(lambda: waits in root("machine", "list")[1])
    told = root("machine", "list")[1]
    assert told.count(job) == 4
    assert told.count(alice.name) == 4
    assert job not in bob.command("machine", "list")[1]
    assert bob.command("machine", "end", alice.name, job, "--reason", "mine")[0] != 0
    code, told = root("machine", "end", alice.name, job)
    assert code != 0
    assert "told why" in told
    assert root("machine", "end", alice.name, "long", "--reason", "the class begins")[0] == 0
    reason = alice.until(job, "cancelled")[1]
    assert reason == "ended by the owner of this machine: the class begins"
    bob.until(later, "succeeded")
    last = bob.submit(waiting(gate), 1)
    bob.until(last, "running")
    blocked = bob.submit("", 4)
    assert root("machine", "end", bob.name, blocked, "--reason", "not today")[0] == 0
    assert bob.until(blocked, "cancelled")[1].endswith("machine: not today")
    code, told = root("machine", "usage", "--json")
    assert {json.loads(line)["of"] for line in told.splitlines()} == {alice.name, bob.name}
    assert root("machine", "end", alice.name, later, "--reason", "not hers")[0] != 0
    assert root("machine", "end", "nobody-of-here", later, "--reason", "x")[0] != 0


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        ("most_gpus = 2", "gpus=3", "each user of this machine may hold 2 at a time"),
        ('longest = "1h"', "time_limit=7200.0", "--time_limit 2 h is more than this machine"),
        ('idle = "30m"', "idle=0.0", "--idle 0, for never, is more than"),
        ('forbidden = ["env"]', "env={'A': 'b'}", "the owner of this machine forbids --env"),
        ("most_gpu = 2", "", "it has no 'most_gpu'"),
        ("most_gpus = 0", "", "most_gpus must be a whole number from 1 on"),
        ('longest = "soon"', "", "cannot be used"),
        ('forbidden = ["gpu"]', "", "'gpu', which is no option of jobs"),
        ("[share]\nalice = -1", "", "share.alice must be from"),
        ("most_gpus = ", "", "cannot be used"),
    ],
)
def test_what_the_policy_forbids_is_refused_at_submission(alice, place, policy, options, words):
    place.policy(policy)
    alice.do("from submarine_engine.clusters.local import shared; shared._known = None")
    told = alice.told(f"submit('', **dict(dict(gpus=1), **dict({options})))")
    assert words in told["text"], told
    assert alice.do("from submarine_engine.records import list_jobs\nresult = True")


def test_limits_of_the_policy_are_those_of_jobs_without_any(alice, place):
    place.policy('longest = "1h"\nidle = "30m"')
    alice.do("from submarine_engine.clusters.local import shared; shared._known = None")
    spec = "cluster.check(JobSpec(roles=(Role(resources=Resources(gpus=1)),)))"
    assert alice.do(f"s = {spec}; result = [s.time_limit, s.idle]") == [3600, 1800]
    assert alice.do(
        "r = Role(resources=Resources(gpus=0)); s = cluster.check(JobSpec(roles=(r,)));"
        "result = [s.time_limit, s.idle]"
    ) == [None, None]


SERVER = """
from submarine_engine.notebooks import NOTEBOOK, submit_server
from submarine_engine.records import record_of
values = {"cluster": "local", "gpus": 1, **VALUES}
job = submit_server(NOTEBOOK, "no_such", values, {"idle": values.get("idle", 3600.0)}, str, Path())
files = Path.home() / ".local/share/submarine/jobs" / job.id
result = [(files / "bundle/script.py").read_text(), record_of(job.id)["spec"]["idle"]]
"""


@pytest.mark.parametrize(
    ("policy", "values", "idle"),
    [
        ('idle = "30m"', {"idle": 1200.0}, 1200.0),
        ('idle = "30m"', {}, 1800.0),
        ('idle = "2h"', {}, 3600.0),
        ('longest = "2h"', {"idle": 0.0}, 0.0),
    ],
)
def test_a_server_may_be_unused_for_as_long_as_the_policy_lets_it(
    alice, place, policy, values, idle
):
    place.policy(policy)
    alice.do("from submarine_engine.clusters.local import shared; shared._known = None")
    script, watched = alice.do(SERVER.replace("VALUES", repr(values)))
    assert f"serve(idle={idle})" in script
    assert watched == 0.0  # what its GPUs do says nothing of who uses it


@pytest.mark.parametrize(
    ("idle", "words"), [(3600.0, "--idle 1 h is more"), (0.0, "--idle 0, for never, is more")]
)
def test_a_server_that_may_be_unused_for_longer_is_refused(alice, place, idle, words):
    place.policy('idle = "30m"')
    alice.do("from submarine_engine.clusters.local import shared; shared._known = None")
    told = alice.told(SERVER.replace("VALUES", repr({"idle": idle})))
    assert words in told["text"], told
    assert "write --idle 30m or less" in told["text"]


def test_one_user_holds_no_more_than_the_policy_lets(alice, place, gate):
    place.policy("most_gpus = 2")
    alice.do("from submarine_engine.clusters.local import shared; shared._known = None")
    held = alice.submit(waiting(gate), 2)
    alice.until(held, "running")
    one = alice.submit("", 1)
    until(lambda: "as many GPUs as this machine's owner lets one" in alice.status(one)[2])
    gate.touch()
    alice.until(one, "succeeded")


def test_a_policy_that_others_may_write_is_refused(alice, place):
    path = place.machine / "policy.toml"
    alice.do("from submarine_engine.clusters.local import shared; shared._known = None")
    try:
        for mode, owner in ((0o666, 0), (0o664, 0), (0o644, alice.uid)):
            os.chown(path, owner, 0)
            path.chmod(mode)
            alice.do("shared._known = None")
            assert "can be written by others than root" in alice.told("submit('')")["text"]
    finally:
        os.chown(path, 0, 0)
        path.chmod(0o644)


def test_who_is_no_member_is_told_so(place, alice):
    carol = place.user("carol", member=False)
    told = carol.told("submit('')")
    assert f"{carol.name} is no member of it" in told["text"]
    carol.until(carol.submit("print(1)\n", 0), "succeeded")
    code, text = carol.command("doctor")
    assert "which you are no member of" in text
    assert code != 0
    told = alice.command("doctor")[1]
    assert "one queue for the group" in told
    assert "sets nothing" not in told


def test_without_it_a_user_is_told_that_others_are_not_known(place, alice, bob, tmp_path):
    bob.do("pass")  # a process of his is here
    told = "other users' jobs are not known"
    elsewhere = tmp_path / "none"
    assert told not in alice.command("doctor")[1]
    assert alice.do("result = cluster.not_known()") == ""
    assert told in alice.command("doctor", machine=elsewhere)[1]
    alice.do(f"os.environ['SUBMARINE_MACHINE_FOLDER'] = {str(elsewhere)!r}")
    try:
        assert alice.do("result = cluster.not_known()") == told
    finally:
        alice.do(f"os.environ['SUBMARINE_MACHINE_FOLDER'] = {str(place.machine)!r}")


def test_setting_it_up(place, alice, tmp_path, monkeypatch, root):
    folder = tmp_path / "deep" / "machine"
    monkeypatch.setenv("SUBMARINE_MACHINE_FOLDER", str(folder))
    assert "not set up to be shared" in root("machine", "list")[1]
    assert "groupadd no-such-group" in root("machine", "setup", "--group", "no-such-group")[1]
    assert root("machine", "setup", "--group", place.group)[0] == 0
    assert folder.stat().st_mode & 0o7777 == 0o755
    assert (folder / "leases").stat().st_mode & 0o7777 == 0o3770
    (folder / "policy.toml").write_text("most_gpus = 1\n")
    (folder / "waiting").chmod(0o777)
    setup(place.group, folder)
    assert (folder / "waiting").stat().st_mode & 0o7777 == 0o3770
    assert (folder / "policy.toml").read_text() == "most_gpus = 1\n"
    (folder / "policy.toml").unlink()
    (folder / "policy.toml").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="cannot be read"):
        setup(place.group, folder)
    (folder / "policy.toml").unlink()
    (folder / "policy.toml").write_text("most_gpus = none\n")
    with pytest.raises(ConfigError, match="cannot be used") as broken:
        setup(place.group, folder)
    assert "moves what is there away" in broken.value.fix
    assert (folder / "policy.toml").read_text() == "most_gpus = none\n"
    (folder / "policy.toml").rename(folder / "policy.old")
    assert setup(place.group, folder).policy() == Policy()
    code, text = alice.command("machine", "setup")
    assert code != 0
    assert "only root can set up" in text
