// SPDX-License-Identifier: Apache-2.0
// c = a x b in tiles, one block of threads a tile, as the GPU runs it. The block is an argument: on the GPU
// it is the hardware's, in tests it is threads of the host, so that the arithmetic is tested without a card.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SPILLWAY_DEVICE __device__
#else
#define SPILLWAY_DEVICE
#endif

struct CUstream_st;

namespace spillway::gateway {

// A tile has kTile x kTile results. Threads stand in a square; each has kEach x kEach of them, a square's
// side apart, so that neighbours read and write neighbouring words. 64 and 4 are 256 threads, whose 16 sums
// each stay in registers; larger tiles leave the few rows of a small request idle.
inline constexpr int kProductTile = 64;
inline constexpr int kProductEach = 4;
inline constexpr int kProductStep = 16;  // columns of a, and rows of b, that are at hand at a time

template <int kTile>
struct ProductTiles {
  float a[kProductStep][kTile];  // transposed
  float b[kProductStep][kTile];
};

struct ProductArguments {
  const float* a;
  const float* b;
  float* c;
  int64_t m, k, n;
  bool relu;
};

// Block: `x`, `y`, of the thread in its square; `tile_x`, `tile_y`, of the tile in c; Sync(), which all of
// the block's threads reach before one of them goes on.
template <int kTile, int kEach, class Block>
SPILLWAY_DEVICE void ProductTile(const Block& block, ProductTiles<kTile>& tiles, const ProductArguments& of) {
  constexpr int kSide = kTile / kEach;
  constexpr int kThreads = kSide * kSide;
  const int64_t first_row = block.tile_y * kTile, first_column = block.tile_x * kTile;
  float sums[kEach][kEach] = {};
  for (int64_t step = 0; step < of.k; step += kProductStep) {
    for (int i = block.y * kSide + block.x; i < kTile * kProductStep; i += kThreads) {
      const int64_t row = first_row + i / kProductStep, l = step + i % kProductStep;
      tiles.a[i % kProductStep][i / kProductStep] = row < of.m && l < of.k ? of.a[row * of.k + l] : 0.0f;
    }
    for (int i = block.y * kSide + block.x; i < kTile * kProductStep; i += kThreads) {
      const int64_t l = step + i / kTile, column = first_column + i % kTile;
      tiles.b[i / kTile][i % kTile] = l < of.k && column < of.n ? of.b[l * of.n + column] : 0.0f;
    }
    block.Sync();
    for (int l = 0; l < kProductStep; l++)
      for (int i = 0; i < kEach; i++)
        for (int j = 0; j < kEach; j++)
          sums[i][j] += tiles.a[l][block.y + i * kSide] * tiles.b[l][block.x + j * kSide];
    block.Sync();
  }
  for (int i = 0; i < kEach; i++)
    for (int j = 0; j < kEach; j++) {
      const int64_t row = first_row + block.y + i * kSide, column = first_column + block.x + j * kSide;
      if (row >= of.m || column >= of.n) continue;
      of.c[row * of.n + column] = of.relu && sums[i][j] < 0.0f ? 0.0f : sums[i][j];
    }
}

// Puts it into a stream of the current context; a cudaError_t. cuda_product.cu.
int LaunchProduct(const ProductArguments& of, CUstream_st* stream);

}  // namespace spillway::gateway
