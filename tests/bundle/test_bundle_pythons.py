"""Bundles are made, and scripts run, on every Python that is supported."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import submarine_engine

ENGINE = Path(submarine_engine.__file__).parent.parent

PROGRAM = '''
import sys
from pathlib import Path
from submarine_engine.bundle import Cell, build, build_call

CELLS = ["""
import json
from dataclasses import dataclass

@dataclass
class Net:
    size: int = 3

    def double(self):
        return [self.size * n for n in (1, 2)]
""", """
net = Net()
samples = list(range(500))
text = f"{net.size!r:>3} {'nested'}"

def train(epochs):
    match epochs:
        case int(n) if n:
            return json.dumps([net.double(), len(samples), text, first([1])])
"""]
if sys.version_info >= (3, 12):
    CELLS.append("""
type Row[T] = list[T]

def first[T](row: Row[T]) -> T:
    return row[0]
""")
else:
    CELLS.append("""
def first(row):
    return row[0]
""")
for source in CELLS:
    exec(source)
cells = [Cell(number=n, source=source) for n, source in enumerate(CELLS, 1)]
main = """
assert json.loads(train(3))[1] == 500, train(3)
print(train(1))
"""
bundle = build(Cell(number=4, source=main), cells, globals())
bundle.write(Path(sys.argv[1]) / "cell")
build_call(train, (1,), {}, cells, globals()).write(Path(sys.argv[1]) / "call")
'''


def test_every_python_makes_and_runs_a_bundle(each_python, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ENGINE), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([each_python, "program.py", tmp_path], cwd=tmp_path, env=environment, check=True)
    for kind, printed in (("cell", '[[3, 6], 500, "  3 nested", 1]\n'), ("call", "")):
        done = subprocess.run(
            [each_python, "script.py"],
            cwd=tmp_path / kind,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == printed
        script = (tmp_path / kind / "script.py").read_text()
        assert ("type Row[T] = list[T]" in script) == ("def first[T]" in script)
