// SPDX-License-Identifier: Apache-2.0
// Slices without a GPU: the products are real (oneDNN, one thread), their duration is the slice's: what is
// done sooner than gflop / gflop_per_s waits asleep for the rest, so that a slice's speed does not depend on
// the host's, as long as the host is the faster one.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "gateway/executor/engine.h"
#include "gateway/executor/loaded_model.h"

// Of GCC's OpenMP runtime, which oneDNN runs on; its header is not on other compilers' paths.
extern "C" void omp_set_num_threads(int) noexcept;

namespace spillway::gateway {
namespace {

using dnnl::memory;
using Kind = ModelSpec::Kind;

memory::desc Matrix(int64_t rows, int64_t columns) {
  return {{rows, columns}, memory::data_type::f32, memory::format_tag::ab};
}

// A product of fixed sizes, with or without relu behind it.
class Product {
 public:
  Product(const dnnl::engine& engine, int64_t m, int64_t k, int64_t n, bool relu)
      : engine_(engine), a_(Matrix(m, k)), b_(Matrix(k, n)), c_(Matrix(m, n)) {
    dnnl::primitive_attr attributes;
    if (relu) {
      dnnl::post_ops after;
      after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      attributes.set_post_ops(after);
    }
    matmul_ = dnnl::matmul({{a_, b_, c_}, attributes, engine});
  }

  // dnnl reads through pointers to what is not const.
  void Run(dnnl::stream& stream, const float* a, const float* b, float* c) const {
    matmul_.execute(stream, {{DNNL_ARG_SRC, memory(a_, engine_, const_cast<float*>(a))},
                             {DNNL_ARG_WEIGHTS, memory(b_, engine_, const_cast<float*>(b))},
                             {DNNL_ARG_DST, memory(c_, engine_, c)}});
    stream.wait();
  }

 private:
  dnnl::engine engine_;
  memory::desc a_, b_, c_;
  dnnl::matmul matmul_;
};

class EmulatedSlice : public SliceEngine {
 public:
  EmulatedSlice(const std::vector<LoadedModel>& models, double gflop_per_s)
      : models_(models), gflop_per_s_(gflop_per_s), dnnl_(dnnl::engine::kind::cpu, 0), stream_(dnnl_) {
    omp_set_num_threads(1);         // of this thread's own products
    prctl(PR_SET_TIMERSLACK, 1UL);  // a kernel's end is not to be put off for 50 us
    for (uint32_t i = 0; i < models_.size(); i++) WarmUp(i);
  }

  Result<void> Run(uint32_t index, int64_t rows, std::span<const std::byte> inputs,
                   std::span<std::byte> outputs) override {
    timespec start{};
    clock_gettime(CLOCK_MONOTONIC, &start);
    const LoadedModel& model = models_[index];
    try {
      Compute(model, index, rows, inputs, outputs);
    } catch (const dnnl::error& error) {
      return Fail(ErrorCode::kSystem, fmt::format("model {}: {}", model.card.name, error.what()));
    }
    const auto ns = static_cast<int64_t>(model.card.GflopFor(rows) / gflop_per_s_ * 1e9);
    if (ns == 0) return {};
    timespec end{start.tv_sec + (start.tv_nsec + ns) / 1'000'000'000, (start.tv_nsec + ns) % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) == EINTR) {
    }
    return {};
  }

 private:
  // The first product of a size is compiled, which takes 20 ms. No request of one row is to wait for it.
  void WarmUp(uint32_t index) {
    const ModelCard& card = models_[index].card;
    std::vector<std::byte> inputs(card.InputBytes(1)), outputs(card.OutputBytes(1));
    Compute(models_[index], index, 1, inputs, outputs);
  }

  const Product& ProductOf(uint32_t model, size_t layer, int64_t m, int64_t k, int64_t n, bool relu) {
    if (products_.size() > kMaxProducts) products_.clear();
    const auto key = std::make_tuple(model, layer, m);
    auto found = products_.find(key);
    if (found == products_.end()) found = products_.try_emplace(key, dnnl_, m, k, n, relu).first;
    return found->second;
  }

  void Compute(const LoadedModel& model, uint32_t index, int64_t rows, std::span<const std::byte> inputs,
               std::span<std::byte> outputs) {
    const auto* in = reinterpret_cast<const float*>(inputs.data());
    auto* out = reinterpret_cast<float*>(outputs.data());
    switch (model.spec.kind) {
      case Kind::kEcho:
        std::memcpy(outputs.data(), inputs.data(), outputs.size());
        return;
      case Kind::kProduct: {
        const ModelSpec& s = model.spec;
        const auto* b =
            reinterpret_cast<const float*>(inputs.data() + Aligned(model.card.inputs[0].BytesFor(rows)));
        ProductOf(index, 0, s.m, s.k, s.n, false).Run(stream_, in, b, out);
        return;
      }
      case Kind::kMlp: {
        const auto& widths = model.spec.layers;
        const size_t layers = widths.size() - 1;
        std::vector<float> here, next;
        for (size_t i = 0; i < layers; i++) {
          const bool last = i + 1 == layers;
          const Product& product = ProductOf(index, i, rows, widths[i], widths[i + 1], !last);
          if (!last) next.resize(static_cast<size_t>(rows * widths[i + 1]));
          product.Run(stream_, i == 0 ? in : here.data(), model.weights[i].data(), last ? out : next.data());
          std::swap(here, next);
        }
        return;
      }
    }
  }

  static constexpr size_t kMaxProducts = 1024;

  const std::vector<LoadedModel>& models_;
  double gflop_per_s_;
  dnnl::engine dnnl_;
  dnnl::stream stream_;
  std::map<std::tuple<uint32_t, size_t, int64_t>, Product> products_;
};

class EmulatedEngine : public Engine {
 public:
  explicit EmulatedEngine(const std::vector<ModelSpec>& specs) : models_(LoadModels(specs)) {
    for (const LoadedModel& model : models_) cards_.push_back(model.card);
  }
  const std::vector<ModelCard>& models() const override { return cards_; }
  Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer& offer, const SliceMemory&) override {
    try {
      return std::make_unique<EmulatedSlice>(models_, offer.gflop_per_s);
    } catch (const dnnl::error& error) {
      return Fail(ErrorCode::kSystem, error.what());
    }
  }

 private:
  std::vector<LoadedModel> models_;
  std::vector<ModelCard> cards_;
};

}  // namespace

Result<std::unique_ptr<Engine>> MakeEmulatedEngine(const std::vector<ModelSpec>& models) {
  return std::make_unique<EmulatedEngine>(models);
}

}  // namespace spillway::gateway
