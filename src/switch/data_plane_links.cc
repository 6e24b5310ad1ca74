// SPDX-License-Identifier: Apache-2.0
// Interfaces: the part of DataPlane that attaches the program to them, keeps the pins of its links, and
// detaches it.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/system_error.h"
#include "data_plane.h"
#include "program_barrier.h"

namespace spillway::switching {
namespace {

namespace fs = std::filesystem;

constexpr char kAskedFor[] = "asked for by switch.attach";

// Where auto found no native mode it is not tried again at each change: packets are lost meanwhile.
bool HasMode(const InterfaceView& view, model::AttachMode mode) {
  if (mode == model::AttachMode::kAuto) return view.native || view.why_generic != kAskedFor;
  return view.native == (mode == model::AttachMode::kNative);
}

std::string LinkPin(const Options& options, const std::string& interface) {
  return PinFolder(options) + "/" + kLinkPin + interface;
}

}  // namespace

Result<unsigned> InterfaceIndex(const std::string& interface) {
  const unsigned index = if_nametoindex(interface.c_str());
  if (index != 0) return index;
  return Fail(ErrorCode::kBadInput, fmt::format("switch.interfaces: no interface {} here", interface));
}

// Whether the attachment is a new one, not adopted. An adopted one has the mode that it had.
Result<bool> DataPlane::Attach(const std::string& interface, model::AttachMode mode) {
  Result<unsigned> ifindex = InterfaceIndex(interface);
  if (!ifindex) return tl::make_unexpected(ifindex.error());
  InterfaceView view{interface, static_cast<int>(*ifindex), true, ""};
  std::string pin = LinkPin(options_, interface);
  if (int fd = bpf_obj_get(pin.c_str()); fd >= 0) {
    bpf_link_info info{};
    uint32_t size = sizeof(info);
    bool same = bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && info.xdp.ifindex == *ifindex;
    if (same && bpf_link_update(fd, program_fd(), nullptr) == 0) {
      bpf_xdp_query_opts query{};
      query.sz = sizeof(query);
      view.native = bpf_xdp_query(view.ifindex, 0, &query) == 0 && query.attach_mode != XDP_ATTACHED_SKB;
      if (!view.native)
        view.why_generic =
            "attached in this mode by an earlier run, which switch.attach: auto does not change";
      attachments_.push_back({interface, fd});
      interfaces_.push_back(view);
      return false;
    }
    // Another interface has the name; its own has gone, or is called otherwise.
    DetachLink(fd);
    close(fd);
    unlink(pin.c_str());
  }
  LIBBPF_OPTS(bpf_link_create_opts, options);
  options.flags = mode == model::AttachMode::kGeneric ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
  int fd = bpf_link_create(program_fd(), view.ifindex, BPF_XDP, &options);
  if (fd < 0 && errno != EBUSY && errno != EEXIST && mode == model::AttachMode::kAuto) {
    view.why_generic = fmt::format("native mode refused: {}", std::strerror(errno));
    options.flags = XDP_FLAGS_SKB_MODE;
    fd = bpf_link_create(program_fd(), view.ifindex, BPF_XDP, &options);
  }
  if (mode == model::AttachMode::kGeneric) view.why_generic = kAskedFor;
  if (fd < 0 && (errno == EBUSY || errno == EEXIST)) {
    return Fail(ErrorCode::kConflict,
                fmt::format("interface {} already has an XDP program: another spillwayd, "
                            "or `ip link show {}` names it",
                            interface, interface));
  }
  if (fd < 0) return FailSystem("attaching to " + interface, errno);
  view.native = view.why_generic.empty();
  if (bpf_obj_pin(fd, pin.c_str()) != 0) {
    int error = errno;
    DetachLink(fd);
    close(fd);
    return FailSystem("pinning " + pin, error);
  }
  attachments_.push_back({interface, fd});
  interfaces_.push_back(view);
  return true;
}

Result<void> DataPlane::AttachTo(const std::vector<std::string>& interfaces, model::AttachMode mode) {
  const auto known = [&](const std::string& name) {
    return std::ranges::find(interfaces_, name, &InterfaceView::name);
  };
  for (const std::string& name : interfaces)
    if (auto index = InterfaceIndex(name); !index && known(name) == interfaces_.end())
      return tl::make_unexpected(index.error());
  std::vector<std::string> made;
  std::vector<InterfaceView> changed;  // as they were
  for (const std::string& name : interfaces) {
    Result<bool> attached = false;
    // One that has gone, or to which the program could not be attached again: FollowInterfaces sees to it.
    if (const auto view = known(name); view != interfaces_.end())
      if (view->ifindex == 0 || !InterfaceIndex(name)) continue;
    if (known(name) == interfaces_.end()) attached = Attach(name, mode);
    const auto view = known(name);
    if (attached && !*attached && !HasMode(*view, mode)) {
      changed.push_back(*view);
      attached = AttachAnew(name, mode);
    } else if (attached && *attached) {
      made.push_back(name);
    }
    if (attached) continue;
    for (const std::string& undo : made) (void)Detach(undo);
    for (const InterfaceView& before : changed) AttachAsBefore(before);
    return tl::make_unexpected(attached.error());
  }
  Result<void> detached = DetachFromOthers(interfaces);
  WatchRedirects();
  return detached;
}

// A link keeps its mode for life, and no interface has two in different modes.
Result<bool> DataPlane::AttachAnew(const std::string& interface, model::AttachMode mode) {
  if (Result<void> detached = Detach(interface); !detached) return tl::make_unexpected(detached.error());
  return Attach(interface, mode);
}

void DataPlane::AttachAsBefore(const InterfaceView& before) {
  if (!AttachAnew(before.name, before.native ? model::AttachMode::kNative : model::AttachMode::kGeneric))
    return;
  const auto view = std::ranges::find(interfaces_, before.name, &InterfaceView::name);
  view->why_generic = before.why_generic;
}

void DataPlane::WatchRedirects() {
  if (!redirects_) return;
  std::vector<int> ifindexes;
  for (const InterfaceView& view : interfaces_)
    if (view.ifindex != 0) ifindexes.push_back(view.ifindex);
  redirects_->SetInterfaces(ifindexes);
}

Result<void> DataPlane::DetachFromOthers(const std::vector<std::string>& interfaces) {
  std::vector<std::string> others;
  std::error_code error;
  for (const auto& pin : fs::directory_iterator(PinFolder(options_), error)) {
    const std::string name = pin.path().filename().string();
    if (name.starts_with(kLinkPin)) others.push_back(name.substr(sizeof(kLinkPin) - 1));
  }
  for (const std::string& name : others) {
    if (std::ranges::find(interfaces, name) != interfaces.end()) continue;
    DetachPinnedLink(LinkPin(options_, name).c_str());
    if (Result<void> detached = Detach(name); !detached) return detached;
  }
  return {};
}

std::vector<std::string> DataPlane::FollowInterfaces(model::AttachMode mode) {
  std::vector<std::string> news;
  const std::vector<InterfaceView> views = interfaces_;
  for (const InterfaceView& view : views) {
    const unsigned index = if_nametoindex(view.name.c_str());
    if (static_cast<int>(index) == view.ifindex) continue;
    (void)Detach(view.name);
    if (index == 0) {
      interfaces_.push_back({view.name, 0, false, "there is no such interface"});
      news.push_back(
          fmt::format("interface {} has gone; it is attached to again once it is back", view.name));
      continue;
    }
    const Result<bool> attached = Attach(view.name, mode);
    if (attached) {
      news.push_back(fmt::format("interface {} was recreated; program attached again", view.name));
      continue;
    }
    const std::string& why = attached.error().message;
    interfaces_.push_back({view.name, 0, false, "not attached: " + why});
    if (view.ifindex != 0)
      news.push_back(fmt::format("interface {} was recreated: {}; trying again", view.name, why));
  }
  if (!news.empty()) WatchRedirects();
  return news;
}

Result<void> DataPlane::Detach(const std::string& interface) {
  std::erase_if(attachments_, [&](const Attachment& attachment) {
    if (attachment.interface != interface) return false;
    DetachLink(attachment.link_fd);
    close(attachment.link_fd);
    return true;
  });
  std::erase_if(interfaces_, [&](const InterfaceView& view) { return view.name == interface; });
  if (unlink(LinkPin(options_, interface).c_str()) != 0 && errno != ENOENT) {
    return FailSystem("removing " + LinkPin(options_, interface), errno);
  }
  return {};
}

}  // namespace spillway::switching
