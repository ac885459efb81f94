"""Submarine in Apache Zeppelin: an interpreter process whose sessions are Jupyter kernels."""
