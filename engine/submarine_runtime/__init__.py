"""The code that runs inside a job's container: standard library only."""
