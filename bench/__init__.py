"""How fast, beside plain Python and submitit on the same work in the same run: ``make bench``."""
