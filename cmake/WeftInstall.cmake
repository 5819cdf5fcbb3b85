# WeftInstall.cmake: what `cmake --install` puts where. Include it after the targets weft (shared)
# and weft_static exist.
#
# Users get weft::weft from find_package(weft), and weft::static with COMPONENTS static; only the
# latter needs MPI and oneDNN to be found again, because a static library carries no dependencies.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(WEFT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
# Before 1.0 any minor version may change what is exported, so the name that programs are linked with has it too.
set(WEFT_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(WEFT_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
set_target_properties(weft PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${WEFT_SOVERSION})
set_target_properties(weft_static PROPERTIES OUTPUT_NAME weft EXPORT_NAME static)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS weft EXPORT weft_shared_export
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS weft_static EXPORT weft_static_export
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET weft_cuda AND NOT WEFT_CUDA STREQUAL "AUTO")
    set_target_properties(weft_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS weft_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT weft_shared_export NAMESPACE weft:: FILE weftTargets.cmake DESTINATION ${WEFT_CMAKE_DIR})
install(EXPORT weft_static_export NAMESPACE weft:: FILE weftStaticTargets.cmake DESTINATION ${WEFT_CMAKE_DIR})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in
    ${PROJECT_BINARY_DIR}/weftConfig.cmake INSTALL_DESTINATION ${WEFT_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/FindDNNL.cmake DESTINATION ${WEFT_CMAKE_DIR})

# weft.pc finds its prefix from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH WEFT_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" WEFT_PC_PREFIX "${WEFT_PC_PREFIX}")
set(WEFT_PC_PRIVATE "${DNNL_LIBRARY} ${MPI_C_LIBRARIES} ${OpenMP_C_FLAGS} -lpthread -ldl -lm")
string(REPLACE ";" " " WEFT_PC_PRIVATE "${WEFT_PC_PRIVATE}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
