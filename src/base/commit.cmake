# cmake -DSOURCE=dir -DOUTPUT=file -P commit.cmake: writes the commit of SOURCE as a C string literal.
# Outside a git checkout (a tarball, a package build) it is "unknown".
set(commit "unknown")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} --no-optional-locks describe --always --dirty --abbrev=12
    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE described RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND described MATCHES "^[A-Za-z0-9._-]+$")
    set(commit "${described}")
  endif()
endif()
set(text "\"${commit}\"\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} previous)
endif()
if(NOT "${previous}" STREQUAL "${text}")
  file(WRITE ${OUTPUT} "${text}")
endif()
