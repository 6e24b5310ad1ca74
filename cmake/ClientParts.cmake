# spillway_client_parts(): what a program needs of the gateway to be its client, once more as code that a shared library
# can hold (position independent, its names hidden, fmt within: the library may be installed where no libfmt is). The C
# library and the Python module both link it, so it is compiled once; a wheel's build, which has neither rooms nor the
# RDMA libraries, calls it as well.
function(spillway_client_parts)
  if(TARGET spillway_client_parts)
    return()
  endif()
  set(root ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..)
  set(parts client.cc protocol/frame.cc protocol/tensor.cc transport/channel.cc transport/doorbell.cc transport/shared_memory.cc transport/shm/window.cc
      ../base/fd.cc ../base/socket_address.cc ../base/system_error.cc)
  set(rdma transport/rdma)
  if(VERBS_FOUND)
    list(APPEND parts ${rdma}/client_window.cc ${rdma}/completions.cc ${rdma}/mirror.cc ${rdma}/pinned_memory.cc ../rdma/connection.cc)
  else()
    list(APPEND parts ${rdma}/absent.cc)
  endif()
  list(TRANSFORM parts PREPEND ${root}/src/gateway/)
  add_library(spillway_client_parts OBJECT EXCLUDE_FROM_ALL ${parts})
  set_target_properties(spillway_client_parts PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD_BATCH_SIZE 0)
  target_include_directories(spillway_client_parts PUBLIC ${root} ${root}/src)
  target_link_libraries(spillway_client_parts PUBLIC fmt::fmt-header-only nlohmann_json::nlohmann_json ${VERBS_LIBRARIES})
endfunction()
