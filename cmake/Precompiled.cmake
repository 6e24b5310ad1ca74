# spillway_precompile(TARGET KIND): TARGET's C++ sources start from a precompiled file of the headers that
# most of them include. KIND is `headers` (the standard library, and the heaviest of others), `rooms` (those and CLI11)
# or `tests` (those and GoogleTest); by GCC fewer. It saves time only: a file still names every header it uses. Presets `debug` and `bench`
# build without; the header checks (spillway_<room>_headers) start from `headers`, which the test `precompiled_includes`
# looks for in the text.
option(SPILLWAY_PRECOMPILED "Compile the most included headers once" ON)

set(SPILLWAY_HEADERS_HEADERS
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
  <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <queue> <random> <set> <span> <sstream> <string>
  <string_view> <thread> <tuple> <unordered_map> <unordered_set> <utility> <variant> <vector>
  <fmt/format.h> <nlohmann/json.hpp> <tl/expected.hpp> <yaml-cpp/yaml.h>)
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  set(SPILLWAY_ROOMS_HEADERS ${SPILLWAY_HEADERS_HEADERS} <CLI/CLI.hpp>)
  set(SPILLWAY_TESTS_HEADERS ${SPILLWAY_HEADERS_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
else()
  # GCC reads the whole file for each source: with all of the above it takes longer than without any.
  set(SPILLWAY_ROOMS_HEADERS
    <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <map>
    <memory> <optional> <set> <span> <sstream> <string> <string_view> <utility> <vector>
    <fmt/format.h> <nlohmann/json.hpp> <tl/expected.hpp>)
  set(SPILLWAY_TESTS_HEADERS ${SPILLWAY_ROOMS_HEADERS} <random> <gmock/gmock.h> <gtest/gtest.h>)
endif()

# The target that owns KIND's precompiled file; the others take it over.
function(spillway_precompiled_owner kind)
  set(owner spillway_precompiled_${kind})
  if(TARGET ${owner})
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/precompiled/${kind}.cc)
  file(GENERATE OUTPUT ${source} CONTENT "// Here for its precompiled header.\n")
  string(TOUPPER ${kind} list)
  set(headers "")
  foreach(header ${SPILLWAY_${list}_HEADERS})
    string(REPLACE ">" "$<ANGLE-R>" header ${header})
    list(APPEND headers "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
  add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${source})
  # What its users link decides macros that the headers read.
  target_link_libraries(${owner} PRIVATE fmt::fmt $<$<STREQUAL:${kind},tests>:GTest::gtest>)
  target_precompile_headers(${owner} PRIVATE ${headers})
  if(kind STREQUAL "headers")
    target_compile_options(${owner} PRIVATE -O0 -g0 -fno-sanitize=all)  # as the header checks
  endif()
endfunction()

function(spillway_precompile target kind)
  if(SPILLWAY_PRECOMPILED)
    spillway_precompiled_owner(${kind})
    target_link_libraries(${target} PRIVATE fmt::fmt)
    target_precompile_headers(${target} REUSE_FROM spillway_precompiled_${kind})
  endif()
endfunction()
