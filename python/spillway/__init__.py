# SPDX-License-Identifier: Apache-2.0
"""Requests of a Spillway gateway as NumPy or PyTorch tensors, without a copy.

The one line: where a program that serves a model made its input tensor, it says

    x = spillway.tensor((1, 784), "float32")

and x is the next request's data, in the memory into which the gateway delivered it. The program goes on as
before; `spillway.answer(y)` sends y back through the gateway, unless the program answers in its own way.

A client on the gateway's host writes its requests where the gateway reads them:

    client = spillway.Client("unix:/run/spillway/gateway.sock")
    x = client.tensor((1, 784), "float32")
    x[:] = ...
    y = client.infer("digits", x)
"""
import os
import sys

import numpy

from . import _spillway

__all__ = ["Client", "answer", "refuse", "tensor"]

_TYPES = {"bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
          "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16",
          "float32": "FP32", "float64": "FP64"}
_NUMPY = {word: numpy.dtype(name) for name, word in _TYPES.items()}


def _word(dtype):
    # torch.float32 says "torch.float32"; NumPy takes everything else.
    name = str(dtype)[6:] if str(dtype).startswith("torch.") else numpy.dtype(dtype).name
    if name not in _TYPES:
        raise ValueError(f"dtype {name}: expected one of {', '.join(_TYPES)}")
    return _TYPES[name]


def _wants_torch(dtype):
    return str(dtype).startswith("torch.")


def _view(memory, shape, word, as_torch):
    array = numpy.frombuffer(memory, dtype=_NUMPY[word], count=int(numpy.prod(shape))).reshape(shape)
    if not as_torch:
        return array
    import torch
    return torch.from_numpy(array)


class _Serving:
    """This program's slice, made by the first tensor()."""
    program = None
    asked = None
    output = None


def tensor(shape, dtype="float32", *, output_shape=None, output_dtype=None, model=None, gateway=None,
           gflop_per_s=1.0):
    """The next request's input: a NumPy array (or, for a torch dtype, a tensor) on the memory into which the
    gateway delivered it; no copy is made. Waits for it. It is valid until the next call.

    shape, dtype: of the input; output_shape, output_dtype: of what answer() sends, by default the input's.
    model: the name under which clients ask, by default the program's; gateway: the path of the gateway's socket
    for executors, by default $SPILLWAY_GATEWAY. Raises ConnectionError when the gateway is not there or goes.
    """
    shape = tuple(int(extent) for extent in shape)
    word = _word(dtype)
    out_shape = tuple(int(extent) for extent in output_shape) if output_shape is not None else shape
    out_word = _word(output_dtype) if output_dtype is not None else word
    asked = (shape, word, out_shape, out_word, model, gateway)
    if _Serving.program is None:
        path = gateway or os.environ.get("SPILLWAY_GATEWAY")
        if not path:
            raise ValueError("expected gateway=, or SPILLWAY_GATEWAY: the path of the gateway's socket for executors")
        own = os.path.splitext(os.path.basename(sys.argv[0] or "program"))[0] or "program"
        name = model or own
        _Serving.program = _spillway.Program(path, f"{name}-{os.getpid()}", name, word, list(shape), out_word,
                                             list(out_shape), gflop_per_s)
        _Serving.asked = asked
        _Serving.output = (out_shape, out_word)
    elif _Serving.asked != asked:
        raise ValueError("expected the same tensor as before: a program serves one model")
    return _view(_Serving.program.take(), shape, word, _wants_torch(dtype))


def answer(output):
    """Sends `output` back to whom the request in hand is from; its shape and dtype are tensor()'s."""
    if _Serving.program is None:
        raise ValueError("expected tensor() before answer()")
    if hasattr(output, "detach"):
        output = output.detach().cpu().numpy()
    shape, word = _Serving.output
    output = numpy.ascontiguousarray(output, dtype=_NUMPY[word])
    if output.shape != shape:
        raise ValueError(f"answer: expected shape {shape}, got {output.shape}")
    _Serving.program.answer(output.view(numpy.uint8).reshape(-1) if output.ndim else output.reshape(1))


def refuse(text):
    """The request in hand goes back as an error."""
    if _Serving.program is not None:
        _Serving.program.refuse(str(text))


class Client:
    """A client of a gateway on this host, over its UNIX socket and a window of `window` bytes."""

    def __init__(self, address, tenant="", token="", window=64 << 20):
        self._client = _spillway.Client(address, tenant, token, window)
        self._models = {}
        self._pieces = {}

    def tensor(self, shape, dtype="float32"):
        """An input tensor in the window: what is written to it need not be sent."""
        shape = tuple(int(extent) for extent in shape)
        word = _word(dtype)
        bytes_ = int(numpy.prod(shape)) * _NUMPY[word].itemsize
        offset, memory = self._client.allocate(max(bytes_, 1))
        view = _view(memory, shape, word, False)
        self._pieces[view.__array_interface__["data"][0]] = (offset, bytes_)
        if _wants_torch(dtype):
            import torch
            return torch.from_numpy(view)
        return view

    def free(self, x):
        """Gives x's room in the window back; x must not be used any more."""
        self._client.free(self._pieces.pop(self._address(x))[0])

    @staticmethod
    def _address(x):
        return x.data_ptr() if hasattr(x, "data_ptr") else x.__array_interface__["data"][0]

    def _whole(self, x):
        # A view of a tensor() may begin where it begins, and still be other data: transposed, or every second.
        piece = self._pieces.get(self._address(x))
        torch = hasattr(x, "data_ptr")
        whole = x.is_contiguous() if torch else x.flags.c_contiguous
        bytes_ = x.numel() * x.element_size() if torch else x.nbytes
        return piece is not None and whole and bytes_ == piece[1]

    def infer(self, model, x, deadline_s=0):
        """Runs `model`, which has one input and one output, on x. What is not of tensor() is copied first."""
        if model not in self._models:
            self._models[model] = self._client.describe(model)
        index, inputs, outputs = self._models[model]
        if len(inputs) != 1 or len(outputs) != 1:
            raise ValueError(f"model {model}: expected one input and one output")
        own = None
        if not self._whole(x):
            own = self.tensor(x.shape, x.dtype)
            own[...] = x
            x = own
        if _word(x.dtype) != inputs[0][1]:
            raise ValueError(f"model {model}: expected {inputs[0][1]}, got {_word(x.dtype)}")
        rows = int(x.shape[0]) if inputs[0][2][0] == -1 else 1
        if tuple(x.shape) != tuple([rows] + inputs[0][2][1:] if inputs[0][2][0] == -1 else inputs[0][2]):
            raise ValueError(f"model {model}: expected shape {inputs[0][2]}, got {list(x.shape)}")
        offset, bytes_ = self._pieces[self._address(x)]
        shape = [rows if extent == -1 else extent for extent in outputs[0][2]]
        dtype = _NUMPY[outputs[0][1]]
        size = int(numpy.prod(shape)) * dtype.itemsize
        out, memory = self._client.allocate(max(size, 256))
        try:
            self._client.infer(index, rows, offset, bytes_, out, max(size, 256), int(deadline_s * 1e6))
            return numpy.frombuffer(memory, dtype=dtype, count=size // dtype.itemsize).reshape(shape).copy()
        finally:
            self._client.free(out)
            if own is not None:
                self.free(own)
