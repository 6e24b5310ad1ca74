// SPDX-License-Identifier: Apache-2.0
// Whole files. A write is whole or not at all: readers, and whoever looks after a crash, find the old content
// or the new one. The new content is written to PATH.new, which replaces PATH by a rename. Of several
// writers, in this process or others, the last one wins: they take turns by a lock on PATH.new, which the
// kernel releases when its holder dies, so that a killed writer leaves at most that one file, and the next
// write replaces it. Until it is whole no other user can open that file, and so none can keep writers
// waiting; what another user's killed writer left is root's to remove. That is for folders that only the
// writers' user can write to. In others (/tmp) anybody may make PATH.new and keep it locked: nothing of
// theirs is written to or followed, but writes fail until it is gone. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace spillway::base {

// Errors (kSystem): "PATH: reason".
[[nodiscard]] Result<std::string> ReadFile(const std::string& path);

struct WriteOptions {
  // Of the file, less the process's umask; 0600 for what is secret. Where the file system allows no change
  // of modes, it may be a narrower one.
  mode_t mode = 0644;
  // On disk, the folder's entry included, before the call returns: a power cut takes nothing back. Costs a
  // wait for the disk; without it a crash of the process is survived all the same. Without it, nobody else's
  // write is waited for either: kConflict at once.
  bool is_durable = true;
};

// Replaces or makes the file; its folder exists. A link of that name is replaced, not followed; what is
// neither link nor file (a device, a pipe, a folder) stays, and that is an error.
// Errors: kBadInput: PATH is no file; kSystem, "operation PATH: reason"; kConflict: somebody holds PATH.new,
// and has for seconds if the write is durable.
[[nodiscard]] Result<void> WriteFile(const std::string& path, std::string_view text,
                                     const WriteOptions& options = {});

// For a path that a user named for output. A file is replaced or made as by WriteFile. A link, a device or a
// pipe is opened and written into, as by a shell's `>`: that write is not whole or nothing, and may wait for
// a pipe's reader if it is durable. Errors: as WriteFile's, but for kBadInput only of a folder.
[[nodiscard]] Result<void> WriteOutput(const std::string& path, std::string_view text,
                                       const WriteOptions& options = {});

// Makes the file if there is none by that name. False: there is one, which is left as it is. Of several that
// make it at once one gets true, also on file systems without hard links; there those of other hosts take
// turns only as far as the file system carries locks between hosts. Errors: as WriteFile's.
[[nodiscard]] Result<bool> CreateFile(const std::string& path, std::string_view text,
                                      const WriteOptions& options = {});

}  // namespace spillway::base
