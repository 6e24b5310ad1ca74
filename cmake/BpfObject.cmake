# spillway_bpf(NAME): NAME.bpf.c -> object and skeleton header NAME.skel.h, as the interface target
# spillway_bpf_NAME. Needs clang with the BPF target and bpftool.
find_program(BPF_CLANG NAMES clang clang-16 clang-14 REQUIRED)
find_program(BPFTOOL bpftool PATHS /usr/sbin /sbin REQUIRED)

function(spillway_bpf name)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.o)
  set(skeleton ${CMAKE_CURRENT_BINARY_DIR}/${name}.skel.h)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${BPF_CLANG} -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror
            -I${CMAKE_SOURCE_DIR} -idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
            -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${name}.bpf.c -o ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}.bpf.c
    DEPFILE ${object}.d
    COMMENT "BPF ${name}")
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND ${BPFTOOL} gen skeleton ${object} name ${name}_bpf > ${skeleton}
    DEPENDS ${object}
    COMMENT "BPF skeleton ${name}")
  add_custom_target(spillway_bpf_${name}_files DEPENDS ${skeleton})
  add_library(spillway_bpf_${name} INTERFACE)
  target_include_directories(spillway_bpf_${name} SYSTEM INTERFACE ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(spillway_bpf_${name} INTERFACE spillway_core PkgConfig::LIBBPF)
  add_dependencies(spillway_bpf_${name} spillway_bpf_${name}_files)
endfunction()
