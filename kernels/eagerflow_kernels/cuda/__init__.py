"""GPUs of NVIDIA, by CuPy. No module here loads CuPy, or touches a GPU, before a device is used."""

from eagerflow_kernels.cuda.backend import CudaBackend as CudaBackend
