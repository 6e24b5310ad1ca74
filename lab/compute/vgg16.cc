// SPDX-License-Identifier: Apache-2.0
#include "lab/compute/vgg16.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "computation.h"

// Of GCC's OpenMP runtime, which oneDNN runs on; its header is not on other compilers' paths.
extern "C" void omp_set_num_threads(int) noexcept;

namespace spillway::compute {

namespace {

using Kind = Vgg16Layer::Kind;

// One stream of noise for each use: two for each layer, one for each image.
std::uint64_t Stream(std::uint64_t seed, std::uint64_t use) { return Noise(seed, use); }
constexpr std::uint64_t kImages = 1 << 16;

}  // namespace

std::int64_t Vgg16Layer::weights() const {
  if (kind == Kind::kPooling) return 0;
  return kind == Kind::kConvolution ? out * in * 9 : out * in * side * side;
}

double Vgg16Layer::flop() const {
  return 2 * static_cast<double>(weights()) *
         (kind == Kind::kConvolution ? static_cast<double>(side * side) : 1.0);
}

std::vector<Vgg16Layer> Vgg16Layers(std::int64_t size) {
  static constexpr struct {
    int convolutions;
    std::int64_t channels;
  } kBlocks[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  std::vector<Vgg16Layer> layers;
  std::int64_t channels = 3, side = size;
  for (const auto& block : kBlocks) {
    for (int i = 0; i < block.convolutions; ++i) {
      layers.push_back({Kind::kConvolution, channels, block.channels, side, true});
      channels = block.channels;
    }
    layers.push_back({Kind::kPooling, channels, channels, side, false});
    side /= 2;
  }
  layers.push_back({Kind::kDense, channels, 4096, side, true});
  layers.push_back({Kind::kDense, 4096, 4096, 1, true});
  layers.push_back({Kind::kDense, 4096, kVgg16Classes, 1, false});
  return layers;
}

void FillVgg16Weights(std::span<float> to, const Vgg16Layer& shape, std::size_t layer, std::uint64_t seed) {
  const double inputs = static_cast<double>(shape.weights() / shape.out);  // of each output
  FillWithNoise(to, Stream(seed, 2 * layer), static_cast<float>(std::sqrt(6 / inputs)));
}

void FillVgg16Biases(std::span<float> to, std::size_t layer, std::uint64_t seed) {
  FillWithNoise(to, Stream(seed, 2 * layer + 1), 0.1f);
}

void FillVgg16Image(std::span<float> to, std::uint32_t question, std::uint64_t seed) {
  FillWithNoise(to, Stream(seed, kImages + question), 1);
}

namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

bool HasBf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

dnnl::primitive_attr Attributes(bool relu) {
  dnnl::primitive_attr attributes;
  // Ours, one for each worker: oneDNN's own may be used by one thread only.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
  }
  return attributes;
}

}  // namespace

class Vgg16::Network {
 public:
  Network(const Vgg16Settings& settings, std::size_t workers, std::uint64_t seed)
      : engine_(dnnl::engine::kind::cpu, 0),
        type_(settings.precision == Precision::kBf16 ? memory::data_type::bf16 : memory::data_type::f32),
        seed_(seed),
        image_({1, 3, settings.size, settings.size}, memory::data_type::f32, memory::format_tag::nchw) {
    at_ = image_;
    // Only the convolutions' own code converts; the image is converted as a step of its own.
    if (type_ != memory::data_type::f32)
      Convert(memory::desc({1, 3, settings.size, settings.size}, type_, memory::format_tag::nchw));
    const std::vector<Vgg16Layer> layers = Vgg16Layers(settings.size);
    for (std::size_t i = 0; i < layers.size(); ++i) AddLayer(layers[i], i, i + 1 == layers.size());
    for (std::size_t i = 0; i < workers; ++i) AddBench();
  }

  std::vector<float> Logits(std::size_t worker, std::uint32_t question, const std::stop_token& stop) {
    ::omp_set_num_threads(1);  // of this thread
    Bench& bench = benches_[worker];
    FillVgg16Image({static_cast<float*>(bench.image.get_data_handle()), image_.get_size() / sizeof(float)},
                   question, seed_);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (stop.stop_requested()) return {};
      steps_[i].primitive.execute(bench.stream, bench.arguments[i]);
    }
    bench.stream.wait();
    const auto* logits = static_cast<const float*>(bench.arguments.back().at(DNNL_ARG_DST).get_data_handle());
    return {logits, logits + kVgg16Classes};
  }

 private:
  struct Step {
    dnnl::primitive primitive;
    memory::desc from, to, scratchpad;
    int from_argument;
    memory weights, biases;  // empty where there are none
  };
  // What one worker needs for itself.
  struct Bench {
    dnnl::stream stream;
    memory image;
    std::vector<std::byte> buffers[2], scratchpad;  // a step reads one buffer and writes the other
    std::vector<Arguments> arguments;               // of each step
  };

  memory::desc Any(const memory::dims& dims) const { return {dims, type_, memory::format_tag::any}; }

  void Convert(const memory::desc& to) {
    if (to == at_) return;
    const dnnl::reorder::primitive_desc how(engine_, at_, engine_, to, Attributes(false));
    steps_.push_back({dnnl::reorder(how), at_, to, how.scratchpad_desc(), DNNL_ARG_FROM, {}, {}});
    at_ = to;
  }

  // The layer's weights in the layout that its primitive wants.
  memory Weights(const memory::desc& wanted, const Vgg16Layer& layer, std::size_t number,
                 const memory::dims& dims) {
    memory plain(
        {dims, memory::data_type::f32, dims.size() == 4 ? memory::format_tag::oihw : memory::format_tag::oi},
        engine_);
    FillVgg16Weights(
        {static_cast<float*>(plain.get_data_handle()), static_cast<std::size_t>(layer.weights())}, layer,
        number, seed_);
    if (wanted == plain.get_desc()) return plain;
    memory weights(wanted, engine_);
    dnnl::stream stream(engine_);
    dnnl::reorder(plain, weights).execute(stream, plain, weights);
    stream.wait();
    return weights;
  }

  memory Biases(const memory::desc& desc, std::size_t number) {
    memory biases(desc, engine_);
    FillVgg16Biases({static_cast<float*>(biases.get_data_handle()), desc.get_size() / sizeof(float)}, number,
                    seed_);
    return biases;
  }

  // Of a primitive with weights and biases.
  template <class Primitive>
  void AddStep(const typename Primitive::primitive_desc& how, const Vgg16Layer& layer, std::size_t number,
               const memory::dims& weights) {
    Convert(how.src_desc());
    steps_.push_back({Primitive(how), at_, how.dst_desc(), how.scratchpad_desc(), DNNL_ARG_SRC,
                      Weights(how.weights_desc(), layer, number, weights), Biases(how.bias_desc(), number)});
    at_ = how.dst_desc();
  }

  void AddLayer(const Vgg16Layer& layer, std::size_t number, bool last) {
    constexpr auto kInference = dnnl::prop_kind::forward_inference;
    const memory::desc biases({layer.out}, memory::data_type::f32, memory::format_tag::x);
    switch (layer.kind) {
      case Vgg16Layer::Kind::kConvolution: {
        const memory::dims weights{layer.out, layer.in, 3, 3};
        const dnnl::convolution_forward::desc what(
            kInference, dnnl::algorithm::convolution_direct, number == 0 ? at_ : Any(at_.dims()),
            Any(weights), biases, Any({1, layer.out, layer.side, layer.side}), {1, 1}, {1, 1}, {1, 1});
        AddStep<dnnl::convolution_forward>({what, Attributes(layer.relu), engine_}, layer, number, weights);
        return;
      }
      case Vgg16Layer::Kind::kPooling: {
        const dnnl::pooling_forward::desc what(kInference, dnnl::algorithm::pooling_max, at_,
                                               Any({1, layer.out, layer.side / 2, layer.side / 2}), {2, 2},
                                               {2, 2}, {0, 0}, {0, 0});
        const dnnl::pooling_forward::primitive_desc how(what, Attributes(false), engine_);
        steps_.push_back(
            {dnnl::pooling_forward(how), at_, how.dst_desc(), how.scratchpad_desc(), DNNL_ARG_SRC, {}, {}});
        at_ = how.dst_desc();
        return;
      }
      case Vgg16Layer::Kind::kDense: {
        memory::dims weights = at_.dims();
        weights[0] = layer.out;
        const memory::desc logits({1, layer.out}, memory::data_type::f32, memory::format_tag::nc);
        const dnnl::inner_product_forward::desc what(kInference, Any(at_.dims()), Any(weights), biases,
                                                     last ? logits : Any({1, layer.out}));
        AddStep<dnnl::inner_product_forward>({what, Attributes(layer.relu), engine_}, layer, number, weights);
        return;
      }
    }
  }

  void AddBench() {
    Bench& bench = benches_.emplace_back();
    bench.stream = dnnl::stream(engine_);
    bench.image = memory(image_, engine_);
    std::size_t most = 0, scratchpad = 0;
    for (const Step& step : steps_) {
      most = std::max(most, step.to.get_size());
      scratchpad = std::max(scratchpad, step.scratchpad.get_size());
    }
    for (auto& buffer : bench.buffers) buffer.resize(most);
    bench.scratchpad.resize(scratchpad);
    memory from = bench.image;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      const memory to(step.to, engine_, bench.buffers[i % 2].data());
      Arguments arguments{{step.from_argument, from},
                          {DNNL_ARG_DST, to},
                          {DNNL_ARG_SCRATCHPAD, memory(step.scratchpad, engine_, bench.scratchpad.data())}};
      if (step.weights) arguments.insert({{DNNL_ARG_WEIGHTS, step.weights}, {DNNL_ARG_BIAS, step.biases}});
      bench.arguments.push_back(std::move(arguments));
      from = to;
    }
  }

  const dnnl::engine engine_;
  const memory::data_type type_;
  const std::uint64_t seed_;
  const memory::desc image_;
  memory::desc at_;  // while building: what the last step gives
  std::vector<Step> steps_;
  std::vector<Bench> benches_;
};

Result<std::unique_ptr<Vgg16>> Vgg16::Make(const Vgg16Settings& settings, std::size_t workers,
                                           std::uint64_t seed) {
  if (settings.precision == Precision::kBf16 && !HasBf16())
    return Fail(ErrorCode::kUnavailable, "vgg16: precision bf16: this CPU does not compute in bf16");
  // oneDNN lays its work out for so many threads: one, here and when a request is worked on.
  ::omp_set_num_threads(1);
  try {
    return std::unique_ptr<Vgg16>(new Vgg16(std::make_unique<Network>(settings, workers, seed)));
  } catch (const dnnl::error& error) {
    return Fail(ErrorCode::kSystem, fmt::format("vgg16: oneDNN: {}", error.what()));
  }
}

Vgg16::Vgg16(std::unique_ptr<Network> network) : network_(std::move(network)) {}
Vgg16::~Vgg16() = default;

std::vector<float> Vgg16::Logits(std::size_t worker, std::uint32_t question, const std::stop_token& stop) {
  return network_->Logits(worker, question, stop);
}

std::uint64_t Vgg16::Answer(std::size_t worker, std::uint32_t question, std::uint32_t cost_milli,
                            const std::stop_token& stop) {
  std::vector<float> logits;
  for (std::uint32_t left = Repetitions(cost_milli); left > 0 && !stop.stop_requested(); --left)
    logits = Logits(worker, question, stop);
  if (logits.empty()) return 0;
  const auto highest = std::max_element(logits.begin(), logits.end()) - logits.begin();
  return static_cast<std::uint64_t>(highest) << 32 | Checksum(std::span<const float>(logits));
}

}  // namespace spillway::compute
