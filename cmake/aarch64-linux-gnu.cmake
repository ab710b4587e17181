# Cross build for arm64 with Debian's g++-aarch64-linux-gnu; tests run under qemu-user. The header-only
# libraries are the host's: their headers do not depend on the architecture.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
# "max" has every instruction set that qemu knows, bf16 and i8mm among them.
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-cpu;max;-L;/usr/aarch64-linux-gnu")
# fmt is used header-only; its package file lies in the host's architecture folder.
file(GLOB mla_host_fmt /usr/lib/*/cmake/fmt)
set(fmt_DIR "${mla_host_fmt}" CACHE PATH "The host's fmt")
