// SPDX-License-Identifier: Apache-2.0
// c = a x b in tiles, one block of threads a tile, as the GPU runs it. The block is an argument: on the GPU
// it is the hardware's, in tests it is threads of the host, so that the arithmetic is tested without a card.
#pragma once

#include <algorithm>
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

// A product of few tiles, a request of one row say, would keep most of the GPU idle: its k is cut into parts,
// each a block's, whose sums are added up in a second kernel, always in the same order.
inline constexpr int64_t kProductBlocks = 512;  // about two waves of a large GPU
inline constexpr int64_t kLeastDepth = 4 * kProductStep;
// Room for all parts' sums, in numbers.
inline constexpr int64_t kMaxPartials = kProductBlocks * kProductTile * kProductTile;

struct ProductArguments {
  const float* a;
  const float* b;
  float* c;
  int64_t m, k, n;
  bool relu;
  int64_t depth = 0;  // of k that is a part's
  int64_t parts = 1;
  float* partials = nullptr;  // [parts][m][n], if there are several
};

constexpr int64_t ProductTilesOver(int64_t extent) { return (extent + kProductTile - 1) / kProductTile; }

// The depth that keeps the GPU busy: a multiple of a step.
constexpr int64_t ProductDepth(int64_t m, int64_t k, int64_t n) {
  const int64_t parts = kProductBlocks / (ProductTilesOver(m) * ProductTilesOver(n));
  if (parts < 2) return k;
  const int64_t even = (k + parts - 1) / parts;
  return std::max(kLeastDepth, (even + kProductStep - 1) / kProductStep * kProductStep);
}
constexpr int64_t ProductParts(int64_t k, int64_t depth) { return (k + depth - 1) / depth; }

// Block: `x`, `y`, of the thread in its square; `tile_x`, `tile_y`, of the tile in c; `part`, of k; Sync(),
// which all of the block's threads reach before one of them goes on.
template <int kTile, int kEach, class Block>
SPILLWAY_DEVICE void ProductTile(const Block& block, ProductTiles<kTile>& tiles, const ProductArguments& of) {
  constexpr int kSide = kTile / kEach;
  constexpr int kThreads = kSide * kSide;
  const int64_t first_row = block.tile_y * kTile, first_column = block.tile_x * kTile;
  const int64_t from = block.part * of.depth;
  const int64_t until = from + of.depth < of.k ? from + of.depth : of.k;
  float sums[kEach][kEach] = {};
  for (int64_t step = from; step < until; step += kProductStep) {
    for (int i = block.y * kSide + block.x; i < kTile * kProductStep; i += kThreads) {
      const int64_t row = first_row + i / kProductStep, l = step + i % kProductStep;
      tiles.a[i % kProductStep][i / kProductStep] = row < of.m && l < until ? of.a[row * of.k + l] : 0.0f;
    }
    for (int i = block.y * kSide + block.x; i < kTile * kProductStep; i += kThreads) {
      const int64_t l = step + i / kTile, column = first_column + i % kTile;
      tiles.b[i / kTile][i % kTile] = l < until && column < of.n ? of.b[l * of.n + column] : 0.0f;
    }
    block.Sync();
    for (int l = 0; l < kProductStep; l++)
      for (int i = 0; i < kEach; i++)
        for (int j = 0; j < kEach; j++)
          sums[i][j] += tiles.a[l][block.y + i * kSide] * tiles.b[l][block.x + j * kSide];
    block.Sync();
  }
  const bool whole = of.parts == 1;
  float* into = whole ? of.c : of.partials + block.part * of.m * of.n;
  for (int i = 0; i < kEach; i++)
    for (int j = 0; j < kEach; j++) {
      const int64_t row = first_row + block.y + i * kSide, column = first_column + block.x + j * kSide;
      if (row >= of.m || column >= of.n) continue;
      into[row * of.n + column] = whole && of.relu && sums[i][j] < 0.0f ? 0.0f : sums[i][j];
    }
}

inline constexpr int kSumWide = 32;    // results of a block that adds up parts
inline constexpr int kSumThreads = 8;  // of each result

// c from the parts' sums. Block: `x` below kSumWide, `y` below kSumThreads, `tile_x` of kSumWide results.
template <class Block>
SPILLWAY_DEVICE void ProductSum(const Block& block, float (&sums)[kSumThreads][kSumWide],
                                const ProductArguments& of) {
  const int64_t count = of.m * of.n, at = block.tile_x * kSumWide + block.x;
  float sum = 0.0f;
  if (at < count)
    for (int64_t part = block.y; part < of.parts; part += kSumThreads) sum += of.partials[part * count + at];
  sums[block.y][block.x] = sum;
  block.Sync();
  if (block.y != 0 || at >= count) return;
  for (int i = 1; i < kSumThreads; i++) sum += sums[i][block.x];
  of.c[at] = of.relu && sum < 0.0f ? 0.0f : sum;
}

// Puts it into a stream of the current context, with ProductDepth's depth and its parts; `partials` has room
// for kMaxPartials. A cudaError_t. cuda_product.cu.
int LaunchProduct(const ProductArguments& of, CUstream_st* stream);

}  // namespace spillway::gateway
