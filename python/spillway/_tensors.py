# SPDX-License-Identifier: Apache-2.0
"""What callers say of tensors: dtypes, shapes, texts. Where a tensor goes (device="cuda") is __init__.py's."""
import numpy

from .errors import BadArgument

_TYPES = {"bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
          "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16",
          "float32": "FP32", "float64": "FP64"}
_NUMPY = {word: numpy.dtype(name) for name, word in _TYPES.items()}


def _word(dtype):
    # torch.float32 says "torch.float32"; NumPy takes everything else.
    try:
        name = str(dtype)[6:] if str(dtype).startswith("torch.") else numpy.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in _TYPES:
        raise BadArgument(f"dtype: expected one of {', '.join(_TYPES)}, got {name}")
    return _TYPES[name]


def _shape(shape, name="shape"):
    try:
        extents = tuple(int(extent) for extent in shape)
    except (TypeError, ValueError):
        extents = ()
    if not extents or min(extents) < 1:
        raise BadArgument(f"{name}: expected a tuple of extents from 1 on, such as (1, 784), got {shape!r}")
    return extents


def _text(value, name):
    if not isinstance(value, str):
        raise BadArgument(f"{name}: expected a text, got {value!r}")
    return value


def _wants_torch(dtype):
    return str(dtype).startswith("torch.")


def _view(memory, shape, word):
    return numpy.frombuffer(memory, dtype=_NUMPY[word], count=int(numpy.prod(shape))).reshape(shape)
