include(Precompiled)

# The target header_checks compiles each header on its own, with few precompiled (Precompiled.cmake): what it uses, it
# includes.
add_custom_target(header_checks)

# spillway_check_headers(NAME TARGET): the headers of this folder and of those below it that have no CMakeLists.txt, in
# the way in which TARGET is compiled. Those of <NAME>_UNCHECKED need what this build does not have.
function(spillway_check_headers name target)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.h)
  foreach(header ${headers})
    set(below ${header})
    while(below MATCHES "/")
      get_filename_component(below ${below} DIRECTORY)
      if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${below}/CMakeLists.txt)
        set(header "")  # checked there
        break()
      endif()
    endwhile()
    if(header)
      set_property(GLOBAL APPEND PROPERTY SPILLWAY_CHECKED_HEADERS ${CMAKE_CURRENT_SOURCE_DIR}/${header})
    endif()
    if(header AND NOT header IN_LIST ${name}_UNCHECKED)
      string(MAKE_C_IDENTIFIER ${header} stem)
      set(probe ${CMAKE_CURRENT_BINARY_DIR}/headers/${stem}.cc)
      file(GENERATE OUTPUT ${probe} CONTENT "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${header}\"\n")
      list(APPEND probes ${probe})
    endif()
  endforeach()
  if(probes)
    add_library(spillway_${name}_headers OBJECT EXCLUDE_FROM_ALL ${probes})
    target_link_libraries(spillway_${name}_headers PRIVATE $<TARGET_PROPERTY:${target},LINK_LIBRARIES>)
    target_include_directories(spillway_${name}_headers PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    target_compile_options(spillway_${name}_headers PRIVATE -O0 -g0 -fno-sanitize=all)
    set_target_properties(spillway_${name}_headers PROPERTIES UNITY_BUILD OFF)
    spillway_precompile(spillway_${name}_headers headers)
    add_dependencies(header_checks spillway_${name}_headers)
  endif()
endfunction()

# Called last: a header that no check above knows is one too many.
function(spillway_all_headers_checked)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.h ${CMAKE_SOURCE_DIR}/lab/*.h
       ${CMAKE_SOURCE_DIR}/bench/*.h)
  get_property(checked GLOBAL PROPERTY SPILLWAY_CHECKED_HEADERS)
  list(REMOVE_ITEM headers ${checked})
  if(headers)
    message(FATAL_ERROR "no spillway_room or spillway_check_headers for: ${headers}")
  endif()
endfunction()

# spillway_room(NAME SOURCES a.cc b.cc [LINK targets...])
# One room of the house: a static library spillway_<NAME>, and a check of its headers. ./test compiles it under the
# sanitizers too, unless SPILLWAY_AS_BUILT is set in its folder: what measures, simulates or plans, and meets no stranger.
function(spillway_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK" ${ARGN})
  add_library(spillway_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(spillway_${name} PUBLIC spillway_core fmt::fmt ${ROOM_LINK})
  spillway_precompile(spillway_${name} rooms)
  spillway_check_headers(${name} spillway_${name})
  if(TARGET sanitized_tests AND NOT SPILLWAY_AS_BUILT)
    add_dependencies(sanitized_tests spillway_${name})
  endif()
endfunction()

# spillway_compiled_apart(a.cc b.cc): sources of this folder whose names clash with those of others of their target, where
# it is compiled as few files (CMAKE_UNITY_BUILD, presets `test`, `asan` and `tsan`). Better names are the better way.
function(spillway_compiled_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# spillway_fastest(TARGET): where nanoseconds are counted, whatever the build's own level; a debug build's stays.
function(spillway_fastest target)
  if(CMAKE_BUILD_TYPE MATCHES "^Rel")
    target_compile_options(${target} PRIVATE -O3)
    # A precompiled header is of another level: GCC 12 crashes in some files that mix the two.
    set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# spillway_computes(TARGET): tests have it make decisions by the million, so it is optimized in presets `test`, `asan` and
# `tsan`. The others are not: it would take the compiler three times as long.
function(spillway_computes target)
  if(CMAKE_BUILD_TYPE STREQUAL Debug AND CMAKE_UNITY_BUILD)
    target_compile_options(${target} PRIVATE -O1)
    set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # of another level
  endif()
endfunction()

# spillway_computing_sources(a.cc ...): the same for sources of a target of this folder.
function(spillway_computing_sources)
  if(CMAKE_BUILD_TYPE STREQUAL Debug AND CMAKE_UNITY_BUILD)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON
                                                   SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# spillway_check_pointers(TARGET): with the sanitizer's checks of every pointer's use.
function(spillway_check_pointers target)
  if(SPILLWAY_SANITIZE MATCHES undefined)
    target_compile_options(${target} PRIVATE -fsanitize=${SPILLWAY_POINTER_CHECKS})
  endif()
endfunction()

# spillway_test(NAME SOURCES a_test.cc [LINK targets...] [LABELS label...] [ALONE | UNSHARED] [FIRST] [COMPUTING | AS_BUILT])
# A GoogleTest program; label `privileged` for tests that need root (BPF, namespaces). Those with labels run
# one at a time, beside guests' (tests/guest) and others; ALONE: beside none, as a busy machine would make a
# server look slow or dead; UNSHARED: beside any, in namespaces that it unshares itself. The target
# privileged_tests builds those and what they run; unsanitized_tests what the label `unsanitized` needs: tests
# that must not meet instrumented code. FIRST, with ALONE: waits long and needs few programs (target first_tests), so
# ./test runs it (label `first`) while it compiles the others. COMPUTING: waits for nothing and looks at no clock, so
# that ./test may run it, sanitized, at idle priority beside others (label `computing`). AS_BUILT: tests rooms with
# SPILLWAY_AS_BUILT, or runs programs of many rooms, so ./test compiles and runs it without sanitizers (label `as_built`,
# target as_built_tests); the target sanitized_tests builds the other tests and rooms.
function(spillway_test name)
  cmake_parse_arguments(TEST "ALONE;UNSHARED;FIRST;COMPUTING;AS_BUILT" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  spillway_precompile(${name} tests)
  if("privileged" IN_LIST TEST_LABELS AND NOT SPILLWAY_PRIVILEGED_TESTS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  elseif(TEST_LABELS)
    add_dependencies(privileged_tests ${name})
    # Whole program at once: privileged fixtures are expensive to set up.
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT 900)
    if(TEST_ALONE)
      set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
    elseif(NOT TEST_UNSHARED)
      set_tests_properties(${name} PROPERTIES RESOURCE_LOCK namespaces)
    endif()
    if(TEST_FIRST)
      add_dependencies(first_tests ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS first)
    endif()
  elseif(CMAKE_UNITY_BUILD)
    # In the presets that ./test builds the whole program at once: two thousand starts of programs cost minutes.
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 900)
    if(TEST_AS_BUILT)
      set_tests_properties(${name} PROPERTIES LABELS as_built)
      add_dependencies(as_built_tests ${name})
    else()
      add_dependencies(sanitized_tests ${name})
    endif()
    if(TEST_COMPUTING)
      # Others may keep it from a CPU for minutes.
      set_tests_properties(${name} PROPERTIES LABELS computing TIMEOUT 1800)
    endif()
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST)
  endif()
endfunction()
