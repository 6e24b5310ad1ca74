// SPDX-License-Identifier: Apache-2.0
// What the probe runs on a core: small pieces of the work that analytics do, each over its own generated
// data. A kernel belongs to one thread.
//
// The data are generated from a seed, in the shape of TPC-H's lineitem; queries 1 and 6 are like TPC-H's,
// without its data or its rules, so that figures compare between machines that ran the probe and not with
// published TPC-H results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spillway::planner {

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Once over the data; the work done, in the kernel's unit times seconds (GB, million rows).
  virtual double Pass() = 0;
  // Whether the last pass's answer is right, by a slower way.
  [[nodiscard]] virtual bool Verify() const = 0;
};

struct KernelKind {
  std::string name;      // as in the catalogue: "triad", "hash-join", "q1", "q6", "loopback"
  std::string unit;      // "GB/s", "Mrows/s"
  std::string bound_by;  // "memory", "cpu", "network stack"
};
[[nodiscard]] const std::vector<KernelKind>& KernelKinds();

// Memory that one kernel of the probe takes at most, for a scale.
[[nodiscard]] size_t BytesPerKernel(double scale);

// scale 1: about a million rows, and arrays of 32 MB. Not of "loopback", which is no computation.
[[nodiscard]] std::unique_ptr<Kernel> MakeKernel(const std::string& name, double scale, uint64_t seed);

}  // namespace spillway::planner
