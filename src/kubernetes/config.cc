// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "api/listen.h"
#include "base/yaml/documents.h"
#include "base/yaml/reader.h"
#include "base/yaml/scalars.h"

namespace spillway::kubernetes {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

// http://HOST, http://HOST:PORT and so on, HOST being this machine whatever a resolver says.
bool IsLoopbackUrl(const std::string& url) {
  std::string host = url.substr(url.find("//") + 2);
  host.resize(std::min(host.find('/'), host.size()));
  if (const size_t port = host.rfind(':'); port != host.npos && !host.ends_with(']')) {
    if (host.find_first_not_of("0123456789", port + 1) != host.npos) return false;
    host.resize(port);
  }
  in_addr address{};
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && inet_pton(AF_INET, host.c_str(), &address) == 1);
}

bool IsUrl(const std::string& text) {
  const bool secure = text.starts_with("https://");
  return (secure || text.starts_with("http://")) && text.size() > (secure ? 8u : 7u) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

void ReadListen(Problems& problems, const Field& field, std::string& listen) {
  const auto text = yaml::ReadText(problems, field, "ADDRESS:PORT, such as 127.0.0.1:8888");
  if (!text) return;
  listen = *text;
  if (const auto good = api::CheckEndpoint(listen); !good)
    problems.Add(field.line, field.path, good.error().message);
}

void ReadApiServer(Problems& problems, const Field& field, std::string& url) {
  Take(url, &field, [&](const Field& f) { return yaml::ReadText(problems, f, "the API server's URL"); });
  if (!url.empty() && !IsUrl(url))
    problems.Add(field.line, field.path,
                 "expected a URL such as https://10.0.0.1:6443, got " + yaml::Excerpt(url));
  while (url.ends_with('/')) url.pop_back();
}

ExtenderConfig ReadExtender(Problems& problems, const Field& field, const std::filesystem::path& folder) {
  ExtenderConfig config;
  MapReader map(problems, field,
                {"listen", "cluster", "api_server", "token_file", "ca_file", "resync", "timeout"});
  if (const Field* f = map.Need("listen", "the ADDRESS:PORT that the scheduler asks at"))
    ReadListen(problems, *f, config.listen);
  const Field* server = map.Find("api_server");
  if (server != nullptr) ReadApiServer(problems, *server, config.api_server);
  const auto path = [&](std::string& into, const char* key, const char* expected) {
    Take(into, map.Find(key), [&](const Field& f) { return yaml::ReadPath(problems, f, expected, folder); });
  };
  path(config.cluster, "cluster", "the path of a cluster file");
  path(config.token_file, "token_file", "the path of a token's file");
  path(config.ca_file, "ca_file", "the path of a certificate's file");
  if (const Field* token = map.Find("token_file");
      token != nullptr && config.api_server.starts_with("http://") && !IsLoopbackUrl(config.api_server))
    problems.Add(token->line, token->path,
                 "expected an https:// api_server (with http the token could be read on the way), got " +
                     yaml::Excerpt(config.api_server));
  if (server == nullptr)
    map.Refuse({"token_file", "ca_file", "resync", "timeout"}, "allowed only with api_server");
  if (server == nullptr && map.Find("cluster") == nullptr && map.is_map())
    problems.Add(field.line, field.path, "expected an api_server, a cluster, or both");
  const auto time = [&](uint32_t& into_ms, const char* key, milliseconds least, milliseconds most) {
    if (const Field* f = map.Find(key))
      if (const auto read = yaml::ReadDuration(problems, *f, least, most))
        into_ms = static_cast<uint32_t>(read->count());
  };
  time(config.resync_ms, "resync", milliseconds(100), hours(1));
  time(config.timeout_ms, "timeout", milliseconds(10), seconds(60));
  return config;
}

// Why a file that a key names cannot be read; empty: it can.
std::string WhyUnreadable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return path + ": a directory";
  errno = 0;
  if (!std::ifstream(path)) return fmt::format("{}: {}", path, std::strerror(errno));
  return "";
}

Result<void> CheckFiles(const std::string& file, const ExtenderConfig& config) {
  const std::pair<const char*, std::string> files[] = {
      {"token_file", config.token_file}, {"ca_file", config.ca_file}, {"cluster", config.cluster}};
  for (const auto& [key, path] : files) {
    if (path.empty()) continue;
    if (const std::string why = WhyUnreadable(path); !why.empty())
      return Fail(ErrorCode::kBadInput,
                  fmt::format("{}: extender.{}: expected a readable file, got {}", file, key, why));
    if (const auto text = yaml::ReadInputFile(path); !text) return tl::make_unexpected(text.error());
  }
  return LoadCluster(config).map([](const scheduler::ClusterFile&) {});
}

}  // namespace

Result<ExtenderConfig> ParseExtenderConfig(const std::string& yaml, const std::string& file_name) {
  ExtenderConfig config;
  const auto read = yaml::ReadDocument(yaml, file_name, [&](Problems& problems, const Field& root) {
    const MapReader top(problems, root, {"extender"});
    if (const Field* field = top.Need("extender", "a map with the extender's address"))
      config = ReadExtender(problems, *field, std::filesystem::path(file_name).parent_path());
  });
  return read.map([&] { return std::move(config); });
}

Result<ExtenderConfig> LoadExtenderConfig(const std::string& path) {
  return yaml::ReadInputFile(path)
      .and_then([&](const std::string& text) { return ParseExtenderConfig(text, path); })
      .and_then([&](ExtenderConfig config) {
        return CheckFiles(path, config).map([&] { return std::move(config); });
      });
}

Result<scheduler::ClusterFile> LoadCluster(const ExtenderConfig& config) {
  if (config.cluster.empty())
    return scheduler::ClusterFile{scheduler::Cluster({}, {}, {}), {}, {}, {{"", 0}}};
  return scheduler::LoadClusterFile(config.cluster, !config.api_server.empty());
}

}  // namespace spillway::kubernetes
