# SPDX-License-Identifier: Apache-2.0
"""Who asks a gateway."""
import numpy

from . import _spillway
from ._tensors import _NUMPY, _shape, _text, _view, _wants_torch, _word
from .errors import BadArgument, GatewayGone, Refused, WindowFull


class Client:
    """A client of a gateway, with a window where there can be one: memory in which the gateway finds a request's data.

    address: "unix:PATH" or "ADDRESS:PORT", one of the gateway's `frames`.
    tenant, token: as gateway.yaml says; without them, the first tenant that needs no token.
    window: bytes of the window, in which all tensors and outputs of this client lie at a time.
    rdma: with ADDRESS:PORT: None, a window over RDMA if gateway and this machine have it, else requests are sent in frames;
    True, a window or an error; False, frames. A client with a window over RDMA must not fork.
    Threads may share a client: its requests are sent one after the other.
    Raises GatewayGone (nobody answers there, or a machine has no RDMA and rdma=True), BadArgument (no such tenant, a wrong
    token, a window that the gateway refuses, where there must be one).

    way: "window" (memory of this host), "rdma" or "frames": how requests' data goes.
    why_frames: the reason, where it is "frames".
    """

    def __init__(self, address, tenant="", token="", window=64 << 20, rdma=None):
        _text(address, "address")
        if not isinstance(window, int) or not 0 < window < 1 << 63:
            raise BadArgument(f"window: expected a number of bytes, got {window!r}")
        if rdma not in (None, True, False) or (rdma and address.startswith("unix:")):
            raise BadArgument(f"rdma: expected None, True or False, and True with ADDRESS:PORT alone, got {rdma!r}")
        self._client = _spillway.Client(address, _text(tenant, "tenant"), _text(token, "token"), window, rdma)
        self.way = self._client.way()
        self.why_frames = self._client.why_frames()
        self._models = {}
        self._pieces = {}

    def tensor(self, shape, dtype="float32"):
        """An input tensor in the window, if there is one: infer() does not copy it. Not zeroed.

        Returns a NumPy array, or a torch.Tensor for a torch dtype; valid until free() or the client's end.
        Raises WindowFull, BadArgument.
        """
        shape = _shape(shape)
        word = _word(dtype)
        bytes_ = int(numpy.prod(shape, dtype=object)) * _NUMPY[word].itemsize
        if self.way == "frames":
            offset, view = None, numpy.empty(shape, _NUMPY[word])
        else:
            offset, memory = self._client.allocate(bytes_)
            view = _view(memory, shape, word)
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
        if piece[0] is not None:
            self._client.free(piece[0])

    @staticmethod
    def _address(x):
        """None of what is neither an array nor a tensor."""
        if hasattr(x, "data_ptr"):
            return x.data_ptr()
        return x.__array_interface__["data"][0] if hasattr(x, "__array_interface__") else None

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
        many rows as its limit allows. What is no tensor() of this client is copied into the window first, if there is one.
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
            raise BadArgument(f"deadline_s: expected seconds from 0 to less than 1e9, got {deadline_s!r}")
        _, word, expected = inputs[0]
        if _word(x.dtype) != word:
            raise BadArgument(f"model {model}: expected dtype {_NUMPY[word].name}, got {x.dtype}")
        rows = int(x.shape[0]) if len(x.shape) > 0 and expected[0] == -1 else 1
        if list(x.shape) != ([rows] + expected[1:] if expected[0] == -1 else expected):
            raise BadArgument(f"model {model}: expected shape {expected}, got {list(x.shape)}")
        shape = [rows if extent == -1 else extent for extent in outputs[0][2]]
        dtype = _NUMPY[outputs[0][1]]
        deadline_us = int(deadline_s * 1e6)
        try:
            if self.way == "frames":
                memory = self._client.infer_in_frames(index, rows, self._plain(x), deadline_us)
                self._check_size(len(memory), shape, dtype)
                return numpy.frombuffer(memory, dtype=dtype).reshape(shape).copy()
            return self._infer_in_window(index, rows, x, shape, dtype, deadline_us)
        except Refused as error:
            # Another card may have taken the model's name: the next call asks which.
            if error.status == "no_model":
                del self._models[model]
            raise

    @staticmethod
    def _check_size(bytes_, shape, dtype):
        expected = int(numpy.prod(shape)) * dtype.itemsize
        if bytes_ != expected:
            raise GatewayGone(f"the gateway answered with outputs of another size: {bytes_} bytes, expected {expected}")

    @staticmethod
    def _plain(x):
        if hasattr(x, "detach"):
            x = x.detach().cpu().numpy()
        return numpy.ascontiguousarray(x).reshape(-1).view(numpy.uint8)

    def _infer_in_window(self, index, rows, x, shape, dtype, deadline_us):
        own = None
        if not self._whole(x):
            own = self.tensor(x.shape, x.dtype)
            own[...] = x
            x = own
        offset, bytes_ = self._pieces[self._address(x)]
        size = int(numpy.prod(shape)) * dtype.itemsize
        out = None
        try:
            out, memory = self._client.allocate(max(size, 256))
            self._check_size(self._client.infer(index, rows, offset, bytes_, out, max(size, 256), deadline_us), shape,
                             dtype)
            return numpy.frombuffer(memory, dtype=dtype, count=size // dtype.itemsize).reshape(shape).copy()
        except BaseException as error:
            if not isinstance(error, (BadArgument, Refused, WindowFull)):
                out = own = None  # no answer: the gateway may write there yet
            raise
        finally:
            if out is not None:
                self._client.free(out)
            if own is not None:
                self.free(own)
