"""Programs that sweep, as people write them."""

import json
import subprocess
import sys
import textwrap

PROGRAM = """
    import functools, json, math, os, sys, time
    from submarine_engine import choice, integer, loguniform, sweep, uniform
    from submarine_runtime import report

    class Layer:
        def __init__(self, size): self.size = size
        def __repr__(self): return f"Layer({self.size})"

    def wide(x): return x * 100

    def train(rate, units):
        for epoch in range(6):
            report(epoch, loss=(math.log10(rate) + 2) ** 2 + 1 / (epoch + 1))
        return {"loss": (math.log10(rate) + 2) ** 2}

    def search(function, space, **given):
        return sweep(function, space, **{"gpus": 0, "minimize": "loss", "seed": 1, **given})
"""


def run_program(folder, body, more="", timeout=400):
    """Run a program that ends in `body`; return what its last line says, and all of its text."""
    path = folder / "program.py"
    body = textwrap.indent(textwrap.dedent(body), "    ")
    path.write_text(
        f'{textwrap.dedent(PROGRAM)}{textwrap.dedent(more)}\nif __name__ == "__main__":\n{body}'
    )
    command = [sys.executable, "-W", "error", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout.splitlines()[-1]), ran.stdout
