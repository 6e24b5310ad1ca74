// SPDX-License-Identifier: Apache-2.0
// The controller's API: bodies of operators and node agents, one after another (RS, 0x1e, between two), the
// first byte of each saying whose. Whatever they are, they are taken or refused in words, what is written to
// the state file can be read again and is the same, and there are orders for every host.
#include <cstdlib>

#include "gateway/control/model_file.h"
#include "scheduler/controller/controller.h"
#include "scheduler/controller/host_message.h"

using namespace spillway;
using namespace spillway::scheduler;

namespace {

constexpr size_t kMostBodies = 16;  // each may try placements for all models

template <class T>
void NeedsWords(const Result<T>& done) {
  if (!done && done.error().message.empty()) std::abort();
}

void Say(Controller& controller, char who, const std::string& body, Millis now) {
  switch (who) {
    case 'a': {
      // It would look for whatever file is named.
      if (body.find("_file") != std::string::npos) return;
      const auto model = gateway::ParseModelFile(body, "model");
      NeedsWords(model);
      if (model) NeedsWords(controller.AddModel(*model, now));
      break;
    }
    case 'm': {
      const size_t end = std::min(body.find(' '), body.size());
      NeedsWords(controller.MoveModel(body.substr(0, end), body.substr(std::min(end + 1, body.size())), now));
      break;
    }
    case 'r':
      NeedsWords(controller.RemoveModel(body, now));
      break;
    case 'j':
      controller.Joined(controller.fleet().last_id, now);
      break;
    case 'l':
      controller.HostLost("h", now);
      break;
    default:
      if (const auto report = ParseHostReport(body))
        controller.HostSays(who == 'g' ? "g" : "h", report->gpus, report->held, report->revision, now);
  }
}

void Check(const Controller& controller) {
  const auto again = ParseFleet(ToText(controller.fleet()));
  if (!again || !(*again == controller.fleet())) std::abort();
  for (const auto& [host, gpus] : controller.fleet().hosts)
    if (!ParseHostOrders(ToText(HostOrders{controller.fleet().revision, controller.Wanted(host)})))
      std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  Controller controller{ControllerOptions{}};
  Millis now = 1000;
  size_t bodies = 0;
  for (size_t at = 0; at < text.size() && bodies++ < kMostBodies;) {
    const size_t end = std::min(text.find('\x1e', at), text.size());
    if (end > at) Say(controller, text[at], text.substr(at + 1, end - at - 1), now);
    Check(controller);
    now += 700;
    controller.Tick(now);
    at = end + 1;
  }
  Check(controller);
  return 0;
}
