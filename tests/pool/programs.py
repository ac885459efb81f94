"""Plain programs that use pools, on the real local cluster of their home."""

import os
import subprocess
import sys
import textwrap


class Program:
    """A program whose last lines change.

    Parameters
    ----------
    folder
        Where it lies.
    head
        What stands above these lines.
    """

    def __init__(self, folder, head):
        self.folder = folder
        self.head = head

    def command(self, body):
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(self.head) + textwrap.indent(textwrap.dedent(body), "    "))
        return [sys.executable, "-W", "error", str(path)]

    def run(self, body, *words, **environment):
        """Run it; what it prints has to have all of `words`."""
        ran = subprocess.run(
            self.command(body),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, **environment},
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        for word in words:
            assert word in ran.stdout, (word, ran.stdout, ran.stderr)
        return ran.stdout
