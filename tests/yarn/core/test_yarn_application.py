"""What an application is sent with."""

from __future__ import annotations

import zipfile
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from submarine_engine.clusters.yarn.application import heartbeat_jar
from submarine_engine.clusters.yarn.hadoop import HadoopConf


def test_applications_that_start_at_once_share_one_jar(tmp_path):
    site = "<configuration><property><name>a</name><value>b</value></property></configuration>"
    (tmp_path / "yarn-site.xml").write_text(site)
    for number in range(20):
        root = tmp_path / str(number)
        root.mkdir()
        folder = SimpleNamespace(root=root, conf=HadoopConf(tmp_path, {}, "f"))
        with ThreadPoolExecutor(8) as pool:
            [jar] = set(pool.map(heartbeat_jar, [folder] * 8))
        assert list(root.iterdir()) == [jar]
        with zipfile.ZipFile(jar) as packed:
            ours = packed.read("yarn-site.xml").decode()
        assert ours.startswith("<configuration><property><name>a</name>")
        assert "yarn.am.liveness-monitor.expiry-interval-ms" in ours
