"""Where a supervisor or a keeper begins; started by its path, ``python -I -S __main__.py …``.

``-I -S`` leaves out the site packages and the user's own start-up files: they cost more than
everything else here, and neither process needs them. The engine is found from this file's place.
"""

import sys


def _main() -> None:
    sys.path.insert(0, __file__.rsplit("/", 4)[0])
    kind, *arguments = sys.argv[1:]
    if kind == "supervise":
        from submarine_engine.clusters.local.supervisor import main  # noqa: PLC0415 - only one
    else:
        from submarine_engine.clusters.local.keeper import main  # noqa: PLC0415 - only one
    main(arguments)


if __name__ == "__main__":
    _main()
