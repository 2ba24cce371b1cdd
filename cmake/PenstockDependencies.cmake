# System libraries, for the build and for users of an installed static library. The names to install
# on Debian stand in the message of a failed look-up.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

macro(penstock_require name pkg debian)
  pkg_check_modules(${name} IMPORTED_TARGET ${pkg})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "penstock needs ${pkg}; on Debian and Ubuntu: apt-get install ${debian}")
  endif()
endmacro()

penstock_require(ZSTD libzstd libzstd-dev)
penstock_require(LZ4 liblz4 liblz4-dev)
penstock_require(ZLIB zlib zlib1g-dev)
penstock_require(CRYPTO libcrypto libssl-dev)
find_package(BZip2 REQUIRED)
# Debian ships CRoaring without pkg-config data; its CMake package exports the plain target `roaring`.
find_package(roaring REQUIRED)

add_library(penstock_deps INTERFACE)
target_link_libraries(penstock_deps INTERFACE PkgConfig::ZSTD PkgConfig::LZ4 PkgConfig::ZLIB
  roaring PkgConfig::CRYPTO BZip2::BZip2 Threads::Threads)
