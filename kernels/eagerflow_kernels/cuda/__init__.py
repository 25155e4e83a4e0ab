"""GPUs of NVIDIA, by CuPy, which is imported, as a GPU is touched, only when a device is used."""

from eagerflow_kernels.cuda.backend import CudaBackend as CudaBackend
