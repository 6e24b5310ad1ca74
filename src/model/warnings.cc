// SPDX-License-Identifier: Apache-2.0
#include "warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/policy.h"
#include "secret_files.h"
#include "validate.h"

namespace spillway::model {
namespace {

void WarnOfSecrets(const Config& config, std::vector<std::string>& warnings) {
  if (!config.data_plane.seed_file.empty())
    if (auto warning = SecretFileWarning(config.data_plane.seed_file))
      warnings.push_back(std::move(*warning));
  std::map<std::string, Key> keys;
  for (const Pool& pool : config.pools)
    for (const Server& server : pool.servers)
      if (server.key) keys.emplace(server.key_file, *server.key);
  for (const auto& [file, key] : keys)
    for (std::string& warning : KeyFileWarnings(file, key)) warnings.push_back(std::move(warning));
}

// The policy that would read this server's reports; empty: none would.
std::string ReaderOfReports(const Service& service, const Pool& pool, const Server& server) {
  if (spw_unit_policy_reads_reports(service.unit_policy) && server.units.size() > 1)
    return ToString(service.unit_policy);
  if (service.server_policy == SPW_SERVER_P2C && pool.servers.size() > 1)
    return ToString(service.server_policy);
  return "";
}

// A line per service: of many servers the first, and how many.
void WarnOfMissingKeys(const Config& config, std::vector<std::string>& warnings) {
  for (const Service& service : config.services) {
    const Pool* const pool = config.FindPool(service.pool);
    if (pool == nullptr) continue;
    const Server* first = nullptr;
    std::string policy;
    size_t more = 0;
    for (const Server& server : pool->servers) {
      if (server.key) continue;
      std::string reader = ReaderOfReports(service, *pool, server);
      if (reader.empty()) continue;
      if (first != nullptr) {
        more++;
        continue;
      }
      first = &server;
      policy = std::move(reader);
    }
    if (first == nullptr) continue;
    const std::string others = more == 0 ? "" : fmt::format(" and {} more", more);
    warnings.push_back(fmt::format(
        "{}: no key_file for {}{}: their load reports are refused, so {} places by capacity there",
        PathOf(service), PathOf(*pool, *first), others, policy));
  }
}

// A server may be in several pools.
bool AreOneMachine(const Server& one, const Server& other) {
  return std::ranges::any_of(one.units, [&](const Unit& unit) {
    return std::ranges::any_of(other.units, [&](const Unit& its) { return unit.address == its.address; });
  });
}

// Whoever has a key can report for all servers that have it.
void WarnOfSharedKeys(const Config& config, std::vector<std::string>& warnings) {
  std::map<Key, std::pair<const Pool*, const Server*>> owners;
  for (const Pool& pool : config.pools)
    for (const Server& server : pool.servers) {
      if (!server.key) continue;
      const auto [found, is_first] = owners.emplace(*server.key, std::pair(&pool, &server));
      const auto& [its_pool, owner] = found->second;
      if (!is_first && !AreOneMachine(*owner, server))
        warnings.push_back(
            fmt::format("{}: the same key as {}: who has it can report for both, so each "
                        "server needs its own",
                        PathOf(pool, server), PathOf(*its_pool, *owner)));
    }
}

}  // namespace

std::vector<std::string> Warnings(const Config& config) {
  std::vector<std::string> warnings;
  WarnOfSecrets(config, warnings);
  WarnOfMissingKeys(config, warnings);
  WarnOfSharedKeys(config, warnings);
  return warnings;
}

}  // namespace spillway::model
