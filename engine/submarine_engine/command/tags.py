"""What the tags of a notebook's cell ask for."""

from __future__ import annotations

TAG = "submarine"


def job_options(tags: object) -> str | None:
    """Return the options of the job that `tags` ask for; None where they ask for none.

    A cell tagged ``submarine`` is a job. Options follow a colon, in the same tag or in more of
    them (JupyterLab splits tags at spaces): ``submarine:--gpus=2``, ``submarine:--name=mnist``.

    Parameters
    ----------
    tags
        Those of the cell, as its metadata has them.
    """
    if not isinstance(tags, list):
        return None
    found = False
    options = []
    for tag in tags:
        if not isinstance(tag, str):
            continue
        name, _, rest = tag.partition(":")
        if name.strip() == TAG:
            found = True
            options.append(rest.strip())
    return " ".join(option for option in options if option) if found else None
