// SPDX-License-Identifier: Apache-2.0
// spillwayd over a fake switch: the real options, loop, signals, API; no kernel. As the real start does,
// it refuses an instance that is held, takes over what a killed one left, and refuses one interface name.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/daemon.h"
#include "fake_switch.h"

namespace spillway::testing {
namespace {

// Its traces in run_dir: INSTANCE.lock while it lives, INSTANCE.pins as long as the data plane is there.
class Traced : public FakeSwitch {
 public:
  Traced(const model::Config& config, std::string pins, int lock)
      : FakeSwitch(config), pins_(std::move(pins)), lock_(lock) {
    adopted_value = std::filesystem::exists(pins_);
    std::ofstream(pins_) << "pinned";
  }
  ~Traced() override { close(lock_); }
  Result<void> Remove() override {
    std::filesystem::remove(pins_);
    return FakeSwitch::Remove();
  }

 private:
  const std::string pins_;
  const int lock_;
};

Result<std::unique_ptr<switching::Switch>> Start(const model::Config& config,
                                                 const switching::Options& options) {
  const std::string base = options.run_dir + "/" + options.instance;
  const int lock = open((base + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0)
    return Fail(ErrorCode::kConflict, "instance " + options.instance + ": another spillwayd holds it");
  if (config.data_plane.interfaces.front() == "taken0") return Fail(ErrorCode::kConflict, "taken0: busy");
  return std::make_unique<Traced>(config, base + ".pins", lock);
}

Result<bool> RemoveLeftovers(const switching::Options& options) {
  return std::filesystem::remove(options.run_dir + "/" + options.instance + ".pins");
}

}  // namespace
}  // namespace spillway::testing

int main(int argc, char** argv) {
  return spillway::command::RunSpillwayd(argc, argv,
                                         {spillway::testing::Start, spillway::testing::RemoveLeftovers});
}
