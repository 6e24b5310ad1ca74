// SPDX-License-Identifier: Apache-2.0
#include "redirect_watch.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "redirects.skel.h"

namespace spillway::switching {

Result<std::unique_ptr<RedirectWatch>> RedirectWatch::Open(int counters_fd, int program_fd) {
  const auto fail = [](const char* what, int error) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(error)));
  };
  std::unique_ptr<RedirectWatch> watch(new RedirectWatch(redirects_bpf__open()));
  redirects_bpf* skeleton = watch->skeleton_;
  if (skeleton == nullptr) return fail("opening the BPF object", errno);
  bpf_prog_info info{};
  uint32_t size = sizeof(info);
  if (bpf_obj_get_info_by_fd(program_fd, &info, &size) != 0) return fail("asking for the switch's id", errno);
  const_cast<uint32_t&>(const_cast<const uint32_t&>(skeleton->rodata->switch_program)) = info.id;
  if (int error = bpf_map__reuse_fd(skeleton->maps.counters, counters_fd); error != 0)
    return fail("sharing the counters", -error);
  if (int error = redirects_bpf__load(skeleton); error != 0)
    return fail("loading the tracing programs", -error);
  if (int error = redirects_bpf__attach(skeleton); error != 0)
    return fail("attaching to tracepoints", -error);
  return watch;
}

RedirectWatch::~RedirectWatch() { redirects_bpf__destroy(skeleton_); }

void RedirectWatch::SetInterfaces(const std::vector<int>& ifindexes) {
  const int fd = bpf_map__fd(skeleton_->maps.attached);
  uint32_t key = 0, next = 0;
  std::vector<uint32_t> gone;
  for (void* at = nullptr; bpf_map_get_next_key(fd, at, &next) == 0; at = &key) {
    key = next;
    if (std::find(ifindexes.begin(), ifindexes.end(), static_cast<int>(key)) == ifindexes.end())
      gone.push_back(key);
  }
  for (const uint32_t ifindex : gone) bpf_map_delete_elem(fd, &ifindex);
  for (const int ifindex : ifindexes) {
    const auto index = static_cast<uint32_t>(ifindex);
    const uint8_t one = 1;
    bpf_map_update_elem(fd, &index, &one, BPF_ANY);
  }
}

}  // namespace spillway::switching
