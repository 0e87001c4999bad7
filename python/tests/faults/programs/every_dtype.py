import numpy as np

from sandpool.env import serve

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def values():
    arrays = {name: (np.arange(6).reshape(2, 3) % 2).astype(name) for name in DTYPES}
    scalars = {f"{name}_scalar": np.dtype(name).type(1) for name in DTYPES}
    return {
        **arrays,
        **scalars,
        "empty": np.zeros((0, 4), dtype="float32"),
        "big_endian": np.arange(3, dtype=">i4"),
        "transposed": np.arange(6).reshape(2, 3).T,
    }


serve(
    reset=lambda seed: values(),
    step=lambda action: (values(), np.float32(0.5), np.bool_(False), np.bool_(False), {"value": np.int64(3)}),
)
