"""Functions, parts, tags and subshells: the other ways from a notebook to a job."""

import re

import nbformat
import pytest

pytestmark = pytest.mark.usefixtures("trained")


@pytest.mark.parametrize("package", ["submarine_engine", "submarine_magics"])
def test_a_function_is_launched_from_the_cell_that_defines_it(kernel, package):
    ran = kernel.run(
        f"from {package} import launch\n"
        "rate = 2\n"
        "def doubled(n):\n"
        "    print('in the job')\n"
        "    return n * rate\n"
        "result = launch(doubled, 21, gpus=0)\n"
        "rate = 3\n"
        "result"
    )
    assert ran.stream("stdout") == "in the job\n"
    assert ran.value == "42"
    assert "doubled: succeeded" in ran.text


def test_a_submitted_function_is_a_future(kernel):
    kernel.run("from submarine_engine import submit\njob = submit(train, 3, gpus=0, name='future')")
    assert kernel.value("job.result(180), job.done()") == "({'epochs': 3}, True)"


def test_what_a_launched_function_raises_is_raised_at_its_line(kernel):
    kernel.run("from submarine_magics import launch\ndef fails():\n    raise KeyError('gone')")
    ran = kernel.run("launch(fails, gpus=0)")
    assert ran.reply["ename"] == "KeyError"
    assert re.search(r"In\[\d+\], line 3, in fails\(\)", ran.error)


def test_parts_are_merged_and_run(kernel):
    kernel.run("%%submarine.python parts_model.py\ndef build(units):\n    return {'units': units}")
    kernel.run("%%submarine.python\nfrom parts_model import build\nprint(build(1))")
    ran = kernel.run("%submarine job run --name parts --gpus 0")
    assert ran.stream("stdout") == "{'units': 1}\n"
    command = '--worker_launch_cmd "python main.py && echo shell"'
    assert kernel.run(f"%submarine job run {command} --gpus 0").stream("stdout").endswith("shell\n")


def sent_by_lab(*tags, cell="abc"):
    return {"tags": list(tags), "cellId": cell, "deletedCells": [], "recordTiming": False}


def test_parts_are_in_the_order_of_the_saved_notebook(driven, tmp_path):
    path = tmp_path / "ordered.ipynb"
    kernel = driven(env={"JPY_SESSION_NAME": str(path)})

    def save(*ids):
        cells = [nbformat.v4.new_code_cell(id=cell) for cell in ids]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)

    def printed():
        return kernel.run("%submarine job run --gpus 0").stream("stdout").split()

    for name in ("last", "first", "unsaved"):
        kernel.run(f"%%submarine.python\nprint('{name}')", sent_by_lab(cell=name))
    assert printed() == ["last", "first", "unsaved"]
    save("first", "another", "last")
    assert printed() == ["first", "last", "unsaved"]
    path.write_text(path.read_text()[:100])  # half written
    assert printed() == ["last", "first", "unsaved"]


def test_a_tagged_cell_is_a_job(kernel):
    tags = sent_by_lab("submarine:--gpus=0", "submarine:--name=tagged")
    ran = kernel.run("import os\ntagged = os.environ['SUBMARINE_TASK']\ntagged", tags)
    assert "tagged: succeeded" in ran.text
    assert ran.value == "'worker-0'"


def test_a_tagged_cell_is_a_job_in_any_kernel_that_has_the_magics(driven):
    kernel = driven(module="ipykernel_launcher")
    tags, where = sent_by_lab("submarine:--gpus=0"), "import os\nos.environ.get('SUBMARINE_TASK')"
    assert kernel.run(where, tags).value is None
    kernel.run("%load_ext submarine_magics")
    assert kernel.run(where, tags).value == "'worker-0'"
    assert kernel.run(where, sent_by_lab()).value is None
    kernel.run("%reload_ext submarine_magics")
    assert kernel.run(where, tags).value == "'worker-0'"
    kernel.run("%unload_ext submarine_magics")
    assert kernel.run(where, tags).value is None


def test_lines_of_a_tagged_cell_are_those_that_the_user_sees(kernel):
    ran = kernel.run("first = 1\n1 / 0", sent_by_lab("submarine:--gpus=0"))
    assert re.search(r"In\[\d+\], line 2", ran.error)
    ran = kernel.run("first = 1\nnot_there()", sent_by_lab("submarine"))
    assert re.search(r"In \[\d+\], line 2", ran.error)


def test_other_tags_and_magics_are_left_alone(kernel):
    assert (
        kernel.run("import os; 'SUBMARINE_TASK' in os.environ", sent_by_lab("x")).value == "False"
    )
    ran = kernel.run("%%capture caught\nprint('here')", sent_by_lab("submarine"))
    assert ran.reply["status"] == "ok"
    assert kernel.value("caught.stdout") == "'here\\n'"


def test_a_subshell_runs_a_job_while_the_main_shell_waits_for_another(kernel):
    session, client = kernel.client.session, kernel.client
    client.control_channel.send(session.msg("create_subshell_request", {}))
    subshell = client.get_control_msg(timeout=180)["content"]["subshell_id"]
    main = kernel.send(
        "%%submarine --gpus 0\n"
        "import pathlib, time\n"
        "while not pathlib.Path('told').exists(): time.sleep(0.02)\n"
        "print('main')"
    )
    other = kernel.send(
        "%%submarine --gpus 0\nimport pathlib\nprint('other')\npathlib.Path('told').touch()",
        subshell=subshell,
    )
    texts = {main: "", other: ""}
    idle = []
    while len(idle) < len(texts):
        message = client.get_iopub_msg(timeout=180)
        parent, content = message["parent_header"].get("msg_id"), message["content"]
        if message["msg_type"] == "stream" and parent in texts:
            texts[parent] += content["text"]
        elif content.get("execution_state") == "idle" and parent in texts:
            idle.append(parent)
    for _ in texts:
        assert client.get_shell_msg(timeout=180)["content"]["status"] == "ok"
    assert texts == {main: "main\n", other: "other\n"}
    client.control_channel.send(session.msg("delete_subshell_request", {"subshell_id": subshell}))
    client.get_control_msg(timeout=180)
