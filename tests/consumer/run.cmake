# cmake -DMODE=... -DMLA_SOURCE=... -DMLA_BUILD=... -DWORK=... [-DOPTIONS=...] -P run.cmake
# Plays a user of the library: installs or includes it, builds the examples of docs/ against it, runs
# them. MODE: installed (MLA_BUILD is the build to install), shared (builds and installs a shared
# library first), subdirectory.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}\n${said}")
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()

# A library's build lies as deep in the tree as the others, so that ccache knows its objects.
set(consumer_build ${WORK}/consumer)
file(REMOVE_RECURSE ${WORK}/prefix ${consumer_build})
set(settings -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${COMPILER} ${OPTIONS})
if(LAUNCHER)
  list(APPEND settings -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
endif()

if(MODE STREQUAL "shared")
  set(MLA_BUILD ${WORK})
  run(${CMAKE_COMMAND} -S ${MLA_SOURCE} -B ${MLA_BUILD} ${settings} -DBUILD_SHARED_LIBS=ON
    -DMLA_BUILD_CLI=OFF -DMLA_BUILD_TESTS=OFF -DMLA_WERROR=ON)
  run(${CMAKE_COMMAND} --build ${MLA_BUILD})
endif()
if(MODE STREQUAL "subdirectory")
  set(consumer ${CMAKE_CURRENT_LIST_DIR}/add_subdirectory)
  set(consumer_build ${WORK})
  list(APPEND settings -DMLA_WERROR=ON)
else()
  run(${CMAKE_COMMAND} --install ${MLA_BUILD} --prefix ${WORK}/prefix)
  set(consumer ${CMAKE_CURRENT_LIST_DIR}/find_package)
endif()

run(${CMAKE_COMMAND} -S ${consumer} -B ${consumer_build} ${settings}
  -DCMAKE_PREFIX_PATH=${WORK}/prefix -DMLA_SOURCE=${MLA_SOURCE}
  -DEXAMPLES=${MLA_SOURCE}/docs/examples)
run(${CMAKE_COMMAND} --build ${consumer_build})
foreach(example attend prefill)
  run(${consumer_build}/${example})
  message(STATUS "${example}:\n${said}")
  if(NOT said MATCHES "worst distance from 1: ")
    message(FATAL_ERROR "${example} did not say its result: ${said}")
  endif()
endforeach()

# A shared library exports what the public headers mark, and nothing else of its own. Templates of
# the standard library that were instantiated in it are weak, and everybody's.
if(MODE STREQUAL "shared")
  file(GLOB library ${WORK}/prefix/lib*/libmla.so ${WORK}/prefix/lib/*/libmla.so)
  run(${NM} --demangle --dynamic --defined-only ${library})
  string(REGEX MATCHALL "[0-9a-f]+ [TDBR] [^\n]+" exported "${said}")
  list(LENGTH exported count)
  if(count LESS 20)
    message(FATAL_ERROR "Only ${count} symbols exported by ${library}:\n${said}")
  endif()
  file(GLOB headers ${MLA_SOURCE}/include/mla/*.h)
  foreach(header ${headers})
    file(READ ${header} text)
    string(APPEND public "${text}")
  endforeach()
  foreach(symbol ${exported})
    string(REGEX REPLACE "^[0-9a-f]+ [TDBR] " "" symbol "${symbol}")
    string(REGEX REPLACE "\\(.*|\\[abi.*" "" name "${symbol}")
    string(REGEX MATCH "[A-Za-z_0-9]+$" last "${name}")
    string(FIND "${public}" "${last}" at)
    if(NOT symbol MATCHES "^(mla::|(vtable|typeinfo|typeinfo name) for mla::)" OR at EQUAL -1)
      message(FATAL_ERROR "Exported though no public header declares it: ${symbol}")
    endif()
  endforeach()
  message(STATUS "${count} exported symbols, all public")
endif()
