"""GPUs of NVIDIA, by CuPy. Nothing here imports CuPy, or touches a GPU, before a device is used."""

from eagerflow_kernels.cuda.backend import CudaBackend as CudaBackend
