"""What is a secret: it never becomes text of a script, and so none of a card or a notebook.

One rule for the variables of the environment, which do not travel, and for those of the notebook,
which travel as values: in a file that is the owner's alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from submarine_engine.bundle.source import literal
from submarine_engine.masking import SHORTEST

# Not what only begins like one: tokenizer, author, keyword, keypoints, passes, passenger.
_NAME = re.compile(
    r"SECRET|TOKEN(?!I[SZ])|PASS(?!E[SND]|ING|IVE|AGE|T)|(?<!MON)KEY(?![WPFB]|S$)|CREDENTIAL"
    r"|AUTH(?!OR)|COOKIE|PRIVATE",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|ASIA)[A-Za-z0-9_-]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\."
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|://[^/\s:@]*:[^/\s@]+@"  # a URL with a password
    r"|\A(?:Basic|Bearer) +(?=\S*[0-9=])[A-Za-z0-9+/=._~-]{8,}\Z"
)
_KEY_FILE = "PRIVATE KEY-----"
_SHORTEST = 8
_LONGEST = 1 << 16  # more than any key has; a text of a gigabyte is not gone through
_DEEPEST = 8


_declared: ContextVar[Collection[str]] = ContextVar("submarine_secrets", default=())


@contextmanager
def declared(names: Collection[str]) -> Iterator[None]:
    """Take these variables of the environment for secrets, whatever they look like.

    Parameters
    ----------
    names
        What ``--secret`` says.
    """
    token = _declared.set(names)
    try:
        yield
    finally:
        _declared.reset(token)


def has_secret_name(name: str) -> bool:
    """Return whether a variable of this name holds a secret, as far as a name tells."""
    return _NAME.search(name) is not None or name in _declared.get()


def looks_secret(text: str) -> bool:
    """Return whether a text has something in it that is a secret, whatever it is called.

    That is what looks like a token or a key of a well-known service, a URL with a password, or what
    a variable of the environment with a secret's name holds.
    """
    return _looks_secret(text, _Environment())


def is_secret(name: str, value: object) -> bool:
    """Return whether a value is a secret, or a list, tuple, set or dict with one in it.

    A text is one that a secret's name names, that has one in it (see `looks_secret`), or that is in
    the environment and no path. One shorter than eight characters is none.

    Parameters
    ----------
    name
        What the value is called: a variable, a parameter, the key of a dict.
    """
    # What is no text and has no literal never becomes text, and may be as large as memory.
    if type(value) not in (str, bytes) and literal(value) is None:
        return False
    return _is_secret(name, value, 0, _Environment())


def secret_texts(name: str, value: object) -> Iterator[str]:
    """Yield the secrets in a value that `is_secret`, as they would stand in a log.

    Of a sentence with a secret in it, that alone.

    Parameters
    ----------
    name, value
        As `is_secret` has them.
    """
    yield from _secret_texts(name, value, 0, _Environment())


def shown(value: object) -> str:
    """Return what people see of the secret `value`: ``<secret, str, 37 chars>``."""
    if isinstance(value, str):
        return f"<secret, str, {len(value)} chars>"
    if isinstance(value, bytes):
        return f"<secret, bytes, {len(value)} bytes>"
    return f"<{type(value).__name__} with a secret>"


class _Environment:
    """What the variables of the environment hold, but for paths; read once for many texts."""

    def __init__(self) -> None:
        self.values = {
            value
            for value in os.environ.values()
            if len(value) >= _SHORTEST and not value.startswith(("/", "~", "."))
        }
        self.secrets = [
            value
            for name, value in os.environ.items()
            if value in self.values and has_secret_name(name)
        ]
        said = [os.environ.get(name, "") for name in _declared.get()]
        self.secrets += [value for value in said if len(value) >= SHORTEST]


def _looks_secret(text: str, environment: _Environment) -> bool:
    return _KNOWN.search(text) is not None or any(one in text for one in environment.secrets)


def _is_secret(name: str, value: object, depth: int, environment: _Environment) -> bool:
    kind = type(value)  # not isinstance: that asks a foreign object for its __class__
    if kind in (str, bytes):
        text = value if isinstance(value, str) else bytes(value[:_LONGEST]).decode("latin-1")  # type: ignore[index]  # it is one of the two
        return len(text) < _LONGEST and _is_secret_text(name, text, environment)
    if depth > _DEEPEST:  # no literal is made of such a one
        return False
    if kind is dict:
        return any(
            _is_secret(key if isinstance(key, str) else name, item, depth + 1, environment)
            or _is_secret("", key, depth + 1, environment)
            for key, item in value.items()  # type: ignore[attr-defined]  # it is one
        )
    if kind in (list, tuple, set, frozenset):
        return any(_is_secret(name, item, depth + 1, environment) for item in value)  # type: ignore[attr-defined]  # one of those
    return False


def _secret_texts(name: str, value: object, depth: int, environment: _Environment) -> Iterator[str]:
    kind = type(value)
    if kind in (str, bytes):
        text = value if isinstance(value, str) else bytes(value).decode("utf-8", "surrogateescape")  # type: ignore[call-overload]  # it is one of the two
        if len(text) < _LONGEST and _is_secret_text(name, text, environment):
            yield from (one for one in environment.secrets if one in text)
            yield from (found[0] for found in _KNOWN.finditer(text))
            if _KEY_FILE in text or not any(character.isspace() for character in text):
                yield text
    elif depth <= _DEEPEST and kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]  # it is one
            called = key if isinstance(key, str) else name
            yield from _secret_texts(called, item, depth + 1, environment)
            yield from _secret_texts("", key, depth + 1, environment)
    elif depth <= _DEEPEST and kind in (list, tuple, set, frozenset):
        for item in value:  # type: ignore[attr-defined]  # one of those
            yield from _secret_texts(name, item, depth + 1, environment)


def _is_secret_text(name: str, text: str, environment: _Environment) -> bool:
    if _looks_secret(text, environment):
        return True
    if len(text) < _SHORTEST or any(character.isspace() for character in text):
        return False
    return has_secret_name(name) or text in environment.values
