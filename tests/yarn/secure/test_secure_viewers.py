"""Whom a job's owner lets see it: a ticket of theirs opens its log, and ends or changes nothing."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.errors import UnsupportedError
from submarine_engine.history import JobPaths

from tests.hadoop import use, yarn_cluster
from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until

from .test_secure_attempts import ATTEMPTS, REFUSED, WEIGHTS, Person, known_of
from .users import be

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:distutils Version:DeprecationWarning"),  # of skein
]

SEEN = ("list its containers", "list its logs", "read its log", "read its log's page")
"""What who may see it sees, of all that another user may try."""

CLOSED = (
    "kill the application",
    "move it to another queue",
    "change its priority",
    "change its lifetime",
    "read its master's store by its page",
    "ask its master",
    "kill a container by its master",
    "read the application's files",
    "kill it by `yarn`",
)


@pytest.fixture(scope="module", params=["cold", "warm"])
def shown(request, secure_yarn, tmp_path_factory):
    """Give a job whose owner runs the cluster, and a `with` for who looks at it."""
    folder = tmp_path_factory.mktemp("viewers")
    home, gate = folder / "home", folder / "gate"
    script = (
        f"import os, time\nprint({WEIGHTS!r})\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    )
    with pytest.MonkeyPatch.context() as patch:
        use(secure_yarn, patch)
        patch.setenv("SUBMARINE_HOME", str(home))
        cluster = yarn_cluster()
        spec = spec_of(notebook="a.ipynb", mode=request.param, view_users="bob, carol")
        job_id = cluster.submit(spec, bundle_of(script), workdir=folder)
        try:
            log = JobPaths(home, job_id).task("worker-0").stdout
            until(lambda: log.exists() and WEIGHTS in log.read_text())
            known = known_of(secure_yarn, home, job_id)
            owner = load_hadoop().user
            link = cluster.links(job_id)["log"]

            @contextmanager
            def as_user(name):
                with pytest.MonkeyPatch.context() as inner:
                    be(name, secure_yarn, folder, inner)
                    person = Person(secure_yarn, known)
                    person.owner, person.link = owner, link
                    yield person

            yield as_user
            gate.touch()
            assert follow(cluster, job_id, patience=400).status.state.value == "succeeded"
        finally:
            gate.touch()
            end_processes_of(home, patience=3)


@pytest.mark.parametrize("attempt", SEEN)
def test_who_is_named_sees_the_log(shown, attempt):
    with shown("bob") as bob:
        said = str(ATTEMPTS[attempt](bob))
        assert not REFUSED.search(said)
        if attempt == "read its log":
            assert WEIGHTS in said


def test_the_link_of_the_card_opens_for_who_is_named(shown):
    with shown("bob") as bob:
        assert WEIGHTS in bob.ask("GET", f"{bob.link.rstrip('/')}/stdout/?start=0")


@pytest.mark.parametrize("attempt", CLOSED)
def test_who_is_named_ends_and_changes_nothing(shown, attempt):
    with shown("bob") as bob, pytest.raises(Exception) as refused:  # noqa: PT011 - words are checked
        ATTEMPTS[attempt](bob)
    assert REFUSED.search(f"{refused.value!r} {refused.value}")


@pytest.mark.parametrize("attempt", ["list its containers", "list its logs", "read its log"])
def test_who_is_not_named_sees_nothing(shown, attempt):
    with shown("alice") as alice, pytest.raises(PermissionError) as refused:
        ATTEMPTS[attempt](alice)
    assert WEIGHTS not in str(refused.value)


def test_where_nodes_show_nobody_else_a_log_it_is_refused(on_secure_yarn, tmp_path, monkeypatch):
    be("alice", on_secure_yarn, tmp_path, monkeypatch)
    with pytest.raises(UnsupportedError, match="nobody else could see it") as refused:
        yarn_cluster().submit(spec_of(view_users="bob"), bundle_of("1"), workdir=tmp_path)
    assert refused.value.where == "--view_users"
