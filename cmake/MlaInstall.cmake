# Install rules and the package files behind find_package(mla).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS mla EXPORT mlaTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/mla DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT mlaTargets NAMESPACE mla:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mla)
configure_package_config_file(cmake/mlaConfig.cmake.in "${PROJECT_BINARY_DIR}/mlaConfig.cmake"
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mla)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mlaConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/mlaConfig.cmake" "${PROJECT_BINARY_DIR}/mlaConfigVersion.cmake"
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mla)
if(MLA_BUILD_CLI)
  install(TARGETS mla_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
