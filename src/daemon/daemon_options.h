// SPDX-License-Identifier: Apache-2.0
// spillwayd's command line.
#pragma once

#include <string>
#include <variant>

namespace spillway::command {

struct DaemonOptions {
  std::string config;                // -c: the pool file
  std::string instance = "default";  // names pins, lock and saved state; letters, digits, ".", "_", "-"
  std::string api;                   // path of the UNIX socket; DefaultApi() unless given
  std::string metrics;               // ADDRESS:PORT; empty: none
  std::string bpffs = "/sys/fs/bpf";
  std::string run_dir = "/run/spillway";
  std::string state_dir;  // DefaultStateDir() unless given
  std::string log_level = "info";
  bool keep = false;    // leave the data plane in place at exit
  bool remove = false;  // clean what the instance left behind, then exit
  bool check = false;   // read the configuration, say what is wrong, then exit
};

// run_dir/api.sock for the default instance, run_dir/NAME.sock for others.
std::string DefaultApi(const DaemonOptions& options);

// What outlives a reboot; /var/lib/spillway, or the run directory where that is not the usual one: whoever
// keeps an instance apart by its own folder wants all of it there.
std::string DefaultStateDir(const DaemonOptions& options);

// The options, or the exit code where the command line ends the program (--help, --version, bad usage);
// its text is printed by then.
std::variant<DaemonOptions, int> ParseDaemonOptions(int argc, char** argv);

}  // namespace spillway::command
