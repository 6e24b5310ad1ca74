#!/usr/bin/env python3
# The same in PyTorch, on the GPU if there is one: a network of ResNet-50's shape with random weights (torchvision's, where
# that is installed, has the same blocks), 588 KiB in, 1000 scores out, up to 16 requests at a time.
import spillway
import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for i in range(count):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage > 0 and i == 0 else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


torch.manual_seed(50)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = resnet50().eval().to(device)
with torch.inference_mode():
    spillway.serve(model, (1, 3, 224, 224), torch.float32, output_shape=(1, 1000), device=device, max_batch=16,
                   max_delay=0.002)
