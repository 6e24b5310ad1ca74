// SPDX-License-Identifier: Apache-2.0
#include "health_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/hex.h"
#include "base/paths.h"
#include "scalars.h"

namespace spillway::model {
namespace {

using yaml::Describe;
using yaml::Excerpt;
using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxBytes = 1024;  // of a payload, of what is looked for, of a path
constexpr size_t kMaxWords = 64;    // of a command
constexpr const char* kNone = "none";

using Kinds = std::vector<CheckKind>;

bool IsPrintable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

// A host name or an IPv4 address, as a Host header and SNI take it.
bool IsHost(const std::string& text) {
  return !text.empty() && text.size() <= 253 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
}

// Labels of 1 to 63 bytes, 253 in all; "." is the root.
bool IsDomain(const std::string& text) {
  if (text == ".") return true;
  std::string name = text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
  if (name.empty() || name.size() > 253) return false;
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('.', start), name.size());
    if (end == start || end - start > 63) return false;
    start = end + 1;
  }
  return !name.ends_with('.') && IsPrintable(name) && name.find(' ') == name.npos;
}

// Text as it is, or bytes as "hex:00ff".
std::optional<std::string> ParseBytes(const std::string& text) {
  if (!text.starts_with("hex:")) return IsPrintable(text) ? std::optional(text) : std::nullopt;
  return base::ParseHex(std::string_view(text).substr(4));
}

// "200" or "200-299".
std::optional<std::pair<uint16_t, uint16_t>> ParseStatuses(const std::string& text) {
  const auto number = [](const std::string& digits) -> std::optional<uint16_t> {
    if (digits.size() != 3 || digits.find_first_not_of("0123456789") != digits.npos) return std::nullopt;
    const int status = std::stoi(digits);
    return status >= 100 && status <= 599 ? std::optional(static_cast<uint16_t>(status)) : std::nullopt;
  };
  const size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == text.npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

// Whoever names the file may have less rights than the daemon that reads it: no more of it than any bundle of
// certificates has, and nothing is waited for.
bool HasCertificate(const std::string& path) {
  constexpr size_t kMostBytes = 4 << 20;
  const base::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text(kMostBytes, '\0');
  size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t got = read(file.get(), text.data() + bytes, text.size() - bytes);
    if (got <= 0) break;
    bytes += static_cast<size_t>(got);
  }
  text.resize(bytes);
  for (size_t at = text.find("-----BEGIN"); at != text.npos; at = text.find("-----BEGIN", at + 1))
    if ((at == 0 || text[at - 1] == '\n') &&
        text.substr(at, text.find('\n', at) - at).find("CERTIFICATE-----") != text.npos)
      return true;
  return false;
}

class HealthReader {
 public:
  HealthReader(Problems& problems, const Field& field, const HealthBlock& inherited,
               const std::filesystem::path& folder, bool needs_kind)
      : problems_(problems),
        map_(problems, field, {"check",   "port",      "interval",        "timeout",    "rise", "fall",
                               "jitter",  "dampening", "dampening_limit", "on_fail",    "host", "path",
                               "status",  "body",      "ca_file",         "query",      "type", "rcode",
                               "payload", "expect",    "command",         "exit_status"}),
        block_(inherited),
        inherited_kind_(inherited.kind),
        folder_(folder),
        needs_kind_(needs_kind) {}

  HealthBlock Read() {
    if (!map_.is_map()) return {};
    if (!ReadKind()) {
      ReadTiming();  // what is wrong with it is known all the same
      return {};
    }
    // What belongs to another kind is not inherited.
    if (block_.kind != inherited_kind_) {
      const HealthCheck inherited = std::exchange(block_.check, {});
      HealthCheck& own = block_.check;
      own.interval_ms = inherited.interval_ms;
      own.timeout_ms = inherited.timeout_ms;
      own.rise = inherited.rise;
      own.fall = inherited.fall;
      own.jitter = inherited.jitter;
      own.dampening_ms = inherited.dampening_ms;
      own.dampening_limit_ms = inherited.dampening_limit_ms;
      own.on_fail = inherited.on_fail;
    }
    if (block_.kind) block_.check.kind = *block_.kind;
    ReadTiming();
    ReadWeb();
    ReadDns();
    ReadDatagram();
    ReadCommand();
    return std::move(block_);
  }

 private:
  // False: nothing can be said of the keys that only some kinds have.
  bool ReadKind() {
    const Field* field = map_.Find("check");
    if (field == nullptr && needs_kind_ && !inherited_kind_) {
      map_.Need("check", "the kind of check, as `health` at the file's top level sets none");
      return false;
    }
    if (field == nullptr) return true;
    std::string words = kNone;
    for (int kind = 0; kind < kCheckKinds; kind++) words += ", " + ToString(static_cast<CheckKind>(kind));
    const auto word = ReadText(problems_, *field, "one of " + words);
    if (!word) return false;
    block_.kind = ParseCheckKind(*word);
    if (block_.kind || *word == kNone) return true;
    problems_.Add(field->line, field->path, "expected one of " + words + ", got " + Excerpt(*word));
    return false;
  }

  void ReadTiming() {
    HealthCheck& c = block_.check;
    Take(c.port, map_.Find("port"), [&](const Field& f) { return ReadInteger(problems_, f, 1, 65535); });
    ReadMs("interval", milliseconds(10), hours(1), c.interval_ms);
    ReadMs("timeout", milliseconds(1), seconds(60), c.timeout_ms);
    Take(c.rise, map_.Find("rise"), [&](const Field& f) { return ReadInteger(problems_, f, 1, 100); });
    Take(c.fall, map_.Find("fall"), [&](const Field& f) { return ReadInteger(problems_, f, 1, 100); });
    Take(c.jitter, map_.Find("jitter"), [&](const Field& f) { return ReadNumber(problems_, f, 0, 0.5); });
    ReadMs("dampening", milliseconds(0), hours(1), c.dampening_ms);
    ReadMs("dampening_limit", milliseconds(0), hours(24), c.dampening_limit_ms);
    if (c.dampening_limit_ms < c.dampening_ms) {
      // A longer dampening with the default's limit means that dampening from the first time on.
      const Field* limit = map_.Find("dampening_limit");
      if (limit == nullptr)
        c.dampening_limit_ms = c.dampening_ms;
      else
        problems_.Add(limit->line, limit->path,
                      fmt::format("expected at least the dampening ({} ms), got {}", c.dampening_ms,
                                  Describe(limit->node)));
    }
    if (const Field* on_fail = map_.Find("on_fail"))
      c.on_fail = ReadWord(problems_, *on_fail, ParseOnFail, 2).value_or(c.on_fail);
  }

  void ReadWeb() {
    HealthCheck& c = block_.check;
    if (const Field* f = Of("host", {CheckKind::kTls, CheckKind::kHttp, CheckKind::kHttps}))
      ReadChecked(*f, "a host name of letters, digits, '.', '_' or '-' (it is sent, never resolved)", IsHost,
                  c.host);
    if (const Field* f = Of("ca_file", {CheckKind::kTls, CheckKind::kHttps})) ReadCertificates(*f, c.ca_file);
    if (const Field* f = Of("path", {CheckKind::kHttp, CheckKind::kHttps}))
      ReadChecked(
          *f, "a path that begins with '/', without spaces",
          [](const std::string& text) {
            return text.starts_with('/') && text.size() <= kMaxBytes && IsPrintable(text) &&
                   text.find(' ') == text.npos;
          },
          c.path);
    if (const Field* f = Of("status", {CheckKind::kHttp, CheckKind::kHttps})) ReadStatuses(*f);
    if (const Field* f = Of("body", {CheckKind::kHttp, CheckKind::kHttps})) ReadBytes(*f, c.body);
  }

  void ReadStatuses(const Field& field) {
    constexpr const char* kExpected = "a status or a range of them, 100 to 599, such as 200 or 200-399";
    std::vector<Field> entries{field};
    if (field.node.IsSequence()) entries = ReadList(problems_, field, "a list of statuses");
    if (entries.empty())
      problems_.Add(field.line, field.path, "expected at least one status, got an empty list");
    block_.check.statuses.clear();
    for (const Field& entry : entries) {
      const auto text = ReadText(problems_, entry, kExpected);
      if (!text) continue;
      if (const auto range = ParseStatuses(*text))
        block_.check.statuses.push_back(*range);
      else
        problems_.Add(entry.line, entry.path, fmt::format("expected {}, got {}", kExpected, Excerpt(*text)));
    }
  }

  void ReadDns() {
    HealthCheck& c = block_.check;
    const Field* query = Of("query", {CheckKind::kDns});
    if (query != nullptr)
      ReadChecked(*query, "a domain name such as example.org", IsDomain, c.query);
    else if (block_.kind == CheckKind::kDns && c.query.empty())
      map_.Need("query", "the domain name to ask for");
    ReadOneOf("type", CheckKind::kDns, DnsTypes(), c.type);
    ReadOneOf("rcode", CheckKind::kDns, DnsRcodes(), c.rcode);
  }

  void ReadDatagram() {
    HealthCheck& c = block_.check;
    if (const Field* f = Of("payload", {CheckKind::kUdp}))
      ReadBytes(*f, c.payload);
    else if (block_.kind == CheckKind::kUdp && c.payload.empty())
      map_.Need("payload", "the bytes to send");
    if (const Field* f = Of("expect", {CheckKind::kUdp})) ReadBytes(*f, c.expect);
  }

  void ReadCommand() {
    HealthCheck& c = block_.check;
    if (const Field* f = Of("command", {CheckKind::kExec}))
      ReadWords(*f);
    else if (block_.kind == CheckKind::kExec && c.command.empty())
      map_.Need("command", "a list: the program and its arguments");
    if (const Field* f = Of("exit_status", {CheckKind::kExec}))
      c.exit_status = static_cast<int>(ReadInteger(problems_, *f, 0, 255).value_or(0));
  }

  void ReadWords(const Field& field) {
    const auto entries = ReadList(problems_, field, "a list: the program and its arguments");
    if (field.node.IsSequence() && (entries.empty() || entries.size() > kMaxWords))
      problems_.Add(field.line, field.path,
                    fmt::format("expected 1 to {} words, got {}", kMaxWords, entries.size()));
    std::vector<std::string>& command = block_.check.command;
    command.clear();
    for (const Field& entry : entries) {
      std::string word;
      if (command.empty())
        ReadFile(entry, "an executable file", X_OK, word);
      else
        ReadChecked(
            entry, "a word without control characters",
            [](const std::string& text) {
              return std::all_of(text.begin(), text.end(),
                                 [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
            },
            word);
      command.push_back(word);
    }
  }

  // The key's value, if the check's kind is one of `kinds`; else the key is refused.
  const Field* Of(const char* key, const Kinds& kinds) {
    const Field* field = map_.Find(key);
    if (field == nullptr ||
        (block_.kind && std::find(kinds.begin(), kinds.end(), *block_.kind) != kinds.end()))
      return field;
    if (const Field* kind = map_.Find("kind"); kind != nullptr && !problems_.Sound(kind->path))
      return nullptr;
    std::string words;
    for (const CheckKind kind : kinds) words += (words.empty() ? "" : " or ") + ToString(kind);
    problems_.Add(
        field->line, field->path,
        fmt::format("allowed only in a check of kind {}, got it in {}", words,
                    block_.kind ? "a check of kind " + ToString(*block_.kind) : "a check without a kind"));
    return nullptr;
  }

  void ReadMs(const char* key, milliseconds least, milliseconds most, uint32_t& into) {
    if (const Field* field = map_.Find(key))
      if (const auto read = ReadDuration(problems_, *field, least, most))
        into = static_cast<uint32_t>(read->count());
  }

  template <class Good>
  void ReadChecked(const Field& field, const char* expected, Good good, std::string& into) {
    const auto text = ReadText(problems_, field, expected);
    if (!text) return;
    if (good(*text))
      into = *text;
    else
      problems_.Add(field.line, field.path, fmt::format("expected {}, got {}", expected, Excerpt(*text)));
  }

  void ReadOneOf(const char* key, CheckKind kind, const std::vector<std::string>& words, std::string& into) {
    if (const Field* field = Of(key, {kind}))
      if (const auto choice = ReadChoice(problems_, *field, words)) into = words[*choice];
  }

  void ReadBytes(const Field& field, std::string& into) {
    const std::string expected = fmt::format("1 to {} bytes, as printable text or as hex:0a0b", kMaxBytes);
    const auto text = ReadText(problems_, field, expected);
    if (!text) return;
    const auto bytes = ParseBytes(*text);
    if (bytes && !bytes->empty() && bytes->size() <= kMaxBytes)
      into = *bytes;
    else
      problems_.Add(field.line, field.path, fmt::format("expected {}, got {}", expected, Excerpt(*text)));
  }

  // Absolute, so that the configuration means the same wherever it is saved.
  void ReadFile(const Field& field, const char* expected, int access_mode, std::string& into) {
    const auto text = ReadText(problems_, field, expected);
    if (!text) return;
    into = base::AbsolutePath(folder_ / *text);
    std::error_code ignored;
    const bool regular = std::filesystem::is_regular_file(into, ignored);
    if (text->empty() || !regular || access(into.c_str(), access_mode) != 0)
      problems_.Add(field.line, field.path,
                    fmt::format("expected {}, got {}: {}", expected, Excerpt(into),
                                regular ? std::strerror(errno) : "no such file"));
  }

  // A file without any would be found at the first check, and that is only skipped.
  void ReadCertificates(const Field& field, std::string& into) {
    const size_t before = problems_.count();
    ReadFile(field, "a readable file of certificates", R_OK, into);
    if (problems_.count() != before) return;
    if (HasCertificate(into)) return;
    problems_.Add(field.line, field.path,
                  fmt::format("expected a file of certificates in PEM, got {}: none in it", Excerpt(into)));
  }

  Problems& problems_;
  MapReader map_;
  HealthBlock block_;
  const std::optional<CheckKind> inherited_kind_;
  const std::filesystem::path& folder_;
  const bool needs_kind_;
};

bool Fits(CheckKind kind, Protocol protocol) {
  switch (kind) {
    case CheckKind::kDns:
    case CheckKind::kUdp:
      return protocol == Protocol::kUdp;
    case CheckKind::kExec:
      return true;
    default:
      return protocol == Protocol::kTcp;
  }
}

}  // namespace

HealthBlock ReadHealthForAll(Problems& problems, const Field& field, const std::filesystem::path& folder) {
  return HealthReader(problems, field, {}, folder, false).Read();
}

HealthBlock ReadHealth(Problems& problems, const Field& field, const HealthBlock& inherited,
                       const std::filesystem::path& folder) {
  return HealthReader(problems, field, inherited, folder, true).Read();
}

std::optional<HealthCheck> CheckOf(Problems& problems, const std::string& path, const HealthBlock& block,
                                   const std::vector<ServicePort>& ports) {
  if (!block.kind) return std::nullopt;
  HealthCheck check = block.check;
  if (check.port != 0) return check;
  for (const ServicePort& port : ports) {
    if (!Fits(check.kind, port.protocol)) continue;
    check.port = port.port;
    return check;
  }
  if (!ports.empty())
    problems.Add(path,
                 fmt::format("expected a check for the service's ports, or one with a port of its own "
                             "(no check: {{check: none}}), got kind {} for a service with {} ports only",
                             ToString(check.kind), ToString(ports.front().protocol)));
  return std::nullopt;
}

}  // namespace spillway::model
