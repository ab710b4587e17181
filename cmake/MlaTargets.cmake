# Settings every target of the project shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
endif()

# An interface target that carries the warnings; private to our own targets.
add_library(mla_warnings INTERFACE)
target_compile_options(mla_warnings INTERFACE -Wall -Wextra)
# g++ 12 sees an overlap in `"text" + std::string` where there is none (GCC bug 105651).
target_compile_options(mla_warnings INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(MLA_WERROR)
  target_compile_options(mla_warnings INTERFACE -Werror)
endif()
