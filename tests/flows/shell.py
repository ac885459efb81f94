"""Runs a notebook's cells in IPython's own shell, and writes the hash of each job's bundle.

``python shell.py NOTEBOOK``: a line of JSON, the hashes by the numbers of the cells.
"""

import json
import os
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from submarine_magics.workbench import bench_of

path = Path(sys.argv[1])
os.chdir(path.parent)
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "submarine_magics")
hashes = {}
for number, cell in enumerate(json.loads(path.read_text())["cells"], 1):
    before = bench_of(shell).bundle
    result = shell.run_cell(cell["source"], store_history=True, cell_id=cell["id"])
    result.raise_error()
    after = bench_of(shell).bundle
    if after is not before:
        hashes[number] = after.hash
sys.stdout.write(json.dumps(hashes) + "\n")
