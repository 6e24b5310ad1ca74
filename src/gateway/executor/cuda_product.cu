// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "gateway/executor/cuda_product.h"

namespace spillway::gateway {
namespace {

struct GpuBlock {
  int x, y;
  int64_t tile_x, tile_y;
  __device__ void Sync() const { __syncthreads(); }
};

constexpr int kSide = kProductTile / kProductEach;

__global__ void __launch_bounds__(kSide* kSide) Product(ProductArguments of) {
  __shared__ ProductTiles<kProductTile> tiles;
  const GpuBlock block{static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.y), blockIdx.x, blockIdx.y};
  ProductTile<kProductTile, kProductEach>(block, tiles, of);
}

unsigned Tiles(int64_t extent) { return static_cast<unsigned>((extent + kProductTile - 1) / kProductTile); }

}  // namespace

int LaunchProduct(const ProductArguments& of, CUstream_st* stream) {
  Product<<<dim3(Tiles(of.n), Tiles(of.m)), dim3(kSide, kSide), 0, stream>>>(of);
  return cudaPeekAtLastError();
}

}  // namespace spillway::gateway
