# spillway_install(COMPONENT PROGRAMS name... [UNITS file...] [USERS] [EXAMPLES folder...])
# What one kind of machine needs: programs with their man pages, systemd units, the users that those run as, and examples.
# `cmake --install FOLDER --component NAME` brings it alone, and needs no other programs to have been built; without
# --component all of them come.
set_property(GLOBAL PROPERTY SPILLWAY_PROGRAMS "")

# Where its error messages and helps send the reader: with every component.
file(GLOB SPILLWAY_DOCS CONFIGURE_DEPENDS docs/*.md)

function(spillway_install component)
  cmake_parse_arguments(INSTALL "USERS" "" "PROGRAMS;UNITS;EXAMPLES" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY SPILLWAY_PROGRAMS ${INSTALL_PROGRAMS})  # `spillway` comes with several
  install(TARGETS ${INSTALL_PROGRAMS} RUNTIME DESTINATION bin COMPONENT ${component})
  foreach(program ${INSTALL_PROGRAMS})
    # Optional: made of all programs, so not there where one was built alone.
    install(FILES ${SPILLWAY_MAN}/${program}.1 DESTINATION share/man/man1 COMPONENT ${component} OPTIONAL)
  endforeach()
  foreach(unit ${INSTALL_UNITS})
    install(FILES packaging/${unit}.service DESTINATION lib/systemd/system COMPONENT ${component})
  endforeach()
  if(INSTALL_USERS)
    install(FILES packaging/sysusers.conf DESTINATION lib/sysusers.d RENAME spillway.conf COMPONENT ${component})
  endif()
  install(FILES ${SPILLWAY_DOCS} DESTINATION share/doc/spillway/docs COMPONENT ${component})
  install(FILES README.md SECURITY.md ARCHITECTURE.md CHANGELOG.md LICENSE DESTINATION share/doc/spillway COMPONENT ${component})
  foreach(folder ${INSTALL_EXAMPLES})
    install(DIRECTORY examples/${folder}/ DESTINATION share/spillway/${folder} COMPONENT ${component}
            FILES_MATCHING PATTERN "*.yaml" PATTERN "*.key" PATTERN "*.py")
  endforeach()
endfunction()

# Called last. Man pages, from what the programs say of themselves. Sanitized ones are not installed.
function(spillway_man_pages)
  if(SPILLWAY_SANITIZE)
    return()
  endif()
  get_property(programs GLOBAL PROPERTY SPILLWAY_PROGRAMS)
  list(REMOVE_DUPLICATES programs)
  add_custom_command(OUTPUT ${SPILLWAY_MAN}/spillway.1
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/docs/references ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} --man ${SPILLWAY_MAN}
    DEPENDS docs/references ${programs}
    COMMENT "Man pages")
  add_custom_target(man_pages ALL DEPENDS ${SPILLWAY_MAN}/spillway.1)
endfunction()
