"""Which tests of notebooks there are in this environment."""

from importlib.util import find_spec

NEED = ["test_distributed.py", "test_framework_trials.py", "test_frameworks.py"]
collect_ignore = [] if find_spec("lightning") else NEED
"""The frameworks have an environment of their own: `make test-long` runs their tests there."""

if not any(map(find_spec, ("torch", "keras", "flax", "xgboost", "lightgbm"))):
    collect_ignore = [*collect_ignore, "test_framework_reruns.py"]
