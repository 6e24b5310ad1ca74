// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "gateway/executor/cuda_product.h"

namespace spillway::gateway {
namespace {

struct GpuBlock {
  int x, y;
  int64_t tile_x, tile_y, part;
  __device__ void Sync() const { __syncthreads(); }
};

constexpr int kSide = kProductTile / kProductEach;

__global__ void __launch_bounds__(kSide* kSide) Product(ProductArguments of) {
  __shared__ ProductTiles<kProductTile> tiles;
  const GpuBlock block{static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.y), blockIdx.x, blockIdx.y,
                       blockIdx.z};
  ProductTile<kProductTile, kProductEach>(block, tiles, of);
}

__global__ void __launch_bounds__(kSumWide* kSumThreads) Sum(ProductArguments of) {
  __shared__ float sums[kSumThreads][kSumWide];
  ProductSum(GpuBlock{static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.y), blockIdx.x, 0, 0}, sums,
             of);
}

}  // namespace

int LaunchProduct(const ProductArguments& asked, CUstream_st* stream) {
  ProductArguments of = asked;
  of.depth = ProductDepth(of.m, of.k, of.n);
  of.parts = ProductParts(of.k, of.depth);
  const dim3 tiles(static_cast<unsigned>(ProductTilesOver(of.n)),
                   static_cast<unsigned>(ProductTilesOver(of.m)), static_cast<unsigned>(of.parts));
  Product<<<tiles, dim3(kSide, kSide), 0, stream>>>(of);
  if (of.parts > 1) {
    const auto blocks = static_cast<unsigned>((of.m * of.n + kSumWide - 1) / kSumWide);
    Sum<<<blocks, dim3(kSumWide, kSumThreads), 0, stream>>>(of);
  }
  return cudaPeekAtLastError();
}

}  // namespace spillway::gateway
