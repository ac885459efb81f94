"""launch() and submit() of a plain program, on the real local cluster."""

import inspect
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from submarine_engine import ArgumentsError, JobState, api, list_jobs, open_job, submit
from submarine_engine.api import job_keywords
from submarine_engine.command.options import IN_CALLS, RUN

PROGRAM = """
    import dataclasses, functools, sys
    from submarine_engine import launch, submit
    from submarine_engine.errors import CommandError, JobFailedError

    import helper

    @dataclasses.dataclass
    class Config:
        size: int

    class Net:
        def __init__(self, size): self.size = size

    def train(config, scale=2, **others):
        print("training", type(config) is Config, helper.half(config.size), others)
        print("careful", file=sys.stderr)
        return Net(config.size * scale)

    def fail(x):
        y = x
        raise LookupError(f"no {y}")

    def named(name):
        return name

    if __name__ == "__main__":
"""


@pytest.fixture
def program(tmp_path):
    """Write a program that ends in `body`; return how to start it."""

    def write(body, program=PROGRAM):
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "helper.py").write_text("def half(x): return x / 2\n")
        source = textwrap.dedent(program) + textwrap.indent(textwrap.dedent(body), "    ")
        (folder / "program.py").write_text(source)
        return [sys.executable, "-W", "error", str(folder / "program.py")]

    return write


def run(command, code=0):
    ran = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == code, ran.stderr
    return ran


WORKERS = """
    import os
    from submarine_engine import CommandError, launch

    def where():
        from submarine_runtime import job
        return job.rank, job.world_size, "RANK" in os.environ, "TF_CONFIG" in os.environ

    if __name__ == "__main__":
"""
BAD = """
wrong = [{"workers": 0}, {"workers": "two"}, {"workers": (4, 2)}, {"workers": "2:"},
         {"workers": (2, "4")}, {"framework": "caffe"}, {"ranks_per_task": "gpu"}]
for options in wrong:
    try:
        launch(where, **options)
    except CommandError as error:
        print(error.what)
"""


def test_a_call_runs_in_several_workers_and_returns_the_first_one_s_value(program):
    body = f"print(launch(where, workers=2, gpus=0, framework='pytorch')){BAD}"
    told = run(program(body, WORKERS)).stdout.splitlines()
    assert told == [
        "(0, 2, True, False)",
        "role worker cannot have 0 tasks",
        "workers='two' is no whole number",
        "'4:2' is not possible: the first is the fewest, 1 or more, the second the most",
        "'2:' is not possible",
        "workers='4' is no whole number",
        "there is no framework 'caffe'",
        "a rank for each GPU of a worker, and no worker is said to have any",
    ]


def test_a_call_has_a_rank_for_each_gpu(program, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    body = "print(launch(where, gpus=2, ranks_per_task='gpu', framework='pytorch'))"
    assert run(program(body, WORKERS)).stdout == "(0, 2, True, False)\n"


def test_of_several_workers_the_first_one_s_log_is_shown_or_those_that_are_asked_for(program):
    say = """
    def say():
        from submarine_runtime import job
        print("rank", job.rank)

    def own(logs): pass

    from submarine_engine import CommandError, launch
    if __name__ == "__main__":
"""
    body = """
for logs in (None, "worker-1", "all"):
    launch(say, workers=2, gpus=0, logs=logs)
for called, logs in ((say, "ps-0"), (own, "all")):
    try:
        launch(called, workers=2, gpus=0, logs=logs)
    except CommandError as error:
        print(error)
"""
    told = run(program(body, say)).stdout.splitlines()
    assert told[:2] == ["rank 0", "rank 1"]
    assert sorted(told[2:4]) == ["worker-0 | rank 0", "worker-1 | rank 1"]
    assert told[4:] == [
        "logs=: the job has no task 'ps-0'",
        "→ say one of first, all, worker-0, worker-1",
        "logs='all': `logs` is an option of the job and a parameter of own, too",
        "→ bind the parameter first: functools.partial(own, logs=…)",
    ]


@pytest.mark.parametrize("workers", ["(1, 2)", "'1:2'"])
def test_a_call_may_run_in_some_workers_to_some(program, workers):
    body = f"print(launch(where, workers={workers}, gpus=0, framework='pytorch'))"
    assert run(program(body, WORKERS)).stdout == "(0, 2, True, False)\n"


def test_a_cells_options_are_answered_with_what_a_call_has():
    def train(rate=0.1):
        return rate

    # Each has an answer, and one of each kind is told.
    assert {option.key for option in RUN} - set(job_keywords()) == IN_CALLS.keys()
    for name in ("worker_launch_cmd", "detach", "trials"):
        with pytest.raises(ArgumentsError) as caught:
            submit(train, **{name: 2})
        assert caught.value.fix.startswith(IN_CALLS[name])
    with pytest.raises(ArgumentsError, match="num_workers") as caught:
        submit(train, num_workers=2)
    assert caught.value.fix == "write workers=…; it takes train(rate=0.1)"
    with pytest.raises(ArgumentsError) as caught:
        submit(train, rat=2)
    assert caught.value.fix == "did you mean rate? it takes train(rate=0.1)"


def test_what_a_function_calls_as_a_cell_calls_its_workers_is_the_functions(program):
    body = "print(launch(loads, num_workers=3, gpus=0))"
    start = """
        from submarine_engine import launch

        def loads(num_workers):
            return num_workers

        if __name__ == "__main__":
    """
    assert run(program(body, start)).stdout == "3\n"


def test_launch_streams_and_returns(program):
    ran = run(program("net = launch(train, Config(4), scale=3)\nprint(type(net) is Net, net.size)"))
    assert ran.stdout == "training True 2.0 {}\nTrue 12\n"
    assert ran.stderr == "careful\n"


def test_submit_says_nothing_and_is_a_future(program):
    body = """
        job = submit(
            train, Config(4), name="quiet", env={"A": "b"}, isolation="fresh", other=1
        )
        print(job.result(timeout=180).size, job.done(), job.status().state.value)
    """
    ran = run(program(body))
    assert (ran.stdout, ran.stderr) == ("8 True succeeded\n", "")


def test_what_the_function_raises_is_raised_here(program):
    body = """
        try:
            launch(fail, "rate")
        except LookupError as error:
            print(type(error) is not LookupError, isinstance(error, JobFailedError))
            [frame] = error.frames
            print(frame.cell.rpartition("/")[2], frame.line, frame.function)
            print(error)
    """
    lines = run(program(body)).stdout.splitlines()
    assert lines[0] == "True True"
    assert lines[1] == "program.py 22 fail"
    assert "LookupError: no rate" in lines[2]
    assert 'program.py, line 22, in fail(): raise LookupError(f"no {y}")' in lines[3]


def test_what_cannot_come_back_is_a_warning(program):
    body = """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = launch(make)
        print(value)
        print(caught[0].message)
        print(caught[0].filename.rpartition("/")[2])
    """
    functions = PROGRAM.replace(
        "def named", "def make():\n        return lambda: 1\n\n    def named"
    )
    lines = run(program(body, functions)).stdout.splitlines()
    assert lines[0].startswith("<function make.<locals>.<lambda> at ")
    assert "cannot be pickled and came back as text" in lines[1]
    assert lines[2] == "program.py"


REFUSED = {
    "an ambiguous name": (
        "submit(named, name='x')",
        "`name` is an option of the job and a parameter",
    ),
    "an isolation that is none": (
        "submit(train, Config(1), isolation='none')",
        "there is no isolation 'none'",
    ),
    "impossible GPUs": ("submit(train, Config(1), gpus=-1)", "gpus=-1 is not possible"),
    "GPUs that are none": ("submit(train, Config(1), gpus='two')", "gpus='two' is not possible"),
    "impossible memory": (
        "submit(train, Config(1), memory='lots')",
        "memory=lots is not an amount",
    ),
    "no memory": ("submit(train, Config(1), memory=0)", "memory=0 is not possible"),
    "a bad environment": ("submit(train, Config(1), env={'A': 1})", "is no text"),
    "an environment that is none": ("submit(train, Config(1), env='A=1')", "is no mapping"),
    "a bad name": ("submit(train, Config(1), name='a b')", "'a b' cannot name a job"),
    "a name that is none": ("submit(train, Config(1), name=3)", "name=3 is no text"),
    "an argument too few": (
        "submit(named)",
        "named() missing a required argument: 'name'\n→ it takes named(name",
    ),
    "an option in other words": (
        "submit(named, 'x', gpu=1)",
        "unexpected keyword argument 'gpu'\n→ did you mean gpus? ",
    ),
    "no function": ("submit(3)", "3 is no function"),
    "an unknown cluster": ("submit(train, 1, cluster='moon')", "there is no cluster 'moon'"),
    "an image here": ("submit(train, 1, docker_image='x')", "docker_image"),
    "an open file": ("submit(train, open('/dev/null'))", "file"),
}


@pytest.mark.sampled
@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_on_record(program, call, words, tmp_path):
    body = f"""
        from submarine_engine import SubmarineError, list_jobs
        try:
            {call}
        except SubmarineError as error:
            print(error)
        print(len(list(list_jobs())))
    """
    out = run(program(body)).stdout
    assert words.lower() in out.lower().replace("--", "")
    assert "→ " in out
    assert out.endswith("\n0\n")


def test_a_parameter_of_the_same_name_is_bound_first(program):
    ran = run(program("print(launch(functools.partial(named, name='x'), name='job'))"))
    assert ran.stdout == "x\n"


def test_a_parameter_of_the_same_name_may_go_by_place(program):
    assert run(program("print(launch(named, 'x', gpus=0))")).stdout == "x\n"


def test_a_function_of_a_module(program):
    assert run(program("print(launch(helper.half, 3))")).stdout == "1.5\n"


def test_a_function_typed_at_a_prompt_is_refused_with_the_way_out():
    code = "from submarine_engine import launch\ndef f(): pass\nlaunch(f)"
    ran = run([sys.executable, "-c", code], code=1)
    assert "the function was typed at a prompt, its source is in no file" in ran.stderr
    assert "put it into a file; in a notebook, use `from submarine_magics" in ran.stderr


def test_a_program_run_as_a_module(program, tmp_path, monkeypatch):
    program("print(launch(train, Config(2)).size)")
    monkeypatch.chdir(tmp_path / "project")
    assert run([sys.executable, "-m", "program"]).stdout == "training True 1.0 {}\n4\n"


SLEEPS = """
    import time
    from submarine_engine import launch

    def train():
        try:
            print("began", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            print("saved", flush=True)
            raise

    if __name__ == "__main__":
"""


def test_an_interrupt_cancels_the_job_and_waits_for_its_end(program, monkeypatch):
    monkeypatch.setenv("SUBMARINE_GRACE", "300")
    body = """
        from submarine_engine import list_jobs
        try:
            launch(train)
        except KeyboardInterrupt as error:
            print(error)
        print([job.state.value for job in list_jobs()])
    """
    process = subprocess.Popen(
        program(body, SLEEPS), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "began\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=180)
    finally:
        process.kill()
        process.wait()
    lines = out.splitlines()
    assert lines[0] == "saved"
    assert lines[1].endswith(" was cancelled")
    assert lines[2] == "['cancelled']"
    assert "cancelling … (interrupt again to leave at once)" in err


def test_a_second_interrupt_leaves_at_once(program, monkeypatch):
    deaf = SLEEPS.replace(
        'print("saved", flush=True)', 'print("deaf", flush=True); time.sleep(600)'
    )
    monkeypatch.setenv("SUBMARINE_GRACE", "300")
    process = subprocess.Popen(
        program("launch(train)", deaf), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "began\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "deaf\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=180)
        assert "KeyboardInterrupt" in err
    finally:
        process.kill()
        process.wait()
    [summary] = list_jobs()
    job = open_job(summary.id)
    job.kill()
    assert job.wait(180).state is JobState.CANCELLED


def test_importing_launch_brings_no_front_end():
    code = "import sys; from submarine_engine import launch; print('IPython' in sys.modules)"
    assert run([sys.executable, "-c", code]).stdout == "False\n"


def test_a_job_that_waits_says_what_for(program, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    body = """
        import os, time
        gate = os.path.join(os.path.dirname(__file__), "go")
        def hold(path):
            import pathlib, time
            while not pathlib.Path(path).exists():
                time.sleep(0.01)
        held = submit(hold, gate, gpus=1, name="holder")
        class Stderr:
            def __getattr__(self, name): return getattr(sys.__stderr__, name)
            def write(self, text):
                sys.__stderr__.write(text)
                if "waiting: 1 of 1 GPUs in use by 'holder'" in text:
                    open(gate, "w").close()
        sys.stderr = Stderr()
        launch(hold, gate, gpus=1)
    """
    ran = run(program(body))
    first, *rest = ran.stderr.splitlines()
    assert re.fullmatch(r"submarine: job \S+: waiting: 1 of 1 GPUs in use by .*", first)
    assert all(line.endswith(": waiting: next in turn") for line in rest)  # for a moment, perhaps


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("mode='hot'", "there is no mode 'hot'"),
        ("mode=1", "mode=1 is no text"),
        ("priority='high'", "priority='high' is no whole number"),
        ("priority=True", "priority=True is no whole number"),
        ("node_label=3", "node_label=3 is no text"),
    ],
)
def test_options_for_yarn_that_are_not_possible(program, option, words):
    body = f"""
        try:
            submit(named, "a", {option})
        except CommandError as error:
            print(error.what)
    """.replace("named, ", "train, ")
    assert run(program(body)).stdout.startswith(words)


def test_options_for_yarn_get_to_the_cluster(program):
    body = """
        from submarine_engine.errors import UnsupportedError
        from submarine_engine.records import record_of
        job = submit(train, Config(1), mode="cold")
        print(record_of(job.id)["spec"]["options"]["mode"])
        for option in ({"environment": "same"}, {"node_label": "gpu"}, {"priority": 3},
                       {"view_users": "bob"}):
            try:
                submit(train, Config(1), **option)
            except UnsupportedError as error:
                print(error.where)
        job.wait(180)
    """
    assert run(program(body)).stdout.split() == [
        "cold", "--environment", "--node_label", "--priority", "--view_users",
    ]  # fmt: skip


def test_what_a_function_displays_is_text_on_the_console(program):
    display = """
    from submarine_engine import launch

    def train():
        from IPython.display import HTML, display
        print("before")
        display(HTML("<b>x</b>"))
        print("after")

    if __name__ == "__main__":
    """
    ran = run(program("launch(train)", display))
    assert ran.stdout == "before\n<IPython.core.display.HTML object>\nafter\n"
    assert ran.stderr == ""


def test_submit_says_each_keyword_of_a_job():
    keywords = inspect.signature(api.submit).parameters.values()
    assert {one.name for one in keywords if one.kind is one.KEYWORD_ONLY} == set(api.job_keywords())


def test_what_the_program_has_set_on_its_modules(program):
    body = """
        import config
        config.rate = 0.7
        config.step()
        config.Net.layers.append(2)
        print(launch(config.told))
    """
    command = program(body)
    source = """
        import os
        rate, count, at = 0.1, 0, os.getpid()
        class Net:
            layers = [1]
        def step():
            global count
            count += 1
        def told():
            return rate, count, Net.layers, at == os.getpid()
    """
    Path(command[-1]).with_name("config.py").write_text(textwrap.dedent(source))
    assert run(command).stdout == "(0.7, 1, [1, 2], True)\n"
