// SPDX-License-Identifier: Apache-2.0
// A library with NVML's names: a whole GPU, and one that is cut into instances, the second of three places of
// which is empty. SPILLWAY_FAKE_NVML=broken: as with a driver that does not match.
#include <cstdlib>
#include <cstring>

extern "C" {

struct Memory {
  unsigned long long total, free, used;
};
struct Device {
  const char* uuid;
  const char* name;
  unsigned long long memory;
  unsigned mig;
};

static Device devices[] = {
    {"GPU-11111111-2222-3333-4444-555555555555", "Big GPU", 80ULL << 30, 0},
    {"GPU-66666666-7777-8888-9999-aaaaaaaaaaaa", "Cut GPU", 40ULL << 30, 1},
    {"MIG-00000000-0000-0000-0000-000000000001", "Cut GPU MIG 3g.20gb", 20ULL << 30, 0},
    {"MIG-00000000-0000-0000-0000-000000000002", "Cut GPU MIG 1g.5gb", 5ULL << 30, 0},
};

static int Copy(char* into, unsigned length, const char* text) {
  if (std::strlen(text) >= length) return 7;
  std::strcpy(into, text);
  return 0;
}

int nvmlInit_v2() {
  const char* how = std::getenv("SPILLWAY_FAKE_NVML");
  return how != nullptr && std::strcmp(how, "broken") == 0 ? 18 : 0;
}
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int error) {
  return error == 18 ? "Driver/library version mismatch" : "Not Supported";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  *device = &devices[index];
  return index < 2 ? 0 : 2;
}
int nvmlDeviceGetUUID(Device* device, char* uuid, unsigned length) {
  return Copy(uuid, length, device->uuid);
}
int nvmlDeviceGetName(Device* device, char* name, unsigned length) {
  return Copy(name, length, device->name);
}
int nvmlDeviceGetMemoryInfo(Device* device, Memory* memory) {
  *memory = {device->memory, device->memory, 0};
  return 0;
}
int nvmlDeviceGetMigMode(Device* device, unsigned* current, unsigned* pending) {
  *current = *pending = device->mig;
  return device == &devices[0] ? 3 : 0;  // not supported: a GPU from before MIG
}
int nvmlDeviceGetMaxMigDeviceCount(Device*, unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device*, unsigned index, Device** device) {
  if (index == 1) return 6;  // not found
  *device = &devices[index == 0 ? 2 : 3];
  return 0;
}
}
