"""What one user leaves in a shared machine's folder keeps nobody else from a GPU."""

from __future__ import annotations

import pytest
from submarine_engine.clusters.local.shared import SharedMachine

from tests.jobs import until

pytestmark = pytest.mark.service

FORGED = """
import struct
from submarine_engine.clusters import locks
def forge(name, *, folder="leases", content=b"", mode=0o640):
    path = Path(machine) / folder / name
    descriptor = locks.make_claimed(path)
    os.write(descriptor, content)
    os.fchmod(descriptor, mode)
    forged.append((path, descriptor))
forged = []
"""
FORGERIES = {
    "a number that is the last": "forge('0.9999999999999999')",
    "a number beyond all": "forge('0.99999999999999999999')",
    "the next numbers": "[forge(f'{gpu}.{last + n}') for n in range(1, 4) for gpu in range(4)]; [locks.drop(d) for _, d in forged]; forged[:] = [(p, None) for p, _ in forged]",  # noqa: E501 - one attempt
    "a folder in the next place": "os.mkdir(f'{machine}/leases/0.{last + 1}')",
    "a pipe in the next place": "os.mkfifo(f'{machine}/leases/0.{last + 1}')",
    "a link in the next place": "os.symlink('/dev/zero', f'{machine}/leases/0.{last + 1}')",
    "a lease that nobody can read": "forge(f'0.{last + 1}', mode=0o600)",
    "another user's name on a place": "forge(f'{uid}-000000000000-0', folder='waiting', content=b'{')",  # noqa: E501 - likewise
    "a place that waits for what is not there": "forge('x', folder='waiting', content=json.dumps(dict(gpus=4, pool=list('0123'), jobs=1, served=-1e300, since=0)).encode())",  # noqa: E501 - likewise
    "a place that wants a thousand": "forge('x', folder='waiting', content=json.dumps(dict(gpus=1000, pool=[str(n) for n in range(1000)], jobs=1, served=-1e300, since=0)).encode())",  # noqa: E501 - likewise
    "a place without an end": "forge('x', folder='waiting', content=json.dumps(dict(gpus=float('inf'), pool=['0'], jobs=1, served=0, since=0)).encode())",  # noqa: E501 - likewise
    "a place that is no number": "forge('x', folder='waiting', content=b'{\"gpus\": NaN, \"pool\": [], \"jobs\": 1e999}')",  # noqa: E501 - likewise
    "a place deeper than any": "forge('x', folder='waiting', content=b'[' * 60000)",
    "a lock on what others hold": "[fcntl.flock(os.open(p, os.O_RDONLY), fcntl.LOCK_EX) for p in Path(machine).glob('*/*')]",  # noqa: E501 - likewise
    "a lock on the folder": "fcntl.flock(os.open(machine + '/leases', os.O_RDONLY), fcntl.LOCK_EX)",
}


SHORT = ("the next numbers", "a place without an end", "a lock on what others hold")


@pytest.mark.parametrize(
    "forgery",
    [one if one in SHORT else pytest.param(one, marks=pytest.mark.long) for one in FORGERIES],
)
def test_what_another_user_leaves_there_keeps_nobody_from_a_gpu(alice, bob, place, forgery):
    alice.until(alice.submit("", 4), "succeeded")
    machine = SharedMachine(place.machine)
    until(lambda: not machine.held())
    numbers = [int(path.suffix[1:]) for path in machine.leases_folder.glob("*.*")]
    names = {"machine": str(place.machine), "uid": alice.uid, "last": max(numbers)}
    bob.do(f"import fcntl\nglobals().update({names!r})\n{FORGED}")
    bob.do(FORGERIES[forgery])
    try:
        alice.until(alice.submit("", 3), "succeeded")
        alice.until(alice.submit("", 1), "succeeded")
        held = [lease.uid for lease in machine.held()]
        assert alice.uid not in held
    finally:
        bob.do(
            "[os.close(d) for _, d in forged if d]\n"
            "for p in Path(machine).glob('*/*'):\n"
            "    if p.lstat().st_uid == os.getuid():\n"
            "        p.rmdir() if p.is_dir() and not p.is_symlink() else p.unlink()\n"
        )
