"""Where a task begins: the driver starts ``PYTHON -u …/submarine_runtime/__main__.py TASKFOLDER``.

With ``--ahead`` it begins a zygote instead (`zygote`).
"""

import sys


def _main() -> None:
    here = __file__.rpartition("/")[0]
    home = here.rpartition("/")[0]
    if sys.path and sys.path[0] == here:  # not so under PYTHONSAFEPATH
        del sys.path[0]
    sys.path.insert(0, home)
    from submarine_runtime.task import main  # noqa: PLC0415 - found by the line above

    del sys.path[0]
    if home not in sys.path:
        sys.path.append(home)  # last: nothing of the user's is hidden by what lies beside us
    folder = sys.argv[1]
    if folder in ("--ahead", "--ahead-of-job"):
        from submarine_runtime import zygote  # noqa: PLC0415 - no task waits for it

        serve = zygote.serve if folder == zygote.OPTION else zygote.serve_job
        folder = serve(sys.argv[2])  # comes back in the forks that are tasks
    main(folder)


if __name__ == "__main__":
    _main()
