"""``%%submarine`` and its kin for IPython, with the job card."""


def load_ipython_extension(shell: object) -> None:
    """Load."""
