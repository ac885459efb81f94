"""Started by Jupyter: ``python -m submarine_kernel -f CONNECTION_FILE``."""

from submarine_kernel.kernel import KernelApp, SubmarineKernel

if __name__ == "__main__":
    KernelApp.launch_instance(kernel_class=SubmarineKernel)
