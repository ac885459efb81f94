"""One user of a shared machine tries to take, forge, see or stop what is another's."""

from __future__ import annotations

import pytest
from submarine_engine.clusters.local.shared import SharedMachine

from tests.jobs import until

from .users import waiting

pytestmark = pytest.mark.service

ATTEMPTS = {
    "remove a lease": "os.unlink(lease)",
    "rename a lease": "os.rename(lease, lease + '0')",
    "put another in a lease's place": "open(mine, 'w').close(); os.rename(mine, lease)",
    "write a lease": "open(lease, 'w')",
    "append to a lease": "open(lease, 'a')",
    "cut a lease": "os.truncate(lease, 0)",
    "change a lease's mode": "os.chmod(lease, 0o666)",
    "change a lease's owner": "os.chown(lease, os.getuid(), -1)",
    "change a lease's times": "os.utime(lease, (0, 0))",
    "link to a lease": "os.link(lease, mine + '-link')",
    "make a lease that is alice's": "open(mine, 'w').close(); os.chown(mine, uid, -1)",
    "lock a lease for writing": "fcntl.fcntl(os.open(lease, os.O_RDWR), fcntl.F_OFD_SETLK, b'')",
    "remove a place in the queue": "os.unlink(place)",
    "write a place in the queue": "open(place, 'r+')",
    "rename a place in the queue": "os.rename(place, place + '0')",
    "write the policy": "open(machine + '/policy.toml', 'a')",
    "replace the policy": "open(mine, 'w').close(); os.rename(mine, machine + '/policy.toml')",
    "remove the policy": "os.unlink(machine + '/policy.toml')",
    "rename the leases' folder": "os.rename(machine + '/leases', machine + '/gone')",
    "open the leases' folder to all": "os.chmod(machine + '/leases', 0o777)",
    "make a file in the machine's folder": "open(machine + '/leases2', 'w')",
    "list the jobs": "os.listdir(jobs)",
    "read a job's record": "open(jobs + '/' + job + '/record.json')",
    "read a job's log": "open(jobs + '/' + job + '/tasks/worker-0/stdout')",
    "read a job's environment": "open(jobs + '/' + job + '/launch.json')",
    "cancel a job": "open(jobs + '/' + job + '/cancel.json', 'w')",
    "ring a job's bell": "os.open(jobs + '/' + job + '/bell', os.O_WRONLY)",
    "lock a job": "open(jobs + '/' + job + '/supervisor.lock')",
    "write the queue": "open(home + '/hosts/' + os.uname().nodename + '/queue', 'a')",
    "lock the queue": "open(home + '/hosts/' + os.uname().nodename + '/queue.lock')",
    "signal the task": "os.kill(task, 9)",
    "signal the supervisor": "os.kill(supervisor, 15)",
    "stop the keeper": "os.kill(keeper, 19)",
    "read the task's environment": "open(f'/proc/{task}/environ').read()",
    "read the task's memory": "open(f'/proc/{task}/mem', 'rb')",
    "take the lease out of the task": "os.listdir(f'/proc/{task}/fd')",
    "use the home as one's own": "LocalCluster(Path(home)).status(job)",
}


@pytest.fixture(scope="module")
def begun(place, users):
    """Give what bob knows of alice's job, and of her next one, which waits."""
    place.policy("")
    alice, bob = users
    gate = place.folder / "gate-of-attempts"
    job = alice.submit(waiting(gate), 4)
    alice.until(job, "running")
    later = alice.submit("", 1)
    home = alice.home / ".local/share/submarine"
    machine = SharedMachine(place.machine)
    until(machine.waiting)
    lock = f"json.load(open({str(home / 'jobs' / job / 'supervisor.lock')!r}))"
    until(lambda: "error" not in alice.told(f"result = {lock}"))
    signature = alice.do(f"result = {lock}")
    keeper = alice.do(
        "import subprocess\n"
        "told = subprocess.run(['pgrep', '-u', str(os.getuid()), '-f', 'scheduler import main'],"
        " capture_output=True, text=True).stdout.split()\n"
        "result = int(told[0])"
    )
    (waiter,) = (place.machine / "waiting").iterdir()
    names = {
        "lease": str(machine.held()[0].path),
        "place": str(waiter),
        "machine": str(place.machine),
        "mine": str(place.machine / "leases" / "mine"),
        "uid": alice.uid,
        "job": job,
        "home": str(home),
        "jobs": str(home / "jobs"),
        "task": signature["session"],
        "supervisor": signature["pid"],
        "keeper": keeper,
    }
    bob.do(f"import fcntl\nglobals().update({names!r})")
    yield job, later
    gate.touch()
    alice.until(later, "succeeded")
    assert alice.status(job)[0] == "succeeded"


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_another_user_tries_is_refused(bob, begun, attempt):
    told = bob.told(ATTEMPTS[attempt])
    bob.do("Path(mine).unlink(missing_ok=True)")
    assert "error" in told, f"bob could {attempt}"
    assert told["error"] in ("PermissionError", "ConfigError", "JobError"), told
