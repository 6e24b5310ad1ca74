// SPDX-License-Identifier: Apache-2.0
#include "model/secret_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/fd.h"
#include "base/file.h"
#include "base/hex.h"

namespace spillway::model {

namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr size_t kReadBytes = 256;  // more than a key and its white space: the rest decides nothing

std::string_view Trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kSpace);
  return first == text.npos ? std::string_view()
                            : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// For a message: of a secret nothing but its length.
std::string WhatItHolds(std::string_view text) {
  text = Trimmed(text);
  if (text.empty()) return "an empty file";
  const bool is_hex = text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
  return fmt::format("{} {}", text.size(), is_hex ? "hex digits" : "characters, not all of them hex digits");
}

}  // namespace

std::optional<Key> ParseKey(std::string_view text) {
  const std::optional<std::string> bytes = base::ParseHex(Trimmed(text));
  Key key;
  if (!bytes || bytes->size() != key.size()) return std::nullopt;
  std::copy(bytes->begin(), bytes->end(), key.begin());
  return key;
}

Result<std::string> ReadSecretFile(const std::string& path) {
  // Who names the file may use the API only: nothing that it may be (a FIFO, a terminal, a file of /proc that
  // waits for news) holds the daemon up.
  const base::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0)
    return Fail(ErrorCode::kBadInput, fmt::format("{}: {}", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    return Fail(ErrorCode::kBadInput, fmt::format("{}: not a regular file", path));
  if ((status.st_mode & S_IWOTH) != 0)
    return Fail(ErrorCode::kBadInput, fmt::format("{}, which any user may write to (chmod 600)", path));
  std::string text(kReadBytes, '\0');
  size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t got = read(file.get(), text.data() + bytes, text.size() - bytes);
    if (got < 0) return Fail(ErrorCode::kBadInput, fmt::format("{}: {}", path, std::strerror(errno)));
    if (got == 0) break;
    bytes += static_cast<size_t>(got);
  }
  text.resize(bytes);
  if (text.size() == kReadBytes)
    return Fail(ErrorCode::kBadInput, fmt::format("{}: {} characters or more", path, kReadBytes));
  return text;
}

std::optional<std::string> SecretFileWarning(const std::string& path) {
  std::error_code error;
  const auto permissions = std::filesystem::status(path, error).permissions();
  using Perms = std::filesystem::perms;
  if (error) return std::nullopt;
  if ((permissions & Perms::others_read) != Perms::none)
    return fmt::format("{} holds a secret and any user may read it: chmod 600", path);
  if ((permissions & Perms::group_write) != Perms::none)
    return fmt::format("{} holds a secret and its group may change it: chmod 600", path);
  return std::nullopt;
}

Result<Key> ReadKeyFile(const std::string& path) {
  const auto text = ReadSecretFile(path);
  if (!text) return tl::make_unexpected(text.error());
  const auto key = ParseKey(*text);
  if (!key) return Fail(ErrorCode::kBadInput, fmt::format("{}: {}", path, WhatItHolds(*text)));
  return *key;
}

std::vector<std::string> KeyFileWarnings(const std::string& path, const Key& key) {
  std::vector<std::string> warnings;
  if (auto warning = SecretFileWarning(path)) warnings.push_back(std::move(*warning));
  const auto step = static_cast<uint8_t>(key[1] - key[0]);
  const auto is_odd_one = [&](uint8_t one, uint8_t next) { return static_cast<uint8_t>(next - one) != step; };
  if (std::ranges::adjacent_find(key, is_odd_one) == key.end())
    warnings.push_back(fmt::format(
        "{} holds a key that anyone can guess; make one with: openssl rand -hex {}", path, key.size()));
  return warnings;
}

namespace {

namespace fs = std::filesystem;

constexpr size_t kWords = std::size(spw_seed{}.key);
constexpr size_t kDigits = kWords * 8 + 16;

template <class Word>
bool ParseWord(std::string_view digits, Word& word) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), word, 16);
  return error == std::errc() && end == digits.data() + digits.size();
}

}  // namespace

std::optional<spw_seed> ParseSeed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  if (text.size() != kDigits) return std::nullopt;
  spw_seed seed{};
  for (size_t i = 0; i < kWords; i++)
    if (!ParseWord(text.substr(i * 8, 8), seed.key[i])) return std::nullopt;
  uint64_t mix = 0;
  if (!ParseWord(text.substr(kWords * 8), mix)) return std::nullopt;
  seed.mix = mix;
  return seed;
}

std::string SeedText(const spw_seed& seed) {
  std::string text;
  for (const uint32_t word : seed.key) text += fmt::format("{:08x}", word);
  return text + fmt::format("{:016x}\n", uint64_t{seed.mix});
}

Result<std::optional<spw_seed>> ReadSeedFile(const std::string& path) {
  if (std::error_code error; !fs::exists(path, error) && !error) return std::nullopt;
  const auto text = ReadSecretFile(path);
  if (!text) return tl::make_unexpected(text.error());
  const auto seed = ParseSeed(*text);
  if (!seed)
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: no seed of {} hex digits; restore the file, or move it away for a new seed",
                            path, kDigits));
  return seed;
}

Result<spw_seed> RandomSeed() {
  spw_seed seed{};
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
    return Fail(ErrorCode::kSystem, fmt::format("getrandom: {}", std::strerror(errno)));
  return seed;
}

Result<spw_seed> ReadOrMakeSeedFile(const std::string& path, const std::optional<spw_seed>& running) {
  auto found = ReadSeedFile(path);
  if (!found) return tl::make_unexpected(found.error());
  if (*found) return **found;
  const auto wanted = running ? Result<spw_seed>(*running) : RandomSeed();
  if (!wanted) return tl::make_unexpected(wanted.error());
  const spw_seed seed = *wanted;
  const auto made = base::CreateFile(path, SeedText(seed), {.mode = 0600});
  if (!made) return tl::make_unexpected(made.error());
  if (*made) return seed;
  found = ReadSeedFile(path);
  if (!found) return tl::make_unexpected(found.error());
  if (!*found) return Fail(ErrorCode::kSystem, fmt::format("{} was removed while it was read", path));
  return **found;
}

}  // namespace spillway::model
