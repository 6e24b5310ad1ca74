// SPDX-License-Identifier: Apache-2.0
#include "lab/unit/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "base/duration.h"
#include "command/option_checks.h"

namespace spillway::unit {

Result<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  const bool is_bare = !text.empty() && text.back() >= '0' && text.back() <= '9';
  const auto time = base::ParseDuration(is_bare ? std::string(text) + "s" : std::string(text));
  if (!time || *time > std::chrono::hours(365 * 24))
    return Fail(ErrorCode::kBadInput,
                fmt::format("\"{}\": expected a time such as 500us, 1.5ms or 10s", text));
  return *time;
}

CLI::Option* AddDuration(CLI::App& app, const std::string& name, std::chrono::nanoseconds& value,
                         const std::string& help) {
  return app
      .add_option_function<std::string>(
          name,
          [&value, name](const std::string& text) {
            const Result<std::chrono::nanoseconds> parsed = ParseDuration(text);
            if (!parsed) throw CLI::ValidationError(name, parsed.error().message);
            value = *parsed;
          },
          help)
      ->type_name("TIME")
      ->default_str(base::DurationText(value));
}

void AddServerOptions(CLI::App& app, ServerSettings& settings) {
  app.add_option_function<std::vector<std::string>>(
         "--listen",
         [&settings](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const Result<base::SocketAddress> address = base::SocketAddress::Parse(text);
             if (!address) throw CLI::ValidationError("--listen", address.error().message);
             settings.listen.push_back(*address);
           }
         },
         "Address and port to answer at, e.g. 10.0.1.1:53 or [fd00::1]:53; may be repeated (for DSR: the "
         "VIP, which must be on an interface, usually lo)")
      ->type_name("ADDRESS:PORT")
      ->required();
  app.add_option_function<std::string>(
         "--protocol",
         [&settings](const std::string& name) {
           settings.udp = name != "tcp";
           settings.tcp = name != "udp";
         },
         "Protocols to answer")
      ->check(CLI::IsMember({"udp", "tcp", "both"}))
      ->default_str("both");
  app.add_option("--name", settings.name, "Name of this unit in its answers, at most 16 bytes")
      ->check([](const std::string& name) {
        return name.empty() || name.size() > kNameBytes ? "expected 1 to 16 bytes" : "";
      });
}

void AddOptions(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  AddServerOptions(app, settings);
  app.add_option("--workers", settings.workers, "Requests served at a time")
      ->check(command::InRange(1, 65536));
  app.add_option("--queue", settings.queue_limit, "Requests that may wait; further ones are lost")
      ->check(command::InRange(0, 10'000'000));
  AddDuration(app, "--service", settings.service, "Mean time a request occupies a worker");
  static const std::map<std::string, Distribution> kNames = {{"constant", Distribution::kConstant},
                                                             {"exponential", Distribution::kExponential},
                                                             {"lognormal", Distribution::kLognormal}};
  CLI::Option* distribution =
      app.add_option("--distribution", settings.distribution,
                     "Service times: constant, exponential, lognormal (the default when --cv is given)")
          ->transform(CLI::CheckedTransformer(kNames))
          ->default_str("constant");
  CLI::Option* cv =
      app.add_option("--cv", settings.cv, "Standard deviation over mean of lognormal service times")
          ->check(command::InRange(0.0, 100.0));
  AddDuration(app, "--extra-latency", settings.extra_latency,
              "Added to every answer, occupying no worker (a slower path, not a slower worker)");
  app.add_option("--seed", settings.seed, "Seed of the service times");
  app.add_flag("--realtime", settings.realtime,
               "Run at real-time priority, so that other programs do not delay answers (needs CAP_SYS_NICE)");
  app.final_callback([&settings, cv, distribution] {
    if (cv->count() == 0) {
      if (settings.distribution == Distribution::kLognormal)
        throw CLI::ValidationError("--distribution", "lognormal needs --cv");
      return;
    }
    if (distribution->count() != 0 && settings.distribution != Distribution::kLognormal)
      throw CLI::ValidationError("--cv", "only for --distribution lognormal");
    settings.distribution = Distribution::kLognormal;
  });
}

}  // namespace spillway::unit
