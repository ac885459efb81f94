"""Started by Jupyter: ``python -m submarine_kernel -f CONNECTION_FILE``."""

from ipykernel.kernelapp import IPKernelApp

from submarine_kernel.kernel import SubmarineKernel

if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=SubmarineKernel)
