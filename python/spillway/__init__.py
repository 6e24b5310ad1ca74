# SPDX-License-Identifier: Apache-2.0
"""Requests of a Spillway gateway as NumPy or PyTorch tensors, without a copy.

The one line: where a program that serves a model made its input tensor, it says

    x = spillway.tensor((1, 784), "float32")

and x is the next request's data, in the memory into which the gateway delivered it. The program goes on as
before; `spillway.answer(y)` sends y back through the gateway, unless the program answers in its own way.

A client on the gateway's host writes its requests where the gateway reads them:

    client = spillway.Client("unix:/run/spillway-gateway/frames.sock")
    x = client.tensor((1, 784), "float32")
    x[:] = ...
    y = client.infer("digits", x)

Tensors are row-major. dtypes are bool, (u)int8 to (u)int64, float16, float32 and float64, by NumPy's names or as
torch.float32 and its like. Errors are spillway.Error's subclasses: BadArgument, GatewayGone, WindowFull, Refused.
Neither the functions nor a Client may be used by two threads at a time.
"""
import os
import sys

import numpy

from . import _spillway
from .errors import BadArgument, Error, GatewayGone, Refused, WindowFull

__all__ = ["BadArgument", "Client", "Error", "GatewayGone", "Refused", "WindowFull", "answer", "refuse", "tensor"]

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


def _token(path):
    if not path:
        return ""
    try:
        with open(path, encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o7777
            if mode & 0o077:
                raise BadArgument(f"token_file: expected a file that only its owner may read, such as mode 0600, "
                                  f"got {path} of mode {mode:04o}")
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgument(f"token_file: expected a readable file with the gateway's token, got {path}: {error}") from error


def tensor(shape, dtype="float32", *, output_shape=None, output_dtype=None, model=None, gateway=None,
           token_file=None, gflop_per_s=1.0, gpu=None):
    """Waits for the next request, and returns its input where the gateway delivered it, without a copy.

    The first call offers the model to the gateway; later ones name the same. A request that was not answered by
    then is answered with zeros.

    shape, dtype: of the input, such as (1, 784) and "float32". The extents are fixed: a request has them all.
    output_shape, output_dtype: of what answer() sends; the input's where not given.
    model: the name under which clients ask; the program's file name, without .py, where not given.
    gateway: the path of the gateway's socket for executors, or, of a gateway on another machine such as the
        SmartNIC, "rdma:ADDRESS:PORT"; $SPILLWAY_GATEWAY where not given.
        A program with "rdma:..." must not fork afterwards (multiprocessing: start method "spawn").
    token_file: a file, readable by its owner only, with the gateway's token for executors; $SPILLWAY_TOKEN_FILE where
        not given. "rdma:..." needs one; a socket does where the gateway's executors.users has not this user.
    gflop_per_s: the program's speed in GFLOP/s, from which the gateway foresees when it is done, until it has seen it.
    gpu: the GPU that the program uses, by which the gateway keeps tenants apart under `isolation: gpu`: an index as in
        nvidia-smi, "GPU-UUID", "MIG-UUID", or "none"; $SPILLWAY_GPU where not given, and the first that CUDA shows
        the program where neither is.

    Returns a NumPy array of that shape, or a torch.Tensor for a torch dtype. It is valid, and writable, until
    the next call.
    Raises BadArgument (an argument, or another tensor than in the first call), GatewayGone (it is not there, or
    ended while this waited), Refused (it did not take the offer).
    """
    shape = _shape(shape)
    word = _word(dtype)
    out_shape = _shape(output_shape, "output_shape") if output_shape is not None else shape
    out_word = _word(output_dtype) if output_dtype is not None else word
    asked = (shape, word, out_shape, out_word, model, gateway, token_file, gpu)
    if _Serving.program is None:
        path = gateway or os.environ.get("SPILLWAY_GATEWAY")
        if not path:
            raise BadArgument("gateway: expected it, or $SPILLWAY_GATEWAY: the path of the gateway's socket for executors")
        token = _token(token_file or os.environ.get("SPILLWAY_TOKEN_FILE"))
        if path.startswith("rdma:") and not token:
            raise BadArgument("token_file: expected it, or $SPILLWAY_TOKEN_FILE: a file with the gateway's token for "
                              "executors")
        device = str(gpu if gpu is not None else os.environ.get("SPILLWAY_GPU", ""))
        own = os.path.splitext(os.path.basename(sys.argv[0] or "program"))[0] or "program"
        name = model or own
        _Serving.program = _spillway.Program(path, token, f"{name}-{os.getpid()}", name, word, list(shape),
                                             out_word, list(out_shape), gflop_per_s, device)
        _Serving.asked = asked
        _Serving.output = (out_shape, out_word)
    elif _Serving.asked != asked:
        raise BadArgument(f"tensor: expected the same arguments as before, {_Serving.asked}, got {asked}: a program "
                          "serves one model")
    return _view(_Serving.program.take(), shape, word, _wants_torch(dtype))


def answer(output):
    """Sends `output` to whom the request in hand is from.

    output: an array or torch.Tensor (on any device) of tensor()'s output_shape; other dtypes are converted to
    output_dtype.
    Raises BadArgument: another shape, no tensor() before, or the request was answered already.
    """
    if _Serving.program is None:
        raise BadArgument("answer: expected tensor() before it")
    if hasattr(output, "detach"):
        output = output.detach().cpu().numpy()
    shape, word = _Serving.output
    output = numpy.ascontiguousarray(output, dtype=_NUMPY[word])
    if output.shape != shape:
        raise BadArgument(f"answer: expected shape {shape}, got {output.shape}")
    _Serving.program.answer(output.view(numpy.uint8).reshape(-1))


def refuse(text):
    """Sends the request in hand back as an error (`failed`) with that text, of which 256 bytes arrive. Without a
    request in hand nothing happens."""
    if _Serving.program is not None:
        _Serving.program.refuse(str(text))


class Client:
    """A client of a gateway on this host, with a window: memory that both share.

    address: "unix:PATH", the gateway's socket of `frames`.
    tenant, token: as gateway.yaml says; without them, the first tenant that needs no token.
    window: bytes of the window, in which all tensors and outputs of this client lie at a time.
    Raises GatewayGone (nobody answers there), BadArgument (no such tenant, a wrong token, a window that the
    gateway has no memory for).
    """

    def __init__(self, address, tenant="", token="", window=64 << 20):
        # Windows are memory of one host: there is none over TCP.
        if not _text(address, "address").startswith("unix:"):
            raise BadArgument(f"address: expected unix:PATH, got {address!r}")
        if not isinstance(window, int) or not 0 < window < 1 << 63:
            raise BadArgument(f"window: expected a number of bytes, got {window!r}")
        self._client = _spillway.Client(address, _text(tenant, "tenant"), _text(token, "token"), window)
        self._models = {}
        self._pieces = {}

    def tensor(self, shape, dtype="float32"):
        """An input tensor in the window: what is written to it need not be sent. Not zeroed.

        Returns a NumPy array, or a torch.Tensor for a torch dtype; valid until free() or the client's end.
        Raises WindowFull, BadArgument.
        """
        shape = _shape(shape)
        word = _word(dtype)
        bytes_ = int(numpy.prod(shape, dtype=object)) * _NUMPY[word].itemsize
        offset, memory = self._client.allocate(bytes_)
        view = _view(memory, shape, word, False)
        self._pieces[view.__array_interface__["data"][0]] = (offset, bytes_)
        if _wants_torch(dtype):
            import torch
            return torch.from_numpy(view)
        return view

    def free(self, x):
        """Gives x's room in the window back; x must not be used any more. Raises BadArgument if x is not a whole
        tensor() of this client."""
        piece = self._pieces.pop(self._address(x), None)
        if piece is None:
            raise BadArgument("free: expected a tensor() of this client that was not freed yet")
        self._client.free(piece[0])

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
        """Runs `model`, which has one input and one output, on x, and waits for the answer.

        x: an array or torch.Tensor of the input's dtype and shape; where the model's first extent is -1, of as
        many rows as its limit allows. What is no tensor() of this client is copied into the window first.
        deadline_s: seconds until the request is given up; 0: the gateway's default.

        Returns a NumPy array with the output, a copy.
        Raises BadArgument (no such model, another dtype or shape), Refused (with the status: busy, no_slice,
        deadline, failed, ...), WindowFull, GatewayGone.
        """
        if _text(model, "model") not in self._models:
            self._models[model] = self._client.describe(model)
        index, inputs, outputs = self._models[model]
        if len(inputs) != 1 or len(outputs) != 1:
            raise BadArgument(f"model {model}: expected one input and one output, it has {len(inputs)} and {len(outputs)}")
        if not hasattr(x, "dtype") or not hasattr(x, "shape"):
            raise BadArgument(f"model {model}: expected an array or a tensor, got {type(x).__name__}")
        if not isinstance(deadline_s, (int, float)) or not 0 <= deadline_s < 1e9:
            raise BadArgument(f"deadline_s: expected seconds, 0 or more, got {deadline_s!r}")
        _, word, expected = inputs[0]
        if _word(x.dtype) != word:
            raise BadArgument(f"model {model}: expected dtype {_NUMPY[word].name}, got {x.dtype}")
        rows = int(x.shape[0]) if len(x.shape) > 0 and expected[0] == -1 else 1
        if list(x.shape) != ([rows] + expected[1:] if expected[0] == -1 else expected):
            raise BadArgument(f"model {model}: expected shape {expected}, got {list(x.shape)}")
        own = None
        if not self._whole(x):
            own = self.tensor(x.shape, x.dtype)
            own[...] = x
            x = own
        offset, bytes_ = self._pieces[self._address(x)]
        shape = [rows if extent == -1 else extent for extent in outputs[0][2]]
        dtype = _NUMPY[outputs[0][1]]
        size = int(numpy.prod(shape)) * dtype.itemsize
        out = None
        try:
            out, memory = self._client.allocate(max(size, 256))
            try:
                self._client.infer(index, rows, offset, bytes_, out, max(size, 256), int(deadline_s * 1e6))
            except Refused as error:
                # Another card may have taken the model's name: the next call asks which.
                if error.status == "no_model":
                    del self._models[model]
                raise
            return numpy.frombuffer(memory, dtype=dtype, count=size // dtype.itemsize).reshape(shape).copy()
        finally:
            if out is not None:
                self._client.free(out)
            if own is not None:
                self.free(own)
