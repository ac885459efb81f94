"""``input()`` and ``getpass()`` in a task that somebody waits for."""

from __future__ import annotations

import json
import os
import signal

from submarine_runtime import displays

from tests.runtime.conftest import wait_for

ASK = """
    import getpass
    name = input("Name: ")
    print("hello", name)
    secret = getpass.getpass()
    print("length", len(secret))
"""


def frames(task):
    path = task.folder / displays.FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def taken(task, number):
    """Take a question of the task's, as who waits for it does."""
    path = task.folder / f"answer-{number}"
    wait_for(path.exists)
    wait_for(
        lambda: [f for f in frames(task) if (f["kind"], f.get("number")) == ("question", number)]
    )
    pipe = os.open(path, os.O_WRONLY)
    os.write(pipe, b"taken\n")
    return pipe


def answer(task, number, text):
    pipe = taken(task, number)
    os.write(pipe, json.dumps(text).encode() + b"\n")
    return pipe


def test_the_log_has_what_a_terminal_would_show_and_no_password(task):
    task.start(ASK, asks=True)
    pipes = [answer(task, 1, "Zoë\n…"), answer(task, 2, "s3cret")]
    assert task.wait() == 0
    for pipe in pipes:
        os.close(pipe)
    assert task.stdout == "Name: Zoë\n…\nhello Zoë\n…\nPassword: \nlength 6\n"
    first, over, second, last = frames(task)
    assert first == {
        "kind": "question", "number": 1, "prompt": "Name: ", "password": False,
        "stdout": 0, "stderr": 0,
    }  # fmt: skip
    assert (over["kind"], over["number"], over["stdout"]) == ("asked", 1, len("Name: "))
    assert (second["password"], second["prompt"], last["number"]) == (True, "Password: ", 2)
    held = [path.read_bytes() for path in task.folder.rglob("*") if path.is_file()]
    assert not [data for data in held if b"s3cret" in data]
    assert not list(task.folder.glob("answer-*"))


def test_two_who_watch_may_take_and_answer_it_and_the_first_counts(task):
    task.start("print(input('? '))", asks=True)
    pipe = taken(task, 1)
    os.write(pipe, b'taken\n"first"\n"second"\n')
    assert task.wait() == 0
    os.close(pipe)
    assert task.stdout == "? first\nfirst\n"


def test_a_question_is_the_owners_alone(task):
    task.start("input()", asks=True)
    pipe = taken(task, 1)
    assert (task.folder / "answer-1").stat().st_mode & 0o777 == 0o600
    os.close(pipe)
    task.wait()


def test_who_took_it_and_is_gone_ends_it(task):
    task.start("try:\n    input('? ')\nexcept EOFError as error:\n    print(error)\n", asks=True)
    os.close(taken(task, 1))
    assert task.wait() == 0
    assert "nobody is there to answer" in task.stdout


def test_a_question_that_nobody_takes_ends_by_itself(task):
    script = "import submarine_runtime.asking as asking\nasking.PATIENCE = 0.05\ninput('? ')"
    assert task.run(script, asks=True) == 1
    assert task.outcome["error"]["type"] == "EOFError"
    assert not list(task.folder.glob("answer-*"))


def test_a_question_waits_until_what_was_displayed_before_it_can_be_there(task):
    script = """
        import submarine_runtime.asking as asking
        from IPython.display import display
        asking.PATIENCE, asking.SLOWEST = 0, 1
        display({"text/plain": "large" * 1000}, raw=True)
        print(input("? "))
    """
    task.start(script, asks=True)
    pipe = answer(task, 1, "yes")
    assert task.wait() == 0
    os.close(pipe)
    assert task.stdout == "? yes\nyes\n"


def test_the_end_of_the_input_is_one(task):
    task.start("input('? ')", asks=True)
    pipe = answer(task, 1, None)
    assert task.wait() == 1
    os.close(pipe)
    assert task.outcome["error"]["message"] == "the input was ended"


def test_a_question_is_interrupted_by_the_end_of_the_job(task):
    task.start("try:\n    input('? ')\nexcept KeyboardInterrupt:\n    print('left')\n", asks=True)
    pipe = taken(task, 1)
    task.said("? ")  # its frame is there before that
    task.process.send_signal(signal.SIGTERM)
    assert task.wait() == 0
    os.close(pipe)
    assert task.stdout == "? \nleft\n"


def test_threads_ask_one_after_another_and_forks_not_at_all(task):
    script = """
        import os, threading
        threads = [threading.Thread(target=lambda: print(len(input()))) for _ in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        if (child := os.fork()) == 0:
            try:
                input()
            except EOFError:
                os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    task.start(script, asks=True)
    pipes = [answer(task, 1, "x" * 100_000), answer(task, 2, "")]
    assert task.wait() == 0
    for pipe in pipes:
        os.close(pipe)
    assert sorted(task.stdout.split(), key=len)[:3] == ["0", "7", "100000"]


def test_nothing_is_imported_where_nobody_asks(task):
    script = "import sys\nprint('submarine_runtime.asking' in sys.modules, 'json' in sys.modules)"
    assert task.run(script, asks=True) == 0
    assert task.stdout == "False False\n"


def test_nobody_is_asked_where_nobody_waits(task):
    assert (
        task.run("import sys\nprint('submarine_runtime.asking' in sys.modules)\ninput('? ')") == 1
    )
    assert task.stdout == "False\n? "
    assert task.outcome["error"]["type"] == "EOFError"
    assert not frames(task)
