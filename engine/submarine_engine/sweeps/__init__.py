"""Sweeps: many trials of one function or cell, for which Optuna chooses the parameters."""
