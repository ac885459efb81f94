"""A backend of somebody else's: found by its name, asked by all that asks clusters."""

from __future__ import annotations

import pytest
from submarine_engine import clusters
from submarine_engine.clusters import cluster_names, configured_names, open_cluster
from submarine_engine.clusters.backend import Backend
from submarine_engine.clusters.driver import KeptCluster
from submarine_engine.config import load_config
from submarine_engine.doctor import doctor
from submarine_engine.errors import ConfigError, SubmissionError, UnsupportedError
from submarine_engine.job import JobState
from submarine_engine.tensorboard.event_dirs import Source
from submarine_engine.tensorboard.serve import let_fsspec_read

from tests.clusters.submarine_hosts import HostsBackend
from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, follow, spec_of


@pytest.fixture
def installed(tmp_path, monkeypatch):
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")


@pytest.mark.usefixtures("installed")
def test_it_is_a_cluster_like_any_other():
    assert "hosts" in cluster_names()
    assert "hosts" in configured_names()
    cluster = open_cluster("hosts")
    assert isinstance(cluster, KeptCluster)
    assert (cluster.name, cluster.log_label, cluster.asks) == ("hosts", "Log", False)
    assert (cluster.tasks_here, open_cluster("local").tasks_here) == (False, True)
    with pytest.raises(ConfigError, match="no cluster 'nowhere'") as caught:
        open_cluster("nowhere")
    assert "hosts" in caught.value.fix


def test_however_many_jobs_open_it_it_is_looked_for_once(tmp_path, monkeypatch):
    search, looked = clusters._entry_points, []
    monkeypatch.setattr(clusters, "_entry_points", lambda: looked.append(1) or search())
    for _ in range(2):  # an answer about none is worth nothing: it may be installed meanwhile
        with pytest.raises(ConfigError, match="no cluster 'hosts'"):
            open_cluster("hosts")
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    looked.clear()
    opened = [open_cluster("hosts") for _ in range(5)]
    assert len(looked) == 1
    assert len({id(cluster) for cluster in opened}) == 5


@pytest.mark.parametrize("entry", ["submarine_hosts:Former", "gone:HostsBackend"])
def test_an_entry_that_leads_nowhere_is_no_cluster_of_the_users(tmp_path, monkeypatch, entry):
    use_backend(monkeypatch, tmp_path / "site", f"hosts = {entry}")
    assert "local" in configured_names()
    assert "hosts" not in configured_names()


def test_a_class_that_is_no_cluster_is_refused_in_words(tmp_path, monkeypatch):
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:Claim")
    with pytest.raises(ConfigError, match="neither a `Cluster` nor a `Backend`"):
        open_cluster("hosts")


@pytest.mark.usefixtures("installed")
def test_the_doctor_asks_it_and_a_name_that_is_none_is_said():
    found = {check.title: check for check in doctor({"cluster": "hosts"})}
    assert (found["GPUs"].verdict, found["GPUs"].what) == ("ok", "4 (declared), 0 held")
    found = {check.title: check for check in doctor({"cluster": "nowhere"})}
    assert (found["cluster"].verdict, "GPUs" in found) == ("bad", False)


def test_what_a_backend_does_not_say_is_refused_in_words(tmp_path, monkeypatch):
    class Least(Backend):
        name, title = "least", "The least"

        def check(self, spec):
            return spec

        def gpus(self, held):  # noqa: ARG002 - it has none
            return []

        def request(self, job):
            raise NotImplementedError

    cluster = KeptCluster(Least(tmp_path))
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path))
    (check,) = Least.checks(load_config())
    assert (check.verdict, check.what) == ("note", "none")
    assert (cluster.gpu_shares(), Least.event_schemes()) == ([], ())
    assert Least.machine_path("/a", "--input_path") is None
    assert str(Least.machine_path("file:///a", "--input_path")) == "/a"


def test_where_a_path_of_a_job_lies_is_for_the_backend_to_say(tmp_path):
    class Elsewhere(HostsBackend):
        @classmethod
        def machine_path(cls, path, option):
            (tmp_path / "asked").write_text(f"{option} {path}")
            return tmp_path / "not there"

    with pytest.raises(SubmissionError, match="not there"):
        KeptCluster(Elsewhere(tmp_path / "home")).submit(
            spec_of(input_path="reel:1"), bundle_of("1"), workdir=tmp_path
        )
    assert (tmp_path / "asked").read_text() == "--input_path reel:1"


@pytest.mark.usefixtures("installed")
def test_a_keeper_that_cannot_begin_says_so_in_its_jobs(tmp_path, monkeypatch):
    cluster = open_cluster("hosts")
    monkeypatch.delenv("PYTHONPATH")  # the package is not there for the keeper
    job_id = cluster.submit(spec_of(), bundle_of("1"), workdir=tmp_path)
    story = follow(cluster, job_id)
    assert story.state is JobState.LOST
    assert "cannot be watched: ConfigError: there is no cluster 'hosts'" in story.status.reason
    end_processes_of(tmp_path / "home")


def test_a_tensorboard_asks_the_cluster_that_has_the_storage(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "with_storage.py").write_text(
        "asked = []\n"
        "class Storage:\n"
        "    configured = staticmethod(lambda: True)\n"
        "    event_schemes = staticmethod(lambda: ('tape',))\n"
        "    let_read_events = staticmethod(asked.extend)\n"
    )
    use_backend(monkeypatch, tmp_path / "site" / "more", "storage = with_storage:Storage")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    import with_storage

    let_fsspec_read([Source("a", "tape://reel/1")])
    assert with_storage.asked == ["tape://reel/1"]
    with pytest.raises(UnsupportedError, match="cards://box") as caught:
        let_fsspec_read([Source("a", "cards://box")])
    assert caught.value.fix
