"""Which clusters there are, also where packages of one are missing."""

from submarine_engine.clusters import cluster_names, configured_names


def test_a_cluster_whose_packages_are_missing_is_none_of_the_user_s(monkeypatch):
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    monkeypatch.setattr("submarine_engine.clusters.yarn.find_spec", lambda _name: None)
    assert configured_names() == ["local"]
    assert "yarn" in cluster_names()
