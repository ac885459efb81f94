"""The user's part of a real HDFS: files, refusals in its own words, the way for containers."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.storage import HdfsFiles
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_runtime.webhdfs import fetch

from tests.jobs import until

PATIENCE = 180
ODD = "a b#c?d%e+ü.bin"


def mode(files, path):
    return files._web.ask("GETFILESTATUS", path)["FileStatus"]["permission"]


def content(files, path):
    """Return the file; None while the NameNode has not heard of its blocks again."""
    with suppress(ClusterError):
        return files.get(path)
    return None


def dfsadmin(*words):
    subprocess.run(["hdfs", "dfsadmin", *words], check=True, capture_output=True)


@pytest.mark.parametrize("data", [b"", b"x", os.urandom(3_000_000)], ids=len)
def test_a_file_goes_and_comes_back(files, tmp_path, data):
    path = f"{files.home}/deep/er/{ODD}"
    assert not files.exists(path)
    files.put(data, path)
    assert files.get(path) == data
    assert files.size(path) == len(data)
    assert [entry.path for entry in files.list(f"{files.home}/deep/er")] == [path]
    if len(data) > 2:
        assert files.read(path, 1, 2) == data[1:3]
    files.get(files.uri(path), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "copy"]
    files.remove(path)
    files.remove(path)
    assert files.entry(path) is None
    assert files.list(f"{files.home}/nowhere") == []


@pytest.fixture
def small_disk(tmp_path):
    """Give a folder with room for 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "submarine-test", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_files_are_the_users_own(files, conf):
    path = f"{files.home}/.submarine/cache/x"
    files.put(b"secret", path)
    assert mode(files, path) == "600"
    assert {mode(files, f"{files.home}/.submarine{rest}") for rest in ("", "/cache")} == {"700"}
    stranger = open_hdfs(conf, "stranger")
    with pytest.raises(ClusterError, match="Permission denied"):
        stranger.get(path)
    stranger.close()


def test_a_file_is_there_whole_or_not_at_all(files, tmp_path):
    path = f"{files.home}/x"
    files.put(b"old", path)
    with pytest.raises(SubmissionError, match="No such file"):
        files.put(tmp_path / "missing", path)
    assert files.get(path) == b"old"
    files.put(b"other", path, replace=False)
    assert files.get(path) == b"old"
    (tmp_path / "new").write_bytes(b"new")
    files.put(tmp_path / "new", path)
    assert files.get(path) == b"new"
    assert [entry.path for entry in files.list(files.home)] == [path]


def test_containers_get_files_without_hadoop(files, tmp_path):
    path = f"{files.home}/.submarine/{ODD}"
    files.put(b"payload", path)
    url = files.url_for_container(path)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as answer:
        assert answer.read() == b"payload"
    fetch(url, str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == b"payload"


@pytest.mark.parametrize(
    ("words", "quota", "left"),
    [
        pytest.param("DiskSpace quota", "-setSpaceQuota", "1", marks=pytest.mark.long),
        ("NameSpace quota", "-setQuota", "1"),
    ],
)
def test_a_full_quota_is_said_in_hdfs_own_words(files, words, quota, left):
    dfsadmin(quota, left, files.home)
    with pytest.raises(SubmissionError, match=words) as caught:
        files.put(b"much" * 1000, f"{files.home}/x")
    assert files.home in caught.value.what
    assert "quota raised" in caught.value.fix
    dfsadmin("-clrSpaceQuota" if "Space" in quota else "-clrQuota", files.home)
    assert files.list(files.home) == []
    files.put(b"much", f"{files.home}/x")
    assert files.get(f"{files.home}/x") == b"much"


def test_what_has_no_room_here_is_not_said_of_hdfs(files, small_disk):
    path = f"{files.home}/x"
    files.put(bytes(1 << 20), path)
    with pytest.raises(ClusterError, match="No space left on device") as caught:
        files.get(path, small_disk / "x")
    assert str(small_disk / "x") in caught.value.what
    assert caught.value.where == "this machine"
    assert "this machine's disk that is full, not HDFS" in caught.value.fix
    assert f"df {small_disk}" in caught.value.fix
    assert not list(small_disk.iterdir())
    assert files.get(path) == bytes(1 << 20)


def test_a_folder_that_is_not_here_is_not_said_of_hdfs(files, conf, tmp_path):
    path = f"{files.home}/x"
    files.put(b"much", path)
    to = tmp_path / "nowhere" / "x"
    # By the storage, too, to which Python's own error is a file that HDFS has not.
    for get in (files.get, HdfsFiles(files, conf).get):
        with pytest.raises(ClusterError, match=f"{to} cannot be written: No such file") as caught:
            get(path, to)
        assert f"whether {to.parent} is a folder" in caught.value.fix
    with pytest.raises(FileNotFoundError):
        HdfsFiles(files, conf).get(f"{files.home}/y", tmp_path / "y")
    with pytest.raises(ClusterError, match="y not found") as caught:
        files.get(f"{files.home}/y", tmp_path / "y")
    assert caught.value.where == files.where
    assert not list(tmp_path.iterdir())


def test_a_user_without_a_home_is_told_so(conf):
    homeless = open_hdfs(conf, "homeless")
    with pytest.raises(SubmissionError, match="Permission denied: user=homeless") as caught:
        homeless.put(b"", f"{homeless.home}/.submarine/x")
    assert "administrator" in caught.value.fix
    homeless.close()


@pytest.mark.long
def test_read_only_hdfs_is_said_and_loses_nothing(yarn_of_its_own, monkeypatch):
    for name, value in yarn_of_its_own.environment.items():
        monkeypatch.setenv(name, value)
    files = open_hdfs(load_hadoop())
    path = f"{files.home}/kept"
    files.put(b"kept", path)
    dfsadmin("-safemode", "enter")
    try:
        with pytest.raises(SubmissionError, match="safe mode") as caught:
            files.put(b"new", path)
        assert "read-only" in caught.value.fix
        assert files.get(path) == b"kept"
    finally:
        dfsadmin("-safemode", "leave")
    files.put(b"new", path)
    assert [entry.path for entry in files.list(files.home) if "kept" in entry.path] == [path]
    files.close()


@pytest.mark.long
def test_a_dead_datanode_and_a_dead_namenode_are_said(yarn_of_its_own, monkeypatch):
    for name, value in yarn_of_its_own.environment.items():
        monkeypatch.setenv(name, value)
    files = open_hdfs(load_hadoop())
    path = f"{files.home}/x"
    files.put(b"here", path)
    datanode = yarn_of_its_own.daemon("datanode")
    datanode.kill()
    with pytest.raises(ClusterError) as caught:
        files.get(path)
    assert files.where in str(caught.value)
    with pytest.raises((ClusterError, SubmissionError)):
        files.put(b"more", path)
    datanode.start()
    yarn_of_its_own.wait_ready()
    assert until(lambda: content(files, path), PATIENCE) == b"here"
    namenode = yarn_of_its_own.daemon("namenode")
    namenode.kill()
    with pytest.raises(ClusterError, match="no answer"):
        files.exists(path)
    assert open_hdfs(load_hadoop()) is None
    namenode.start()
    yarn_of_its_own.wait_ready()
    assert until(lambda: content(files, path), PATIENCE) == b"here"
    files.close()


class FakeStandbyNameNode(BaseHTTPRequestHandler):
    """Answers as Hadoop's does while another NameNode is the active one."""

    def do_GET(self):
        words = b"Operation category READ is not supported in state standby"
        body = b'{"RemoteException":{"exception":"StandbyException","message":"%s"}}' % words
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_of_several_namenodes_the_active_one_is_used(conf, tmp_path):
    active = conf.get("dfs.namenode.http-address")
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeStandbyNameNode) as standby:
        threading.Thread(target=standby.serve_forever, daemon=True).start()
        conf._values = {
            **conf._values,
            "fs.defaultFS": "hdfs://pair",
            "dfs.ha.namenodes.pair": "one, two,three",
            "dfs.namenode.http-address.pair.one": "127.0.0.1:1",
            "dfs.namenode.http-address.pair.two": f"127.0.0.1:{standby.server_port}",
            "dfs.namenode.http-address.pair.three": active,
        }
        files = open_hdfs(conf)
        path = f"{files.home}/active"
        files.put(b"it", path)
        assert files.uri(path) == f"hdfs://pair{path}"
        urls = files.url_for_container(path)
        assert [active in url for url in urls.split()] == [True, False, False]
        fetch(" ".join(reversed(urls.split())), str(tmp_path / "got"))
        assert (tmp_path / "got").read_bytes() == b"it"
        files.remove(path)
        files.close()
        standby.shutdown()


@pytest.mark.parametrize(
    "values",
    [
        {"fs.defaultFS": "file:///"},
        {"fs.defaultFS": "s3a://bucket"},
        {"fs.defaultFS": "hdfs://["},
        {"dfs.namenode.http-address": "127.0.0.1:1"},
        {"dfs.namenode.http-address": "no host:x"},
    ],
)
def test_without_webhdfs_there_is_none(conf, values):
    conf._values = {**conf._values, **values}
    assert open_hdfs(conf) is None


def test_another_web_server_is_no_hdfs(conf, on_yarn):
    conf._values = {**conf._values, "dfs.namenode.http-address": on_yarn.rm.removeprefix("http://")}
    assert open_hdfs(conf) is None


def test_proxies_of_the_environment_are_not_asked(conf, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    files = open_hdfs(conf)
    assert files is not None
    files.close()


@pytest.mark.parametrize("path", ["", "relative", "hdfs://elsewhere:1/x", "file:///etc/passwd"])
def test_other_paths_are_refused(files, path):
    with pytest.raises(ClusterError, match="no path of this file system"):
        files.get(path)
