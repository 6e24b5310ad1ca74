// SPDX-License-Identifier: Apache-2.0
// A library with NVML's names: GPU 0 is whole, GPU 1 has MIG and begins without instances. What a test says
// by FakeMig_Fail happens once: "compute" (no compute instance), "busy" (no compute instance ends), "kept"
// (no GPU instance ends). By FakeMig_Lose a GPU is lost, by FakeMig_Hang who asks it waits, each until it is
// taken back. Where the environment has SPILLWAY_FAKE_LOST both are whole, and GPU 0 is lost while that file
// is there.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace fake_mig {

constexpr int kNotFound = 6, kIsLost = 15, kInUse = 19, kNoRoom = 23, kUnknown = 999;
constexpr unsigned kSizes[] = {1, 2, 4, 4, 8, 0, 0, 0, 0, 2};  // memory slices by profile's number

struct Device {
  unsigned instance = 0;  // of a MIG device: its GPU instance; 0: a GPU
  const char* gpu = nullptr;
};
struct GpuInstance {
  unsigned id, profile, start, size;
  bool computes = false;
};

Device whole{0, "GPU-11111111-2222-3333-4444-555555555555"},
    cut{0, "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"};
std::vector<GpuInstance*> instances;
std::vector<Device*> shown(8);
unsigned last_id = 0;
std::string failure;

std::atomic<bool> are_lost[2], hang[2];
std::atomic<unsigned> answers;  // that they are there
std::atomic<int> unknown[2];    // such answers yet to be given

bool IsLost(const Device* device) {
  const int index = device == &whole ? 0 : 1;
  while (hang[index]) std::this_thread::yield();
  const char* file = std::getenv("SPILLWAY_FAKE_LOST");
  return are_lost[index] || (index == 0 && file != nullptr && access(file, F_OK) == 0);
}

bool Fails(const std::string& how) {
  const size_t at = failure.find(how);
  if (at == std::string::npos) return false;
  failure.erase(at, how.size());
  return true;
}

}  // namespace fake_mig
using namespace fake_mig;  // named: what has a field of such a type is extern "C"

extern "C" {

struct Placement {
  unsigned start, size;
};
struct GpuProfile {
  unsigned id, rest[9];
  unsigned long long memory;
};
struct Info {
  Device* device;
  unsigned id, profile;
  Placement placement;
};
struct ComputeProfile {
  unsigned id, rest[8];
};
struct Memory {
  unsigned long long total, free, used;
};

void FakeMig_Fail(const char* how) { failure = how; }
unsigned FakeMig_Instances() { return static_cast<unsigned>(instances.size()); }
void FakeMig_Lose(unsigned gpu, bool is_lost) { are_lost[gpu] = is_lost; }
void FakeMig_AnswerUnknown(unsigned gpu, int times) { unknown[gpu] = times; }
unsigned FakeMig_Answers() { return answers; }
void FakeMig_Hang(unsigned gpu, bool hangs) { hang[gpu] = hangs; }
// What somebody else does.
void FakeMig_EndAll();
void FakeMig_Make3gAt(unsigned start, bool computes);

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int error) {
  return error == kIsLost   ? "GPU is lost"
         : error == kNoRoom ? "Insufficient Resources"
         : error == kInUse  ? "In use by another client"
                            : "Not Found";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  *device = index == 0 ? &whole : &cut;
  return IsLost(*device) ? kUnknown : 0;  // as drivers say of some that are lost
}
int nvmlDeviceGetUUID(Device* device, char* uuid, unsigned length) {
  const std::string text = device->instance == 0 ? device->gpu
                                                 : "MIG-00000000-0000-0000-0000-" +
                                                       std::to_string(100'000'000'000ULL + device->instance);
  if (text.size() >= length) return 7;
  std::memcpy(uuid, text.c_str(), text.size() + 1);
  return 0;
}
int nvmlDeviceGetName(Device*, char* name, unsigned) {
  std::memcpy(name, "A GPU", sizeof("A GPU"));
  return 0;
}
int nvmlDeviceGetMemoryInfo(Device* device, Memory* memory) {
  if (IsLost(device)) return kIsLost;
  const int index = device == &whole ? 0 : 1;
  if (device->instance == 0 && unknown[index] > 0) {
    --unknown[index];
    return kUnknown;
  }
  *memory = {40ULL << 30, 40ULL << 30, 0};
  ++answers;
  return 0;
}
int nvmlDeviceGetMigMode(Device* device, unsigned* current, unsigned* pending) {
  *current = *pending = device == &cut && std::getenv("SPILLWAY_FAKE_LOST") == nullptr ? 1 : 0;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(Device*, unsigned* count) {
  *count = 8;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device*, unsigned index, Device** device) {
  *device = shown[index];
  return *device == nullptr ? kNotFound : 0;
}
int nvmlDeviceGetGpuInstanceId(Device* device, unsigned* id) {
  *id = device->instance;
  return 0;
}
int nvmlDeviceGetGpuInstanceProfileInfo(Device*, unsigned number, GpuProfile* profile) {
  *profile = {};
  profile->id = number + 100;  // another number than the profile's own
  return 0;
}
int nvmlDeviceCreateGpuInstanceWithPlacement(Device* device, unsigned id, const Placement* at,
                                             GpuInstance** made) {
  if (IsLost(device)) return kIsLost;
  if (device != &cut || id < 100 || at->size != kSizes[id - 100] || at->start + at->size > 8)
    return kNotFound;
  for (const GpuInstance* other : instances)
    if (at->start < other->start + other->size && other->start < at->start + at->size) return kNoRoom;
  *made = new GpuInstance{++last_id, id, at->start, at->size};
  instances.push_back(*made);
  return 0;
}
int nvmlDeviceGetGpuInstances(Device* device, unsigned id, GpuInstance** all, unsigned* count) {
  if (IsLost(device)) return kIsLost;
  *count = 0;
  for (GpuInstance* one : instances)
    if (one->profile == id) all[(*count)++] = one;
  return 0;
}
int nvmlGpuInstanceGetInfo(GpuInstance* one, Info* info) {
  *info = {&cut, one->id, one->profile, {one->start, one->size}};
  return 0;
}
int nvmlGpuInstanceDestroy(GpuInstance* one) {
  if (one->computes || Fails("kept")) return kInUse;
  std::erase(instances, one);
  delete one;
  return 0;
}
int nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstance*, unsigned number, unsigned,
                                                 ComputeProfile* profile) {
  *profile = {};
  profile->id = number + 200;
  return 0;
}
int nvmlGpuInstanceCreateComputeInstance(GpuInstance* in, unsigned id, GpuInstance** made) {
  if (id < 200 || Fails("compute")) return kNoRoom;
  in->computes = true;
  for (Device*& place : shown)
    if (place == nullptr) {
      place = new Device{in->id, nullptr};
      break;
    }
  *made = in;
  return 0;
}
int nvmlGpuInstanceGetComputeInstances(GpuInstance* in, unsigned, GpuInstance** all, unsigned* count) {
  *count = in->computes ? 1 : 0;
  all[0] = in;
  return 0;
}
int nvmlComputeInstanceDestroy(GpuInstance* in) {
  if (Fails("busy")) return kInUse;
  in->computes = false;
  for (Device*& place : shown)
    if (place != nullptr && place->instance == in->id) {
      delete place;
      place = nullptr;
    }
  return 0;
}

void FakeMig_EndAll() {
  while (!instances.empty()) {
    nvmlComputeInstanceDestroy(instances.back());
    nvmlGpuInstanceDestroy(instances.back());
  }
}
void FakeMig_Make3gAt(unsigned start, bool computes) {
  const Placement at{start, 4};
  GpuInstance* made = nullptr;
  if (nvmlDeviceCreateGpuInstanceWithPlacement(&cut, 102, &at, &made) == 0 && computes)
    nvmlGpuInstanceCreateComputeInstance(made, 202, &made);
}
}
