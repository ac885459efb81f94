"""The "Submarine (Python)" kernel: IPython's, with the magics loaded, tagged cells as jobs."""

from submarine_kernel.kernel import SubmarineKernel

__all__ = ["SubmarineKernel"]
