"""Webhooks: addresses that are told when a job has ended.

Such an address is a secret: whoever knows one of Slack's can write into its channel. So a spec says
it in JSON, and on every record and page, by a reference, ``hooks.slack.com#1f0e…``: its host, which
is all that is shown, and a digest. What it stands for lies in the home of the jobs
(`submarine_engine.clusters.outbox`), so that a job that runs again, from any process, tells the
same.
"""

from __future__ import annotations

import re

from submarine_engine.errors import CommandError

NONE = "none"
"""What `JobSpec.notify` says where nobody is to be told, whatever the settings say."""

_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"[^\s/#@?\\]{1,262}#[0-9a-f]{16}")
_LONGEST = 2048
_WAY_OUT = (
    "write --notify https://…, or the name of a secret that holds the address: --notify SLACK_URL"
)


def check(text: object) -> None:
    """Refuse what is no webhook; the error does not show it.

    Parameters
    ----------
    text
        An address, the name of a secret that holds one, a reference, or `NONE`.

    Raises
    ------
    CommandError
        It is none of them.
    """
    if not isinstance(text, str):
        raise _refused("it is no text")
    if _SECRET.fullmatch(text) or _REFERENCE.fullmatch(text):
        return
    check_address(text)


def check_address(text: str) -> None:
    """Refuse `text` where it is no address of a webhook, as `check` does."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - few jobs have a webhook

    if len(text) > _LONGEST:
        raise _refused(f"it is longer than {_LONGEST} characters")
    if not text.isascii() or re.search(r"[\x00-\x20\x7f\\]", text):
        raise _refused("it holds a space, or a character that no address has")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _refused("it is no address") from None
    if parts.scheme not in ("http", "https"):
        raise _refused("it does not begin with https:// or http://")
    if not parts.hostname or port == 0:
        raise _refused("it names no host")
    if "@" in parts.netloc:
        raise _refused("it has a user or a password before its host")


def _refused(why: str) -> CommandError:
    return CommandError(f"the webhook cannot be used: {why}", where="--notify", fix=_WAY_OUT)


def is_address(text: str) -> bool:
    """Return whether a text that `check` lets pass is an address itself."""
    return not (_SECRET.fullmatch(text) or _REFERENCE.fullmatch(text))


def is_secret(text: str) -> bool:
    """Return whether a text that `check` lets pass names a secret."""
    return text != NONE and _SECRET.fullmatch(text) is not None


def reference(text: str) -> str:
    """Return what stands for `text` where others may see it, if it is an address; else itself."""
    if not is_address(text):
        return text
    import hashlib  # noqa: PLC0415 - few jobs have a webhook
    from urllib.parse import urlsplit  # noqa: PLC0415 - likewise

    return f"{urlsplit(text).netloc.lower()}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def host(text: str) -> str:
    """Return what people are shown of the webhook `text`: the host of an address or reference."""
    return reference(text).partition("#")[0]


def is_reference(text: str) -> bool:
    """Return whether a text stands for an address, which `clusters.outbox` keeps."""
    return _REFERENCE.fullmatch(text) is not None
