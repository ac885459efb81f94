"""``%%submarine`` and its kin for IPython, with the job card."""
