"""What a result depends on, and what is kept of it: no wrong hit, whatever is done to either."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine import cache as module
from submarine_engine import cache_key
from submarine_engine.bundle import BuildOptions, Cell, build
from submarine_engine.cache import VERSION, Cache, Caching
from submarine_engine.cache_key import FileDigests, Key, Part, key_of
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import CommandError, ConfigError, UnsupportedError
from submarine_engine.job import JobSpec, Resources, Role

from tests.jobs import bundle_of, until

CELLS = [
    """
rate, depth = 0.5, 3
names = ["a", "b"]
offset = 4
""",
    """
def scaled(x, by=2):
    if x > 3:
        return x * by
    return x + offset

def unneeded(x):
    return x * 2
""",
    """
class Model:
    layers = 2
    def run(self, x):
        return scaled(x) * self.layers - rate
""",
]
MAIN = """
model = Model()
out = [model.run(depth), scaled(7, by=3), names, len(values), sorted(values)]
"""
VALUES = {"b": [1, 2.5, None], "a": (1, "x"), "c": {"k": b"v"}}


def key_for(cells=CELLS, values=VALUES, main=MAIN, spec=None, **more):
    """Return a cell's key, and what the cell gives."""
    namespace = {"__name__": "__main__", "values": values}
    for source in cells:
        exec(source, namespace)  # noqa: S102 - the cells above
    executed = [Cell(number=at, source=source, raw=source) for at, source in enumerate(cells, 1)]
    whole = Cell(number=len(cells) + 1, source=main, raw=main)
    bundle = build(whole, executed, namespace, options=BuildOptions())
    result = dict(namespace)
    exec(main, result)  # noqa: S102 - likewise
    return made(bundle, spec, **more), repr(result["out"])


def made(bundle, spec=None, workdir=None, salt=b"salt"):
    return key_of(
        LocalCluster(),
        spec or JobSpec(),
        bundle,
        workdir=workdir or Path.cwd(),
        digests=FileDigests(Path.cwd() / "no" / "file"),
        salt=salt,
    )


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def one_python(monkeypatch):
    """Look at the installed packages once: thousands of keys are made."""
    parts = tuple(cache_key._python(Path.cwd()))
    monkeypatch.setattr(cache_key, "_python", lambda _: parts)


def mutated(luck, cells, main):
    """Return the cells with one small change in a place of any line."""
    sources = [*cells, main]
    at = luck.randrange(len(sources))
    lines = sources[at].split("\n")
    number = luck.randrange(len(lines))
    line = lines[number]
    [kind] = luck.choices(range(7), [2, 1, 1, 6, 3, 3, 1])
    if kind == 0:
        line = f"{line}  # {luck.random()}"
    elif kind == 1 and not line.startswith(" "):
        line = f"\n\n{line}"
    elif kind == 2:
        line = line.replace(" ", "  ") if not line.startswith(" ") else line
    elif kind == 3:
        digits = [at for at, letter in enumerate(line) if letter.isdigit()]
        if digits:
            place = luck.choice(digits)
            line = f"{line[:place]}{luck.randrange(10)}{line[place + 1 :]}"
    elif kind == 4:
        line = line.replace(*luck.choice(["*+", "+-", "><", "-+", "+*"]))
    elif kind == 5:
        names = ["rate", "depth", "offset", "x", "by", "2", "3", "'a'"]
        line = line.replace(luck.choice(names), luck.choice(names))
    else:
        words = line.split(" ")
        luck.shuffle(words)
        line = " ".join(words) if not line.startswith(" ") else line
    lines[number] = line
    sources[at] = "\n".join(lines)
    return sources[:-1], sources[-1]


def with_one_changed(luck, values):
    """Return the values with another content in one place."""
    name = luck.choice(list(values))
    content = luck.choice([1, 2.5, None, "x", b"v", (1, "x"), [1, 2.5, None], {"k": b"v"}, True])
    return {**values, name: content}


def mutations(count, monkeypatch):
    """Try `count` changes that change the key; return how many did not: no result may differ."""
    luck = random.Random(5)  # noqa: S311 - the same each time
    first, result = key_for()
    parts = cache_key._python(Path.cwd())
    missed = hit = 0
    while missed < count:
        cells, main, values = CELLS, MAIN, VALUES
        python = list(parts)
        kind = luck.randrange(4)
        if kind == 0:
            values = with_one_changed(luck, values)
        elif kind == 1:
            at = int(luck.random() * len(python))  # one draw, however many packages there are
            python[at] = replace(python[at], digest=f"{luck.random()}", shown=f"{luck.random()}")
        else:
            cells, main = mutated(luck, CELLS, MAIN)
        with monkeypatch.context() as patch, suppress(Exception):  # much is no Python that runs
            patch.setattr(cache_key, "_python", lambda _, python=python: python)
            key, other = key_for(cells, values, main)
            if key.digest != first.digest:
                missed += 1
                if not key.changes(first.parts):
                    pytest.fail(f"no word of what changed: {cells}, {main}, {values}")
                continue
            hit += (cells, main) != (CELLS, MAIN)
            same = other == result and python == list(parts)
            if not same:
                pytest.fail(f"a wrong hit: {cells}, {main}, {values}")
    return hit


def test_no_mutation_gives_a_wrong_hit(one_python, monkeypatch):
    assert mutations(100, monkeypatch) > 10  # the packages that are there have a part in the luck


@pytest.mark.long
def test_no_mutation_of_a_thousand_gives_a_wrong_hit(one_python, monkeypatch):
    assert mutations(1000, monkeypatch) > 200


CONTENT = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


@given(left=CONTENT, right=CONTENT)
def test_values_that_differ_have_keys_that_differ(left, right):
    one, _ = key_for([], {"v": left}, "out = values")
    other, _ = key_for([], {"v": right}, "out = values")
    same = one.digest == other.digest
    assert not same or repr(left) == repr(right)  # 1 is not True, and 0.0 not -0.0
    assert key_for([], {"v": left}, "out = values")[0].digest == one.digest


def test_values_count_to_the_last_bit(one_python):
    frame = np.zeros(300_000)
    first, _ = key_for(values={"f": frame}, main="out = len(values)")
    frame[-1] = 5e-324
    assert key_for(values={"f": frame}, main="out = len(values)")[0].digest != first.digest
    frame[-1] = 0
    assert key_for(values={"f": frame}, main="out = len(values)")[0].digest == first.digest
    as_32 = {"f": frame.astype("f4")}
    assert key_for(values=as_32, main="out = len(values)")[0].digest != first.digest


def test_the_same_cells_have_the_same_key_in_another_process(one_python):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from submarine_engine import cache_key; cache_key._python = lambda _: ()\n"
        "from tests.foundation.test_cache import key_for\n"
        "key, _ = key_for(values={'s': {'ab', 'cd', 'ef', 'gh'}}, main='out = sorted(values)')\n"
        "print(next(one.digest for one in key.parts if one.name == 'values'))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program, str(Path(__file__).parents[2])],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            timeout=180,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    "value",
    [
        "data/a.csv", Path("data/a.csv"), Path("data"), [Path("data") / "b", Path("data/a.csv")],
        {"train": ("data/a.csv", 3)}, [f"{at}" for at in range(500)] + ["data/a.csv"],
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_files_that_a_value_names_count_by_content(one_python, value):
    Path("data").mkdir()
    Path("data/a.csv").write_text("1")
    first, _ = key_for(values={"where": value}, main="out = len(values)")
    assert key_for(values={"where": value}, main="out = len(values)")[0].digest == first.digest
    Path("data/a.csv").write_text("2")
    other, _ = key_for(values={"where": value}, main="out = len(values)")
    assert {one.split()[0] for one in other.changes(first.parts)} <= {"file", "folder"}
    assert other.digest != first.digest


ARRAY = np.array(["b.csv", "data/a.csv", ""])


@pytest.mark.parametrize(
    ("main", "values"),
    [
        ("import glob, os\nout = [os.path.exists(one) for one in glob.glob('data/*.csv')]", {}),
        (
            "import glob\nout = glob.glob('**/a.c*', recursive=True)",
            {},
        ),
        ("import os\nout = [os.path.exists(f'data/{one}.csv') for one in 'a']", {}),
        ("import os\nout = [os.path.exists('data/' + one + '.csv') for one in 'a']", {}),
        ("import os\nout = [os.path.exists('data/%s.csv' % one) for one in 'a']", {}),
        ("import os\nout = [os.path.exists('{}/a.csv'.format(one)) for one in ['data']]", {}),
        ("import os\nout = [os.path.exists(f'{values}/{one}/{one}.csv') for one in ()]", "data"),
        ("import subprocess\nout = subprocess.getoutput('cat data/a.csv')", {}),
        ("import subprocess\nout = subprocess.getoutput('sort <data/a.csv; wc -l data/b')", {}),
        ("import os\nout = os.path.exists(b'data/a.csv')", {}),
        ("import os\nout = [os.path.exists(one) for one in values if one]", ARRAY[1:]),
        ("import os\nout = [os.path.exists(one) for one in values if one]", ARRAY.astype("S")[1:]),
        ("import os\nout = os.path.exists(os.environ['MY_DATA'])", {}),
    ],
    ids=lambda value: value[-40:] if isinstance(value, str) else "",
)
def test_files_that_are_named_otherwise_count_by_content(one_python, monkeypatch, main, values):
    Path("data").mkdir()
    Path("data/a.csv").write_text("1")
    monkeypatch.setenv("MY_DATA", "data/a.csv")
    first, _ = key_for(values=values, main=main)
    assert key_for(values=values, main=main)[0].digest == first.digest
    Path("data/a.csv").write_text("2")
    other, _ = key_for(values=values, main=main)
    assert other.digest != first.digest
    assert {one.split()[0] for one in other.changes(first.parts)} <= {"file", "files", "folder"}


@pytest.mark.parametrize(
    "main",
    [
        "import subprocess, sys\nout = subprocess.getoutput([sys.executable, '-m', 'pack.work'])",
        "import subprocess\nout = subprocess.getoutput('python -m pack.work')",
        "import subprocess\nout = subprocess.getoutput('python script.py')",
        "import subprocess\nout = subprocess.getoutput('sh ./run.sh')",
        "import runpy\nout = runpy.run_path('other.py') if depth > 9 else 0",
        "import pathlib\nout = pathlib.Path('settings.json').read_text()",
        "import pathlib\nout = pathlib.Path('settings.yaml').read_text()",
        "import pathlib\nout = pathlib.Path('files.txt').read_text()",
    ],
)
def test_what_a_named_script_or_list_names_counts_by_content(one_python, main):
    for folder in ("data", "pack", "lib"):
        Path(folder).mkdir()
    Path("script.py").write_text("from pack.work import f")
    Path("other.py").write_text("from lib import a")
    Path("lib/__init__.py").write_text("")
    Path("lib/a.py").write_text("from . import b")
    Path("lib/b.py").write_text("open(f'data/{b}.csv')")
    Path("pack/work.py").write_text("f = 'data/a.csv'")
    Path("run.sh").write_text("python -m pack.work >/dev/null")
    Path("settings.json").write_text('{"data":"data/a.csv"}')
    Path("settings.yaml").write_text("root: data\n")
    Path("files.txt").write_text("0.5 1\ndata/a.csv 2\n")
    Path("data/a.csv").write_text("1")
    first, _ = key_for(main=main)
    assert key_for(main=main)[0].digest == first.digest
    Path("data/a.csv").write_text("2")
    other, _ = key_for(main=main)
    assert other.digest != first.digest
    assert {one.split()[0] for one in other.changes(first.parts)} <= {"file", "files", "folder"}


@pytest.mark.parametrize(
    "main",
    [
        "import os\nout = os.listdir()",
        "import os\nout = [one.name for one in os.scandir('.')]",
        "from pathlib import Path\nout = [str(one) for one in Path.cwd().iterdir()]",
        "from pathlib import Path\nhere = Path()\nout = [str(one) for one in here.rglob('**/*')]",
        "import glob\nout = glob.glob('*')",
    ],
)
def test_a_folder_that_is_gone_through_counts_though_nobody_names_it(one_python, main):
    Path("a.csv").write_text("1")
    first, _ = key_for(main=main)
    Path("here.ipynb").write_text("1")  # the notebook, which is saved meanwhile
    Path(".hidden").write_text("1")
    assert key_for(main=main)[0].digest == first.digest
    Path("a.csv").write_text("2")
    second, _ = key_for(main=main)
    assert second.changes(first.parts) == ["files beside the notebook changed"]
    Path("b.csv").write_text("2")
    assert key_for(main=main)[0].digest != second.digest


def test_what_names_nothing_here_is_passed_over(one_python):
    main = "out = ['own.txt', 'large.txt', 'own.py', 'bad.json']"
    Path("own.txt").write_text("own.txt other\n" + "0.25 " * 5000)
    Path("large.txt").write_text("x" * 70_000 + " c.csv")
    Path("own.py").write_text("import own\nopen('own.py')\nlist(map(open, '/'))")
    Path("bad.json").write_bytes(b"\xff\xfe")
    Path("c.csv").touch()
    key, _ = key_for(main=main)
    assert [part.name for part in key.parts if part.kind == "file"] == [
        "bad.json", "large.txt", "own.py", "own.txt",
    ]  # fmt: skip


def test_a_pattern_of_nearly_everything_is_none(one_python):
    for main in (
        "out = [f'{one}' for one in 'ab']",
        "out = ['*' * 40, '*', '**', '?', '%d %s' % (1, 2), '{}{}'.format(1, 2)]",
        "out = [f'/tmp/{one}' for one in 'ab'], f'{rate}{depth}', f'{rate}/'",
        "out = 'some sentence, and no notebook'",
    ):
        first, _ = key_for(main=main)
        Path("notebook").write_text("1")
        Path("other.txt").write_text("1")
        assert key_for(main=main)[0].digest == first.digest
        Path("notebook").unlink()
        Path("other.txt").unlink()


@pytest.mark.parametrize(
    "fields",
    [
        {"env": {"WHERE": "data/a.csv"}},
        {"roles": (Role(args=("data/a.csv",)),)},
        {"roles": (Role(args=("--data=data/a.csv", "--epochs=3")),)},
        {"roles": (Role(command="python data/a.csv --epochs 3"),)},
    ],
    ids=str,
)
def test_files_that_what_is_asked_for_names_count_by_content(one_python, fields):
    Path("data").mkdir()
    Path("data/a.csv").write_text("1")
    first = of_spec(**fields)
    assert of_spec(**fields) == first
    Path("data/a.csv").write_text("2")
    assert of_spec(**fields) != first


def test_the_value_of_a_secret_is_looked_for_in_no_folder(one_python, monkeypatch):
    Path("abcdefgh12345678").touch()
    monkeypatch.setenv("MY_PLACE", "abcdefgh12345678")
    bundle = bundle_of("import os\nprint(os.environ['MY_PLACE'])")
    assert "abcdefgh" in str(made(bundle).parts)
    assert "abcdefgh" not in str(made(bundle, JobSpec(secrets=("MY_PLACE",))).parts)


def test_a_folder_counts_with_what_it_links_to_and_with_its_empty_folders(one_python, tmp_path):
    Path("data").mkdir()
    Path("far").mkdir()
    Path("data/train").symlink_to(tmp_path / "far")
    Path("far/back").symlink_to(tmp_path / "far")

    def now():
        return key_for(main="out = 'data'")[0].digest

    keys = [now()]
    assert now() == keys[0]
    Path("far/a").write_text("1")
    keys.append(now())
    Path("far/a").write_text("2")
    keys.append(now())
    Path("data/empty").mkdir()
    keys.append(now())
    assert len({*keys}) == len(keys)


def test_code_on_the_path_counts_whatever_its_times_were_set_to(tmp_path, monkeypatch):
    sources, packages = tmp_path / "src", tmp_path / "lib" / "site-packages"
    far = tmp_path / "far" / "linked"
    for folder in (sources / "one", packages, far):
        folder.mkdir(parents=True)
    (sources / "linked").symlink_to(far)
    (far / "__init__.py").touch()
    files = [sources / "one" / "code.py", sources / "one" / "own.yaml", packages / "loose.py",
             far / "code.py"]  # fmt: skip
    for path in files:
        path.write_text("1")
        os.utime(path, (1, 1))
    monkeypatch.setattr("sys.path", [str(sources), str(packages)])
    keys = [made(bundle_of("print(1)")).digest]
    for path in files:
        changed = path.stat().st_ctime_ns
        while path.stat().st_ctime_ns == changed:  # the kernel's clock has ticks
            path.write_text("2")
            os.utime(path, (1, 1))
        keys.append(made(bundle_of("print(1)")).digest)
    assert len({*keys}) == len(keys)


def of_spec(**fields):
    return made(bundle_of("print(1)"), JobSpec(**fields)).digest


def test_what_says_how_a_job_runs_does_not_count(one_python):
    assert of_spec() == of_spec(
        name="other", queue="a", retries=3, time_limit=60.0, hang_after=60.0, idle=60.0,
        tensorboard=True, notebook="n.ipynb", asks=True, quicklinks=(("a", "http://b"),),
    )  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        {"docker_image": "image:2"},
        {"framework": "pytorch"},
        {"env": {"A": "1"}},
        {"outputs": ("x",)},
        {"options": {"isolation": "process"}},
        {"roles": (Role(count=2),)},
        {"roles": (Role(count=2, least=1),)},
        {"roles": (Role(), Role(name="ps"))},
        {"roles": (Role(args=("--epochs", "1")),)},
        {"roles": (Role(command="python other.py"),)},
        {"roles": (Role(resources=Resources(gpus=1)),)},
        {"roles": (Role(resources=Resources(memory=512)),)},
    ],
    ids=str,
)
def test_what_the_code_may_see_counts(one_python, fields):
    passed_over = {"options": {"isolation": "process"}}
    assert (of_spec(**fields) == of_spec()) == (fields == passed_over)


def test_each_package_counts_by_its_version_and_its_installation(tmp_path, monkeypatch):
    packages = tmp_path / "lib" / "site-packages"
    for name in ("pandas-2.1", "numpy-1.26"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(packages)
    bundle = bundle_of("print(1)")
    first = made(bundle)
    assert made(bundle).digest == first.digest
    (packages / "pandas-2.1.dist-info").rename(packages / "pandas-2.2.dist-info")
    second = made(bundle)
    assert second.changes(first.parts) == ["pandas: 2.1 → 2.2"]
    (packages / "numpy-1.26.dist-info" / "RECORD").touch()
    os.utime(packages / "numpy-1.26.dist-info", (1, 1))
    assert made(bundle).changes(second.parts) == ["numpy 1.26 was installed again"]


def test_code_that_is_used_from_its_source_counts(tmp_path, monkeypatch):
    source = tmp_path / "mine"
    (source / "package").mkdir(parents=True)
    module = source / "package" / "module.py"
    module.write_text("a = 1")
    packages = tmp_path / "lib" / "site-packages"
    (packages / "mine-1.dist-info").mkdir(parents=True)
    told = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (packages / "mine-1.dist-info" / "direct_url.json").write_text(json.dumps(told))
    monkeypatch.syspath_prepend(packages)
    bundle = bundle_of("print(1)")
    first = made(bundle)
    (source / "notes.txt").write_text("no code")
    assert made(bundle).digest == first.digest
    module.write_text("a = 22")
    assert made(bundle).changes(first.parts) == [f"code in {source} changed"]


def test_too_much_code_on_the_path_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_key, "_MOST_FILES", 3)
    many = tmp_path / "many"
    many.mkdir()
    for at in range(5):
        (many / f"m{at}.py").touch()
    monkeypatch.setattr("sys.path", [str(many)])
    with pytest.raises(UnsupportedError, match="more code in"):
        made(bundle_of("print(1)"))


def test_variables_count_but_for_those_of_a_session(one_python, monkeypatch):
    def digest(script="print(1)"):
        return made(bundle_of(script)).digest

    first = digest()
    monkeypatch.setenv("SSH_CLIENT", "elsewhere")
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    assert digest() == first
    reads = "import os; print(os.environ['SSH_CLIENT'])"
    second = digest(reads)
    monkeypatch.setenv("SSH_CLIENT", "home")
    assert digest(reads) != second
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert digest() != first


def test_what_cannot_be_looked_at_is_refused(one_python, tmp_path):
    with pytest.raises(CommandError, match="contradict"):
        of_spec(checkpoint_path=str(tmp_path))
    with pytest.raises(UnsupportedError, match="file of another machine"):
        of_spec(input_path="file://elsewhere/data")


def test_a_large_file_is_read_once_and_one_that_settles_again(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"a" * 1000)
    os.utime(path, (1, 1))
    kept = tmp_path / "digests"
    digests = FileDigests(kept)
    first = digests.of(str(path))
    digests.keep()
    path.write_bytes(b"b" * 1000)  # at once: its times of change may be the same
    os.utime(path, (1, 1))
    assert FileDigests(kept).of(str(path)) != first
    for bad in (b"", b"[", b"[]", b'{"x": 3}'):
        kept.write_bytes(bad)
        assert FileDigests(kept).of(str(path))


@pytest.mark.parametrize("place", ["/dev/shm", ""])  # noqa: S108 - a file system in memory
def test_a_file_that_the_notebook_writes_by_its_memory_is_read_each_time(
    tmp_path, monkeypatch, place
):
    monkeypatch.setattr(cache_key, "_SETTLED", -1.0)
    with tempfile.NamedTemporaryFile(dir=place or tmp_path) as file:
        told = np.memmap(file.name, dtype="uint8", mode="w+", shape=4096)
        told[0] = 1
        digests = FileDigests(tmp_path / "digests")
        first = digests.of(file.name)
        told[0] = 2  # the page is about to be written: the times stay
        assert digests.of(file.name) != first
        assert not digests._known


def test_files_are_told_apart_after_their_times_have_settled(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_key, "_SETTLED", -1.0)
    path = tmp_path / "data"
    path.write_bytes(b"a")
    kept = tmp_path / "digests"
    digests = FileDigests(kept)
    first = digests.of(str(path))
    digests.keep()
    again = FileDigests(kept)
    monkeypatch.setattr("hashlib.sha256", None)  # nothing is read
    assert again.of(str(path)) == first


# What is kept.


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "home")


def key(name="a", size=1):
    return Key((Part(kind="code", name=name, digest="0" * size),))


JOB = "20260101-000000-abcde"


def noted(cache, name="a", job=JOB, origin="", size=1):
    (cache.home / "jobs").mkdir(parents=True, exist_ok=True)
    cache.note(key(name, size), job, Caching(origin=origin), "local", name)
    return cache.root / f"{key(name, size).digest}.json"


def test_all_that_is_written_is_the_users_own(cache):
    noted(cache, origin="a cell")
    assert stat.S_IMODE(cache.root.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.root.iterdir()} == {0o600}


def entry(**changed):
    data = {"version": VERSION, "key": key().digest, "name": "a", "cluster": "local", "origin": "",
            "parts": [["code", "a", "0", "", ""]], "jobs": [[JOB, None]]}  # fmt: skip
    return json.dumps({**data, **changed}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"\x80\x04", b"[" * 100_000, entry()[:-9],
        entry(version=2), entry(key="f" * 64), entry(parts=[]), entry(parts=[["code"]]),
        entry(parts=[["code", "b", "0", "", ""]]), entry(parts=[["code", "a", 0, "", ""]]),
        entry(jobs=[["../../etc", None]]), entry(jobs=[[JOB]]), entry(jobs=[[JOB, 3]]),
        entry(jobs=[[JOB, [["a"]]]]), entry(jobs={}), entry(name=None, jobs=None),
    ],
    ids=lambda content: content[:20].decode(errors="replace"),
)  # fmt: skip
def test_an_entry_that_is_none_is_a_run_and_is_written_anew(cache, content):
    path = noted(cache)
    assert cache.entries()
    path.write_bytes(content)
    found = cache.lookup(LocalCluster(cache.home), key())
    assert found.job is None
    assert found.why.startswith("what was remembered cannot be read") or content == entry(jobs={})
    assert cache.entries() == [] or content == entry(jobs={})
    noted(cache)
    assert [one.job for one in cache.entries()] == [JOB]
    assert cache.clear() == 1


def test_an_entry_under_the_name_of_another_is_none(cache):
    noted(cache, "a").replace(cache.root / f"{key('b').digest}.json")
    assert "does not match its file name" in cache.lookup(LocalCluster(cache.home), key("b")).why


def test_a_folder_that_others_may_change_is_neither_read_nor_written(cache):
    path = noted(cache)
    cache.root.chmod(0o777)
    assert "not this user's alone" in cache.lookup(LocalCluster(cache.home), key()).why
    with pytest.raises(OSError, match="not this user's alone"):
        noted(cache)
    with pytest.raises(OSError, match="not this user's alone"):
        cache.clear()
    assert path.exists()
    elsewhere = cache.home / "elsewhere"
    cache.root.chmod(0o700)
    cache.root.rename(elsewhere)
    cache.root.symlink_to(elsewhere)
    assert "not this user's alone" in cache.lookup(LocalCluster(cache.home), key()).why


def test_a_pipe_in_the_place_of_an_entry_is_not_waited_for(cache):
    path = noted(cache)
    path.unlink()
    os.mkfifo(path)
    assert cache.lookup(LocalCluster(cache.home), key()).job is None


def test_a_job_that_is_gone_is_said(cache):
    noted(cache)
    assert cache.lookup(LocalCluster(cache.home), key()).why == (
        f"job {JOB}, which had this result, was removed"
    )


def test_beyond_the_limit_those_that_were_not_used_for_longest_go(cache, monkeypatch):
    paths = [noted(cache, name, origin=name, size=2000) for name in "abcd"]
    for at, path in enumerate(paths):
        os.utime(path, (at + 1, at + 1))
    os.utime(paths[0])
    monkeypatch.setenv("SUBMARINE_CACHE_LIMIT", str(3 * paths[0].stat().st_size))
    with paths[1].open("rb") as read:
        last = noted(cache, "e", origin="e", size=2000)
        assert {path.name for path in cache.root.glob("*.json")} == {
            path.name for path in (paths[0], paths[3], last)
        }
        assert json.loads(read.read())["name"] == "b"  # whoever reads it has all of it
    assert len(list(cache.root.glob("*.last"))) == 3
    assert cache.size() <= 3 * last.stat().st_size
    monkeypatch.setenv("SUBMARINE_CACHE_LIMIT", "1")
    noted(cache, "f")  # what is noted now is kept all the same
    assert [one.name for one in cache.entries()] == ["f"]


def test_what_a_killed_writer_left_goes_with_time(cache):
    noted(cache)
    left, fresh = (cache.root / f".{at}.json.abcdef" for at in "ab")
    left.touch()
    os.utime(left, (1, 1))
    fresh.touch()
    noted(cache)
    assert not left.exists()
    assert fresh.exists()


def test_two_that_remember_and_one_that_forgets_are_in_no_other_s_way(cache, monkeypatch):
    """Of the same key, at the same time: what is there is whole, and nobody hears of the others."""
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(module, "_PATIENCE", 180.0)  # six wait for each other here

    noted(cache)

    def remember(_):
        noted(Cache(cache.home))
        return True

    def forget(_):
        return Cache(cache.home).clear() >= 0

    def look(_):
        found = Cache(cache.home).lookup(LocalCluster(cache.home), key())
        return not found.why or "was removed" in found.why

    with ThreadPoolExecutor(6) as ex:
        done = [ex.map(what, range(20)) for what in (remember, remember, forget, look, look)]
        assert all(all(one) for one in done)
    noted(cache)
    assert len(cache.entries()) == 1
    assert not list(cache.root.glob(".*"))


def test_the_newest_of_several_jobs_comes_first_and_few_are_kept(cache):
    jobs = [f"20260101-00000{at}-abcde" for at in range(6)]
    for job in jobs:
        noted(cache, job=job)
    assert list(cache.entries()[0].jobs) == jobs[::-1][:4]
    assert cache.clear([jobs[0]]) == 0
    assert cache.clear([jobs[-1]]) == 1


def test_a_disk_without_room_is_said_and_the_job_runs(tmp_path, monkeypatch, capsys):
    cluster = LocalCluster()
    told = []
    cluster.tell = told.append

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_json", full)
    bundle = bundle_of("print(1)")
    for _ in range(2):
        job = module.submit(
            cluster, JobSpec(roles=(Role(resources=Resources(gpus=0)),)), bundle,
            workdir=tmp_path, caching=Caching(),
        )  # fmt: skip
        until(job.done)
        assert not job.remembered
    assert "the result will not be remembered: [Errno 28] No space left on device" in told


def test_a_home_of_somebody_else_is_refused(cache, monkeypatch):
    noted(cache)
    cache.home.chmod(0o777)
    with pytest.raises(ConfigError, match="others may write"):
        noted(cache)


def test_two_who_make_the_first_salt_at_once_have_the_same(tmp_path, monkeypatch):
    first, second = Cache(tmp_path), Cache(tmp_path)
    make, told = first._make, []

    def make_late():
        make()
        told.append(second._salt())

    monkeypatch.setattr(first, "_make", make_late)
    assert first._salt() == told[0] == Cache(tmp_path)._salt()
    salt = tmp_path / "cache" / "salt"
    salt.write_bytes(b"spoilt")
    assert Cache(tmp_path)._salt() == salt.read_bytes() != told[0]
    assert [path.name for path in salt.parent.glob("*salt*")] == ["salt"]
