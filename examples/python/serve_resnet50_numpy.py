#!/usr/bin/env python3
# A network of ResNet-50's shape in NumPy, with random weights: 588 KiB in (an image of 224 x 224), 1000 scores out, up to
# four requests at a time. An argument is the width of its first layer, 64 where not given: 4 is a toy of the same depth.
import sys

import numpy
import spillway
from numpy.lib.stride_tricks import sliding_window_view

random = numpy.random.default_rng(50)


def weights(outputs, inputs, size):
    scale = (2 / (inputs * size * size)) ** 0.5
    return random.standard_normal((outputs, inputs, size, size), "float32") * numpy.float32(scale)


def windows(x, size, stride, padding):
    x = numpy.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    return sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]


def convolve(x, kernel, stride=1):
    size = kernel.shape[2]
    cut = windows(x, size, stride, size // 2)
    return numpy.tensordot(cut, kernel, ([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2)


def relu(x):
    return numpy.maximum(x, 0)


class Bottleneck:
    def __init__(self, inputs, width, stride):
        self.stride = stride
        self.kernels = weights(width, inputs, 1), weights(width, width, 3), weights(4 * width, width, 1) / 4
        self.shortcut = weights(4 * width, inputs, 1) if stride > 1 or inputs != 4 * width else None

    def __call__(self, x):
        first, second, third = self.kernels
        y = convolve(relu(convolve(relu(convolve(x, first)), second, self.stride)), third)
        return relu(y + (x if self.shortcut is None else convolve(x, self.shortcut, self.stride)))


class ResNet50:
    def __init__(self, width=64):
        self.stem = weights(width, 3, 7)
        self.blocks, inputs = [], width
        for stage, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                self.blocks.append(Bottleneck(inputs, width << stage, 2 if stage > 0 and i == 0 else 1))
                inputs = 4 * (width << stage)
        self.scores = weights(1000, inputs, 1)[:, :, 0, 0]

    def __call__(self, images):
        x = relu(convolve(images, self.stem, 2))
        x = windows(x, 3, 2, 1).max(axis=(4, 5))
        for block in self.blocks:
            x = block(x)
        return x.mean(axis=(2, 3)) @ self.scores.T


if __name__ == "__main__":
    model = ResNet50(int(sys.argv[1]) if len(sys.argv) > 1 else 64)
    # images = load(...)                       before: from files, and
    # print(model(images).argmax(axis=1))      to the terminal
    spillway.serve(model, (1, 3, 224, 224), "float32", output_shape=(1, 1000), max_batch=4, max_delay=0.002)
