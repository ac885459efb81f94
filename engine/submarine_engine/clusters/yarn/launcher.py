"""The program that stands for ``python3`` in a packed environment.

It is a script, so that whatever starts Python there (the runtime, a data loader, a console script)
gets the layers beside it, whatever it has made of its environment. It needs bash, as skein does.
"""

from __future__ import annotations

BASE = "base"
REAL = "libexec"
"""Folder of the interpreter itself, in the base layer; libraries are found from it as from bin."""

PTH = (
    b"import os, site; list(map(site.addsitedir,"
    b" filter(None, os.environ.get('SUBMARINE_LAYERS', '').split(os.pathsep))))\n"
)
"""Puts the layers on ``sys.path`` as if they were installed: with their own ``.pth`` files."""

_SCRIPT = """\
#!/bin/bash
case $0 in */*) self=$0 ;; *) self=$(type -P "$0") ;; esac
home=$(cd -L "${self%/*}/.." && pwd -L)
export SUBMARINE_ENVIRONMENT="${SUBMARINE_ENVIRONMENT:-${home%/*}}"
export PYTHONNOUSERSITE=1 SUBMARINE_LAYERS=
unset PYTHONHOME
programs=$SUBMARINE_ENVIRONMENT/BASE/bin
for layer in "$SUBMARINE_ENVIRONMENT"/{local,large-*,small}; do
    [ -d "$layer/site" ] && SUBMARINE_LAYERS=$SUBMARINE_LAYERS:$layer/site
    [ -d "$layer/bin" ] && programs=$programs:$layer/bin
done
case :$PATH: in *":$programs:"*) ;; *) export PATH=$programs:$PATH ;; esac
LIBRARIES
exec -a "$home/bin/${self##*/}" "$home/REAL/PROGRAM" "$@"
"""
_LIBRARIES = """\
case :$LD_LIBRARY_PATH: in *":$home/lib:"*) ;; *)
    export LD_LIBRARY_PATH=$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ;;
esac"""


def launcher(program: str, *, shared: bool) -> bytes:
    """Return the script.

    Parameters
    ----------
    program
        The interpreter's name, as in ``python3.11``.
    shared
        Whether it is linked to a library of its own, which lies in the base's ``lib``.
    """
    text = _SCRIPT.replace("LIBRARIES", _LIBRARIES if shared else ":")
    for word, value in {"BASE": BASE, "REAL": REAL, "PROGRAM": program}.items():
        text = text.replace(word, value)
    return text.encode()
