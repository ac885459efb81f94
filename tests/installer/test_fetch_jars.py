"""Jars are fetched once, whole or not at all; what Maven says against it is passed on."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.errors import ClusterError
from submarine_engine.installer import java
from submarine_engine.installer.java import Java, fetch_jars, jars_folder

JAVA = Java(Path("/opt/java"), 17)
SUMS = hashlib.sha256(b"jar\n").hexdigest() + "  hadoop.jar\n"
# Takes Maven's own options; each run is a line in the file `runs`.
MAVEN = """\
#!/bin/sh
for word; do
    case $word in -DoutputDirectory=*) out=${word#*=} ;; -*) ;; *.xml) pom=$word ;; esac
done
echo "$JAVA_HOME $MAVEN_OPTS" >> RUNS
test -s "$pom" && mkdir "$out" && sleep 0.3 && echo jar > "$out/hadoop.jar"
"""
FETCH = """
import sys
from pathlib import Path
from submarine_engine.installer.java import fetch_jars
from submarine_engine.installer.java import Java
print(fetch_jars(Java(Path("/opt/java"), 17), pom=Path(sys.argv[1])))
"""


@pytest.fixture
def pom(tmp_path):
    """Return a pom whose one jar is what the stand-in for Maven writes."""
    folder = tmp_path / "hadoop"
    folder.mkdir()
    (folder / "SHA256SUMS").write_text(SUMS)
    (folder / "pom.xml").write_text("<project/>")
    return folder / "pom.xml"


@pytest.fixture
def environment(tmp_path):
    """Return an environment with a cache of its own, and a stand-in for `mvn` on the PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mvn").write_text(MAVEN.replace("RUNS", str(tmp_path / "runs")))
    (programs / "mvn").chmod(0o755)
    for name in ("sh", "mkdir", "sleep"):
        (programs / name).symlink_to(shutil.which(name))
    return {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def runs(tmp_path):
    return (tmp_path / "runs").read_text().splitlines()


def test_the_second_cluster_fetches_nothing(environment, tmp_path, pom):
    told = []
    first = fetch_jars(JAVA, environment, pom=pom, report=told.append)
    assert [jar.name for jar in first.iterdir()] == ["hadoop.jar"]
    assert fetch_jars(JAVA, environment, pom=pom) == first == jars_folder(environment, pom)
    assert len(runs(tmp_path)) == len(told) == 1
    assert runs(tmp_path)[0].startswith("/opt/java")
    assert list(first.parent.iterdir()) == [first]


def test_several_at_once_fetch_once(environment, tmp_path, pom):
    command = [sys.executable, "-c", FETCH, pom]
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    assert {process.communicate()[0].decode().strip() for process in started} == {
        str(jars_folder(environment, pom))
    }
    assert len(runs(tmp_path)) == 1


def test_what_an_interrupted_fetch_left_is_removed(environment, pom):
    left = jars_folder(environment, pom).parent / "making-abc"
    left.mkdir(parents=True)
    (left / "half.jar").write_text("half")
    assert fetch_jars(JAVA, environment, pom=pom).is_dir()
    assert not left.exists()


def test_maven_that_is_missing_is_named(environment, tmp_path, pom):
    (tmp_path / "programs/mvn").unlink()
    with pytest.raises(ClusterError, match=r"Maven is missing.*mvn") as caught:
        fetch_jars(JAVA, environment, pom=pom)
    assert "apt-get install maven" in caught.value.fix


def test_mavens_own_words_come_through(environment, tmp_path, pom):
    failing = "#!/bin/sh\necho '[INFO] fine so far'\necho '[ERROR] no route to host'\nexit 1\n"
    (tmp_path / "programs/mvn").write_text(failing)
    with pytest.raises(ClusterError, match=r"\[ERROR\] no route to host") as caught:
        fetch_jars(JAVA, environment, pom=pom)
    assert "fine so far" not in caught.value.what
    assert "settings.xml" in caught.value.fix
    assert list(jars_folder(environment, pom).parent.iterdir()) == []


def test_maven_goes_through_the_proxy_of_the_environment(environment, tmp_path, pom):
    fetch_jars(JAVA, {**environment, "https_proxy": "http://proxy.example:3128/"}, pom=pom)
    assert "-Dhttps.proxyHost=proxy.example -Dhttps.proxyPort=3128" in runs(tmp_path)[0]


def test_a_jar_that_is_not_the_one_tried_is_refused_and_not_kept(environment, pom):
    pom.with_name("SHA256SUMS").write_text(SUMS.replace("hadoop.jar", "other.jar"))
    with pytest.raises(ClusterError, match=r"tried with: hadoop.jar, other.jar") as caught:
        fetch_jars(JAVA, environment, pom=pom)
    assert "settings.xml" in caught.value.fix
    assert list(jars_folder(environment, pom).parent.iterdir()) == []


@pytest.mark.parametrize("name", ["hadoop.jar", "one-more.jar"])
def test_a_jar_that_was_changed_in_the_cache_is_refused(environment, tmp_path, name, pom):
    folder = fetch_jars(JAVA, environment, pom=pom)
    (folder / name).write_text("another")
    with pytest.raises(ClusterError, match=name) as caught:
        fetch_jars(JAVA, environment, pom=pom)
    assert caught.value.where == str(folder)
    assert "remove that folder" in caught.value.fix
    assert len(runs(tmp_path)) == 1


def test_the_pins_name_what_maven_fetches():
    pins = Path(java.__file__).parent / "hadoop" / "SHA256SUMS"
    sums = dict(line.split()[::-1] for line in pins.read_text().splitlines())
    assert len(sums) > 100
    assert all(len(digest) == 64 and name.endswith(".jar") for name, digest in sums.items())
