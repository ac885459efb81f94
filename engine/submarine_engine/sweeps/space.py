"""What a sweep searches: a domain for each name, as Python values or as text.

>>> Space.of({"rate": loguniform(1e-4, 1e-1), "units": [32, 64, 128]}).names
('rate', 'units')
>>> Space.of("rate=loguniform(1e-4, 1e-1); units=[32, 64, 128]").names
('rate', 'units')

Text is parsed and never run. Nothing here needs Optuna, so that a space is refused where it is
written; what Optuna makes of it is `Space.distributions`.
"""

from __future__ import annotations

import ast
import difflib
import keyword
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import CommandError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_EXAMPLE = "rate=loguniform(1e-4, 1e-1); units=[32, 64, 128]"
_LONGEST = 10_000
_MOST_CHOICES = 1000
_MOST_IN_A_GRID = 1_000_000
_LARGEST = 2**53  # a float, which samplers count in, has no odd number above
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """What one name may be.

    Parameters
    ----------
    kind
        ``float``, ``int`` or ``choice``.
    low, high
        The ends of a range; both are in it.
    log
        Whether each power of ten is as likely as the next.
    values
        The choices.
    """

    kind: str
    low: float = 0
    high: float = 0
    log: bool = False
    values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "choice":
            self._check_choices()
            return
        kinds = (int,) if self.kind == "int" else (int, float)
        for end in (self.low, self.high):
            if isinstance(end, bool) or not isinstance(end, kinds) or not abs(end) < math.inf:
                raise CommandError(
                    f"{self} has an end that is no {'whole ' if kinds == (int,) else ''}number: "
                    f"{end!r:.40}",
                    fix="give two finite numbers: the least and the greatest",
                )
        if self.kind == "int" and max(abs(self.low), abs(self.high)) > _LARGEST:
            raise CommandError(f"{self} is too wide", fix="keep whole numbers below 2**53")
        if not self.low < self.high:
            raise CommandError(
                f"{self} holds {'one value' if self.low == self.high else 'nothing'}",
                fix="give the least first, then the greatest; leave out what is always the same",
            )
        if self.log and self.low <= 0:
            raise CommandError(
                f"{self} begins at {self.low}, which has no logarithm",
                fix="begin above 0, or write uniform(…)",
            )

    def _check_choices(self) -> None:
        if not self.values:
            raise CommandError("there is nothing to choose from", fix="give the choices: [1, 2]")
        if len(self.values) > _MOST_CHOICES:
            raise CommandError(
                f"{len(self.values):,} choices are too many",
                fix=f"give {_MOST_CHOICES:,} at most, or a range: int(1, 100000)",
            )
        for index, value in enumerate(self.values):
            if isinstance(value, float) and not math.isfinite(value):
                raise CommandError(f"{value} cannot be chosen", fix="give finite numbers")
            if any(_same(value, other) for other in self.values[:index]):
                raise CommandError(
                    f"{value!r:.40} is among the choices twice", fix="give each choice once"
                )

    def __str__(self) -> str:
        if self.kind == "choice":
            text = f"[{', '.join(f'{value!r:.40}' for value in self.values)}]"
            return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
        name = "loguniform" if self.log else "uniform" if self.kind == "float" else "int"
        if self.kind == "int" and self.log:
            return f"int({self.low!r}, {self.high!r}, log=True)"
        return f"{name}({self.low!r:.40}, {self.high!r:.40})"

    @property
    def size(self) -> int | None:
        """How many values there are; None without an end."""
        if self.kind == "choice":
            return len(self.values)
        return int(self.high) - int(self.low) + 1 if self.kind == "int" else None

    @property
    def is_plain(self) -> bool:
        """Whether all choices are such that a study can keep them."""
        kept = (bool, int, float, str)
        return all(value is None or isinstance(value, kept) for value in self.values)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The choices as a study keeps them: what is no plain value by its number and words."""
        if self.is_plain:
            return self.values
        return tuple(f"{index}: {value!r:.60}" for index, value in enumerate(self.values))

    def value_of(self, kept: object) -> Any:  # noqa: ANN401 - as it was given
        """Return the value for what a study keeps of it, `kept`: a number, or a choice's label."""
        if self.kind != "choice":
            return int(kept) if self.kind == "int" else float(kept)  # type: ignore[call-overload,arg-type]
        labels = self.labels
        return self.values[next(i for i, label in enumerate(labels) if _same(label, kept))]


def _same(one: object, other: object) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # noqa: BLE001 - arrays, and whatever else has no one answer
        return False


def loguniform(low: float, high: float) -> Domain:
    """Return the numbers from `low` to `high`, each power of ten as likely as the next.

    Parameters
    ----------
    low, high
        Both may be chosen; `low` is above 0.

    Raises
    ------
    CommandError
        They are no such numbers.
    """
    return Domain(kind="float", low=low, high=high, log=True)


def uniform(low: float, high: float) -> Domain:
    """Return the numbers from `low` to `high`, each as likely as any other.

    Parameters
    ----------
    low, high
        Both may be chosen.

    Raises
    ------
    CommandError
        They are no such numbers.
    """
    return Domain(kind="float", low=low, high=high)


def integer(low: int, high: int, *, log: bool = False) -> Domain:
    """Return the whole numbers from `low` to `high`; in text, ``int(1, 8)`` means the same.

    Parameters
    ----------
    low, high
        Both may be chosen.
    log
        Whether each power of ten is as likely as the next.

    Raises
    ------
    CommandError
        They are no such numbers.
    """
    return Domain(kind="int", low=low, high=high, log=log)


def choice(values: Iterable[Any]) -> Domain:
    """Return the choice among `values`; a list in its place means the same.

    Parameters
    ----------
    values
        1,000 at most, each once.

    Raises
    ------
    CommandError
        There are none, too many, or one twice.
    """
    return Domain(kind="choice", values=tuple(values))


_FUNCTIONS: dict[str, Callable[..., Domain]] = {
    "loguniform": loguniform,
    "uniform": uniform,
    "int": integer,
    "integer": integer,
    "choice": choice,
}


@dataclass(frozen=True, slots=True)
class Space:
    """A domain for each name.

    Parameters
    ----------
    domains
        At least one.
    """

    domains: Mapping[str, Domain]

    def __post_init__(self) -> None:
        if not self.domains:
            raise CommandError(
                "there is nothing to search: the space is empty", fix=f'write "{_EXAMPLE}"'
            )

    @classmethod
    def of(cls, given: object) -> Space:
        """Return the space that a mapping or a text means.

        Parameters
        ----------
        given
            ``{"rate": loguniform(1e-4, 1e-1), "units": [32, 64]}``, or text of the same.

        Raises
        ------
        CommandError
            It is none; where says at which name or character.
        """
        if isinstance(given, Space):
            return given
        if isinstance(given, str):
            return cls(_parsed(given))
        if not isinstance(given, Mapping):
            raise CommandError(
                f"{given!r:.60} is no space to search",
                fix='give a dict: {"rate": loguniform(1e-4, 1e-1), "units": [32, 64]}',
            )
        domains = {}
        for name, value in given.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise CommandError(
                    f"{name!r:.40} is no name that a function could take",
                    fix="name the arguments of the function",
                )
            with _at(f"{name}="):
                domains[name] = _domain(value)
        return cls(domains)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order given."""
        return tuple(self.domains)

    def __str__(self) -> str:
        return "; ".join(f"{name}={domain}" for name, domain in self.domains.items())

    def check_names(self, known: Collection[str], owner: str, kind: str = "argument") -> None:
        """Refuse names that mean nothing to what runs.

        Parameters
        ----------
        known
            Those that do.
        owner
            Who has them, in words: ``train()``.
        kind
            What they are of it.

        Raises
        ------
        CommandError
            There are such names; all are named.
        """
        unknown = [name for name in self.names if name not in known]
        if not unknown:
            return
        near = difflib.get_close_matches(unknown[0], known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        listed = ", ".join(sorted(known)) or "none"
        raise CommandError(
            f"{owner} has no {kind} {', '.join(unknown)}", fix=f"{meant}it has {listed}"
        )

    def grid_size(self) -> int:
        """Return how many points a grid has.

        Raises
        ------
        CommandError
            A range of numbers has no end of them, or the grid is too large.
        """
        endless = [f"{name}={domain}" for name, domain in self.domains.items() if not domain.size]
        if endless:
            raise CommandError(
                f"a grid over {'; '.join(endless)} has no end",
                fix="give choices ([0.001, 0.01, 0.1]) or whole numbers (int(1, 8)), or take "
                "another sampler",
            )
        size = math.prod(domain.size or 0 for domain in self.domains.values())
        if size > _MOST_IN_A_GRID:
            raise CommandError(
                f"the grid has {size:,} points", fix="give fewer choices, or take another sampler"
            )
        return size

    def grid(self) -> dict[str, list[Any]]:
        """Return each name's values, as a study keeps them.

        Raises
        ------
        CommandError
            As `grid_size`.
        """
        self.grid_size()
        return {
            name: list(domain.labels)
            if domain.kind == "choice"
            else list(range(int(domain.low), int(domain.high) + 1))
            for name, domain in self.domains.items()
        }

    @property
    def objects(self) -> dict[str, tuple[Any, ...]]:
        """The choices that a study cannot keep, by name: workers have them."""
        return {name: domain.values for name, domain in self.domains.items() if not domain.is_plain}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: choices as a study keeps them."""
        return {
            name: {**asdict(domain), "values": list(domain.labels)}
            for name, domain in self.domains.items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Space:
        """Build from what `to_json` returned; its values are those that a study keeps.

        Parameters
        ----------
        data
            What it returned.

        Raises
        ------
        CommandError
            It is no space.
        """
        return cls(
            {
                name: Domain(**{**domain, "values": tuple(domain["values"])})
                for name, domain in data.items()
            }
        )

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return what Optuna samples from."""
        from optuna import distributions as kinds  # noqa: PLC0415 - where a sweep is made

        def one(domain: Domain) -> BaseDistribution:
            if domain.kind == "choice":
                return kinds.CategoricalDistribution(domain.labels)
            if domain.kind == "int":
                return kinds.IntDistribution(int(domain.low), int(domain.high), log=domain.log)
            return kinds.FloatDistribution(float(domain.low), float(domain.high), log=domain.log)

        return {name: one(domain) for name, domain in self.domains.items()}

    def values(self, kept: Mapping[str, object]) -> dict[str, Any]:
        """Return what a trial's code is given for what the study keeps, `kept`, by name."""
        return {
            name: domain.value_of(kept[name])
            for name, domain in self.domains.items()
            if name in kept
        }


def _domain(value: object) -> Domain:
    if isinstance(value, Domain):
        return value
    if isinstance(value, range) and value.step == 1 and len(value) > 1:
        return integer(value.start, value.stop - 1)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return choice(value)
    if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):  # numpy.logspace(-4, -1, 4)
        return choice(value.tolist())
    raise CommandError(
        f"{value!r:.40} is no range and no list of choices",
        fix="write for example [32, 64], loguniform(1e-4, 1e-1), uniform(0, 1) or integer(1, 8)",
    )


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Say where what is refused stands."""
    try:
        yield
    except CommandError as error:
        raise CommandError(error.what, where=where, fix=error.fix) from None


def _parsed(text: str) -> dict[str, Domain]:
    """Read a space from text, by Python's own grammar; nothing of it is run."""
    if len(text) > _LONGEST:
        raise CommandError(
            f"the space has {len(text):,} characters", fix="give it in Python: sweep(train, {…})"
        )
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None)
        raise CommandError(
            f"{text.strip()!r:.80} is no space to search",
            where=f"character {column}" if column else "",
            fix=f'write "{_EXAMPLE}"',
        ) from None
    domains: dict[str, Domain] = {}
    for statement in tree.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if (
            not isinstance(statement, ast.Assign)
            or not isinstance(target, ast.Name)
            or len(statement.targets) > 1
        ):
            raise CommandError(
                f"{_source(text, statement)!r:.60} gives no name its values",
                where=_place(statement),
                fix=f'write "{_EXAMPLE}"',
            )
        name = target.id
        if name in domains:
            raise CommandError(
                f"{name} is given twice", where=_place(statement), fix="give each name once"
            )
        with _at(f"{name}={_source(text, statement.value)}"):
            domains[name] = _read(statement.value)
    return domains


def _read(node: ast.expr) -> Domain:
    if not isinstance(node, ast.Call):
        return _domain(list(_literal(node)) if _is_list(node) else _literal(node))
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    make = _FUNCTIONS.get(name)
    if make is None:
        near = difflib.get_close_matches(name, _FUNCTIONS, n=1)
        raise CommandError(
            f"{ast.unparse(node.func):.40} is no kind of range",
            fix=f"{f'did you mean {near[0]}? ' if near else ''}there are loguniform(low, high), "
            "uniform(low, high), int(low, high), choice([…]) and […]",
        )
    if any(each.arg is None for each in node.keywords):
        raise CommandError("`**` says nothing here", fix=f'write "{_EXAMPLE}"')
    given = [_literal(each) for each in node.args]
    named = {each.arg: _literal(each.value) for each in node.keywords if each.arg}
    try:
        return make(*given, **named)
    except TypeError:
        takes = "([1, 2, 3])" if name == "choice" else "(low, high)"
        raise CommandError(
            f"{ast.unparse(node):.60} is not how {name} is written", fix=f"write {name}{takes}"
        ) from None


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.Tuple, ast.Set))


def _literal(node: ast.expr) -> Any:  # noqa: ANN401 - any value
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise CommandError(
            f"{ast.unparse(node):.60} is no plain value",
            fix="write numbers, texts and lists of them; anything else goes into "
            "sweep(train, {…}) in Python",
        ) from None


def _source(text: str, node: ast.AST) -> str:
    return ast.get_source_segment(text.strip(), node) or ast.unparse(node)


def _place(node: ast.stmt) -> str:
    return f"character {node.col_offset + 1}" if node.lineno == 1 else f"line {node.lineno}"
