# Instructions per useful multiply-add of the avx2 kernels, counted by callgrind, which no noise of
# the machine touches: a regression of the code shows as a number. The difference of two runs leaves
# start-up out. Usage: cmake -DVALGRIND=... -DPROGRAM=... -DMOST=THOUSANDTHS -P this
function(count runs result)
  execute_process(
    COMMAND ${VALGRIND} --tool=callgrind --callgrind-out-file=/dev/null ${PROGRAM} ${runs}
    OUTPUT_VARIABLE multiply_adds ERROR_VARIABLE report RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT report MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "valgrind ${PROGRAM} ${runs}: ${status}\n${report}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  string(STRIP "${multiply_adds}" multiply_adds)
  set(multiply_adds ${multiply_adds} PARENT_SCOPE)
endfunction()

count(1 once)
count(3 thrice)
math(EXPR thousandths "(${thrice} - ${once}) / 2 * 1000 / ${multiply_adds}")
message(STATUS "${thousandths} instructions per thousand useful multiply-adds, at most ${MOST}")
if(thousandths GREATER MOST)
  message(FATAL_ERROR "more instructions than the bound in tests/attention/cpu/CMakeLists.txt")
endif()
