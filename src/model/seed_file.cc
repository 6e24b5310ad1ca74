// SPDX-License-Identifier: Apache-2.0
#include "seed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "key_file.h"

namespace spillway::model {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWords = std::size(spw_seed{}.key);
constexpr size_t kDigits = kWords * 8 + 16;

template <class Word>
bool ParseWord(std::string_view digits, Word& word) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), word, 16);
  return error == std::errc() && end == digits.data() + digits.size();
}

tl::unexpected<Error> FailSystem(const std::string& operation, const std::string& path) {
  return Fail(ErrorCode::kSystem, fmt::format("{} {}: {}", operation, path, std::strerror(errno)));
}

// A file of its own beside `path`, complete on disk, to be linked there.
Result<std::string> WriteBeside(const std::string& path, const std::string& text) {
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);  // mode 0600
  if (fd < 0) return FailSystem("creating", temporary);
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  if (!written) {
    auto failed = FailSystem("writing", temporary);
    close(fd);
    unlink(temporary.c_str());
    return failed;
  }
  close(fd);
  return temporary;
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
  if (!seed) return Fail(ErrorCode::kBadInput, fmt::format("{} holds something else", path));
  return seed;
}

Result<spw_seed> RandomSeed() {
  spw_seed seed{};
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) return FailSystem("getrandom for", "a seed");
  return seed;
}

Result<spw_seed> ReadOrMakeSeedFile(const std::string& path, const std::optional<spw_seed>& running) {
  auto found = ReadSeedFile(path);
  if (!found) return tl::make_unexpected(found.error());
  if (*found) return **found;
  const auto wanted = running ? Result<spw_seed>(*running) : RandomSeed();
  if (!wanted) return tl::make_unexpected(wanted.error());
  const spw_seed seed = *wanted;
  auto temporary = WriteBeside(path, SeedText(seed));
  if (!temporary) return tl::make_unexpected(temporary.error());
  // A link, unlike a rename, never replaces what another has made meanwhile.
  const int linked = link(temporary->c_str(), path.c_str()), error = errno;
  unlink(temporary->c_str());
  if (linked == 0) return seed;
  errno = error;
  if (error != EEXIST) return FailSystem("creating", path);
  found = ReadSeedFile(path);
  if (!found) return tl::make_unexpected(found.error());
  if (!*found) return Fail(ErrorCode::kSystem, fmt::format("{} was removed while it was read", path));
  return **found;
}

}  // namespace spillway::model
