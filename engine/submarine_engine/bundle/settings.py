"""What a notebook has set for all of its cells: paths, variables, options, random states.

Statements that set something travel as they were written. What has no such statement to travel as
(a random state that was drawn from since) travels as a value; what has to stand before the first
import is written anew, at the top of the script.
"""

from __future__ import annotations

import ast
import os
import re
import site
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from submarine_engine.bundle.capture import free_name
from submarine_engine.bundle.executed import Import
from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.secrets import has_secret_name, looks_secret
from submarine_engine.bundle.source import quoted

TITLE = "Settings of the notebook"
STATES = "random_states"

ALWAYS = frozenset({"logging", "sys", "warnings"})
"""Packages whose settings matter to a script that does not import them."""

_SETTINGS = frozenset(
    {
        "datasets.disable_progress_bar",
        "decimal.getcontext",
        "jax.config",
        "keras.backend.set_floatx",
        "keras.config",
        "keras.mixed_precision",
        "keras.utils.set_random_seed",
        "locale.setlocale",
        "logging.basicConfig",
        "logging.captureWarnings",
        "logging.disable",
        "logging.getLogger.setLevel",
        "matplotlib.pyplot.rc",
        "matplotlib.pyplot.rcParams",
        "matplotlib.pyplot.style.use",
        "matplotlib.rc",
        "matplotlib.rcParams",
        "matplotlib.style.use",
        "numpy.set_printoptions",
        "numpy.seterr",
        "optuna.logging.set_verbosity",
        "pandas.options",
        "pandas.set_option",
        "plotly.io.templates",
        "seaborn.set",
        "seaborn.set_context",
        "seaborn.set_palette",
        "seaborn.set_style",
        "seaborn.set_theme",
        "sklearn.set_config",
        "sys.setrecursionlimit",
        "tensorflow.config",
        "tensorflow.get_logger.setLevel",
        "tensorflow.keras.backend.set_floatx",
        "tensorflow.keras.mixed_precision",
        "tensorflow.keras.utils.set_random_seed",
        "tensorflow.random.set_seed",
        "torch.autograd.set_detect_anomaly",
        "torch.backends",
        "torch.set_default_device",
        "torch.set_default_dtype",
        "torch.set_default_tensor_type",
        "torch.set_float32_matmul_precision",
        "torch.set_grad_enabled",
        "torch.set_printoptions",
        "torch.use_deterministic_algorithms",
        "transformers.logging",
        "transformers.utils.logging",
        "warnings.filterwarnings",
        "warnings.simplefilter",
    }
)
_WORDS = (
    *("set", "basicConfig", "disable", "capture", "Params", "style", "options", "config"),
    *("context", "backends", "templates", "mixed_precision", "filter", "logging"),
)
_RC = re.compile(r"\brc\b")
_BESIDE = {"seaborn": "matplotlib", "matplotlib": "seaborn"}
_SEEDS = {
    "random": re.compile(r"(?<![\w.])random\.seed\("),
    "numpy": re.compile(r"\b(?:np|numpy)\.random\.seed\("),
    "torch": re.compile(r"\bmanual_seed\("),
}
_SEEDS_ALL = re.compile(r"\b(?:seed_everything|set_seed|seed_all|set_random_seed|fix_seed)\w*\(")
_GIVEN = re.compile(
    r"CUDA_VISIBLE_DEVICES|SUBMARINE_\w*|PATH|HOME|USER|PWD|MPLBACKEND|PYTHON\w*|JPY_\w*"
)
_SOURCES = {
    "random": ("random", "getstate", "setstate"),
    "numpy": ("numpy.random", "get_state", "set_state"),
    "torch": ("torch", "get_rng_state", "set_rng_state"),
}


def may_set(source: str) -> bool:
    """Return whether it is worth to read `source`, what a cell says, for settings."""
    # Many times as fast as one pattern of all the words.
    found = any(word in source for word in _WORDS)
    return found or ("rc" in source and _RC.search(source) is not None)


def is_setting(path: str, used: Collection[str]) -> bool:
    """Return whether a statement about `path` (``numpy.set_printoptions``) sets what matters.

    Parameters
    ----------
    used
        Packages that the script or its values use.
    """
    root = path.partition(".")[0]
    if root not in ALWAYS and root not in used and _BESIDE.get(root) not in used:
        return False
    steps = path.split(".")
    return any(".".join(steps[:count]) in _SETTINGS for count in range(2, len(steps) + 1))


def target_of(node: ast.stmt) -> tuple[str, tuple[str, ...]] | None:
    """Return the name that a statement starts from, and the attributes it goes by; None if none.

    That is of ``plt.rcParams["…"] = …`` and of ``logging.getLogger("…").setLevel(…)``.

    Parameters
    ----------
    node
        Any statement; those that assign or call start from a name.
    """
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _steps(node.value.func)
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if len(targets) == 1 and isinstance(targets[0], (ast.Attribute, ast.Subscript)):
            return _steps(targets[0])
    return None


KEPT_APART = ("sys", "os", "builtins", "__main__")
"""Modules whose attributes are this process's own: `settings` of the runtime knows some."""


def attributes_set(node: ast.AST) -> Iterator[str]:
    """Yield the attributes that code sets or deletes, as typed: ``np.flag``, by `setattr` too.

    Parameters
    ----------
    node
        The code: one statement or several.
    """
    for part in ast.walk(node):
        target: ast.expr | None = None
        if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
            target = part
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.args:
            name = (
                part.args[1] if part.func.id in ("setattr", "delattr") and part.args[1:] else None
            )
            if isinstance(name, ast.Constant) and str(name.value).isidentifier():
                target = ast.Attribute(part.args[0], str(name.value), ast.Store())
        found = ast.unparse(target) if target else ""
        if found and all(map(str.isidentifier, found.split("."))):
            yield found


def _steps(node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    steps: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.insert(0, node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return None
    return node.id, tuple(steps)


def seeded(source: str) -> list[str]:
    """Return whose random states the code `source` sets."""
    every = _SEEDS_ALL.search(source)
    return [name for name, seeds in _SEEDS.items() if every or seeds.search(source)]


def source_of(name: str) -> tuple[str, str, str]:
    """Return the module of the random state `name`, and its functions that get and set it."""
    return _SOURCES[name]


def random_states(sources: Iterable[str], used: Collection[str]) -> dict[str, object]:
    """Return the states of the random generators that the notebook has seeded.

    Parameters
    ----------
    sources
        What its cells say: numbers of a notebook that never seeds are nobody's to repeat.
    used
        Packages that the script or its values use. The states of others stay here, but for that of
        Python's own ``random``.
    """
    sources = [source for source in sources if "seed" in source]  # patterns take longer to look
    every = any(_SEEDS_ALL.search(source) for source in sources)
    found: dict[str, object] = {}
    for name, seeds in _SEEDS.items():
        module, get, _ = _SOURCES[name]
        loaded: Any = sys.modules.get(module)
        wanted = every or any(seeds.search(source) for source in sources)
        if wanted and loaded is not None and (name == "random" or name in used):
            found[name] = getattr(loaded, get)()
    return found


def states_in(
    states: Collection[str], name: str, imports: Iterable[Import], taken: Collection[str]
) -> tuple[list[Import], list[str]]:
    """Return what sets random states in the job: the imports that it takes, and the lines.

    Parameters
    ----------
    name
        The variable that holds the states.
    imports, taken
        The script's own imports, and all names that mean something in it.
    """
    called = {item.module: item.binds for item in imports if item.name is None and item.asname}
    called |= {item.module: item.module for item in imports if item.name is item.asname is None}
    ours, lines = [], []
    for key in states:
        module, _, setter = _SOURCES[key]
        rest = module.removeprefix(key)
        if key not in called:
            called[key] = free_name(key, taken)
            ours.append(Import(key, asname=called[key] if called[key] != key else None))
        lines.append(f'{called[key]}{rest}.{setter}({name}["{key}"])')
    return ours, lines


def changed_environment(sources: Iterable[str]) -> dict[str, str]:
    """Return the variables of the environment that the notebook has set, but for secrets.

    Those that a cell names: libraries set others for this process alone.

    Parameters
    ----------
    sources
        What its cells say, see `sources_before`.
    """
    sources = [source for source in sources if "env" in source]
    if not sources:
        return {}
    text, start = "\n".join(sources), _environment_at_start()
    dotenv = "dotenv" in text
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if start.get(name) != value
        and (dotenv or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))
        and not has_secret_name(name)
        and not looks_secret(value)
        and not _GIVEN.fullmatch(name)
    }


def _environment_at_start() -> Mapping[str, str]:
    try:
        content = Path("/proc/self/environ").read_bytes()
    except OSError:
        return _START
    pairs = (os.fsdecode(entry).partition("=") for entry in content.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


_START = dict(os.environ)


def added_paths(sources: Iterable[str], root: Path | None) -> list[str]:
    """Return the entries of ``sys.path`` that the notebook has added, if its cells speak of it.

    Parameters
    ----------
    sources
        What its cells say, see `sources_before`.
    root
        The notebook's folder, which is no added one; None where there is none.
    """
    if not any("sys.path" in source or "addsitedir" in source for source in sources):
        return []
    known = {*_default_paths(), *([str(root.resolve())] if root else []), ""}
    return [
        path
        for path in dict.fromkeys(entry for entry in sys.path if isinstance(entry, str))
        if path not in known and str(Path(path).resolve()) not in known and Path(path).is_dir()
    ]


@lru_cache(maxsize=1)
def _default_paths() -> frozenset[str]:
    """Return what a fresh interpreter has on its path."""
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    found = [*folders, *sysconfig.get_paths().values(), *_path_of("PYTHONPATH")]
    found += [str(Path(path) / "lib-dynload") for path in found]
    for folder in folders:
        found += _pth(Path(folder))
    every = {*found, *(str(Path(path).resolve()) for path in found)}
    return frozenset(every)


def _path_of(variable: str) -> list[str]:
    return [path for path in _environment_at_start().get(variable, "").split(os.pathsep) if path]


def _pth(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("*.pth")):
        try:
            lines = file.read_text().splitlines()
        except (OSError, ValueError):
            continue
        for line in lines:
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield str(folder / line.strip())


def head_lines(paths: Collection[str], environment: Mapping[str, str]) -> list[str]:
    """Return the lines that have to stand before the first import.

    Parameters
    ----------
    paths
        Folders that ``sys.path`` has besides.
    environment
        Variables of the environment that are set, by name.
    """
    lines = [f"os.environ[{quoted(name)}] = {quoted(value)}" for name, value in environment.items()]
    lines += [f"sys.path.append({quoted(path)})" for path in paths]
    imports = ["import os"] if environment else []
    imports += ["import sys"] if paths else []
    return [*imports, "", *lines] if lines else []


def sources_before(cells: Iterable[Cell]) -> list[str]:
    """Return what cells say, in IPython's syntax too."""
    return [f"{cell.raw}\n{cell.source}" if cell.raw else cell.source for cell in cells]
