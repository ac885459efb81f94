"""``--after`` in a notebook's own session: the cell waits for the job of that name."""

from __future__ import annotations

import subprocess
import sys
import textwrap

SHELL = """
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "submarine_magics")

    def cell(options, source):
        result = shell.run_cell(f"%%submarine --gpus 0 {options}\\n{source}", store_history=True)
        error = result.error_in_exec
        print("##", error if error is None else str(error).splitlines()[0])

    path = "there"
    cell("--name slow --detach",
         "import time, pathlib\\ntime.sleep(1)\\npathlib.Path('there').touch()")
    cell("--name next --after slow", "import pathlib\\nassert pathlib.Path('there').exists()")
    cell("--name bad", "1 / 0")
    cell("--name no --after bad", "print('ran')")
    cell("--name tidy --after bad --condition all_done", "print('tidied')")
    cell("--name rescue --after slow --condition one_failed", "print('rescued')")
    cell("--name none --after nobody", "print('ran')")
"""


def test_a_cell_waits_for_the_job_that_it_follows(tmp_path):
    script = tmp_path / "session.py"
    script.write_text(textwrap.dedent(SHELL))
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [line[3:] for line in done.stdout.splitlines() if line.startswith("## ")]
    assert told[:2] == ["None", "None"]
    assert "ZeroDivisionError" in told[2]
    assert told[3] == "--after: it is to run after bad, which has failed"
    assert told[4] == "None"
    assert told[5] == "--condition: it is to run where one of slow has failed, and none has"
    assert "nobody" in told[6]
    assert "ran" not in done.stdout.splitlines()
    assert "tidied" in done.stdout
