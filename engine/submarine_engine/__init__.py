"""Submarine's compute engine: what a job is, and where it runs."""
