"""Which tests of notebooks there are in this environment."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("lightning") else ["test_distributed.py", "test_frameworks.py"]
"""The frameworks have an environment of their own: `make test-long` runs their tests there."""
