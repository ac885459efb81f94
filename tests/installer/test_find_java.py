"""A Java that Hadoop can run on is found where people have it, and its absence is said."""

from __future__ import annotations

import pytest
from submarine_engine.errors import ClusterError
from submarine_engine.installer.java import Java, find_java


def make_java(home, version, *, release=True):
    """Put a `java` into a folder: with a file `release` as a JDK has, or to be asked."""
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def find(tmp_path):
    """Return a function that looks with those variables, and in ``tmp_path/usual``."""

    def look(**environment):
        names = {name: str(value) for name, value in environment.items()}
        return find_java(names, (str(tmp_path / "usual" / "*"),))

    return look


def test_java_home_comes_first(find, tmp_path):
    named, onpath = make_java(tmp_path / "named", "11.0.2"), make_java(tmp_path / "path", "17.0.1")
    assert find(JAVA_HOME=named, PATH=onpath / "bin") == Java(named, 11)


def test_the_path_comes_next_through_its_links(find, tmp_path):
    real = make_java(tmp_path / "real", "17.0.15")
    make_java(tmp_path / "usual/newer", "21.0.1")
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/java").symlink_to(real / "bin/java")
    assert find(PATH=tmp_path / "programs") == Java(real, 17)


def test_the_newest_of_the_usual_places_that_fits(find, tmp_path):
    for name, version in (("a", "11.0.1"), ("b", "25.0.3"), ("c", "21"), ("d", "1.8.0_412")):
        make_java(tmp_path / "usual" / name, version)
    assert find() == Java(tmp_path / "usual/c", 21)


def test_a_java_that_is_too_new_is_passed_over(find, tmp_path):
    new = make_java(tmp_path / "new", "25.0.3")
    fits = make_java(tmp_path / "usual/fits", "17.0.15")
    assert find(JAVA_HOME=new, PATH=new / "bin") == Java(fits, 17)


@pytest.mark.parametrize(
    ("spoken", "version"), [("1.8.0_412", 8), ("17.0.15", 17), ("21", 21), ("11.0.2", 11)]
)
def test_a_java_without_release_file_is_asked(find, tmp_path, spoken, version):
    home = make_java(tmp_path / "java", spoken, release=False)
    assert find(JAVA_HOME=home) == Java(home, version)


def test_java_eight_lies_one_folder_deeper_and_knows_no_modules(find, tmp_path):
    home = make_java(tmp_path / "jdk8", "1.8.0_412")
    make_java(home / "jre", "1.8.0_412", release=False)
    found = find(PATH=home / "jre/bin")
    assert found == Java(home, 8)
    assert found.flags() == []
    assert Java(home, 17).flags()


def test_no_java_is_said(find, tmp_path):
    (tmp_path / "broken/bin").mkdir(parents=True)
    (tmp_path / "broken/bin/java").write_text("no program")
    with pytest.raises(ClusterError, match="there is no Java") as caught:
        find(JAVA_HOME=tmp_path / "broken", PATH=tmp_path)
    assert "apt-get install" in caught.value.fix
    assert "JAVA_HOME" in caught.value.fix


@pytest.mark.parametrize("version", ["25.0.3", "24", "1.7.0_80"])
def test_a_wrong_java_is_named(find, tmp_path, version):
    home = make_java(tmp_path / "wrong", version)
    number = version.removeprefix("1.").partition(".")[0]
    with pytest.raises(ClusterError, match="needs Java 8 to 21") as caught:
        find(JAVA_HOME=home)
    assert f"only Java {number} ({home})" in caught.value.what


def test_a_program_that_speaks_no_version_is_none(find, tmp_path):
    home = make_java(tmp_path / "odd", "whatever", release=False)
    with pytest.raises(ClusterError, match="there is no Java"):
        find(JAVA_HOME=home)
