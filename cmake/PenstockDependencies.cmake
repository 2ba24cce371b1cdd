# System libraries, for the build and for users of an installed static library. Sets
#   penstock_libraries   what to link
#   penstock_missing     a line for each that is not there, with the name to install on Debian
# and leaves it to the includer to stop. May be included more than once.
set(penstock_libraries "")
set(penstock_missing "")
set(penstock_quiet "")
if(penstock_FIND_QUIETLY)
  set(penstock_quiet QUIET)
endif()

macro(penstock_package package target debian)
  find_package(${package} ${penstock_quiet})
  if(${package}_FOUND)
    list(APPEND penstock_libraries ${target})
  else()
    string(APPEND penstock_missing "penstock needs ${package} (Debian, Ubuntu: apt-get install ${debian})\n")
  endif()
endmacro()

# The prefix keeps the variables and targets apart from those that a project finds itself.
macro(penstock_module name pkg debian)
  if(PkgConfig_FOUND)
    pkg_check_modules(PENSTOCK_${name} ${penstock_quiet} IMPORTED_TARGET ${pkg})
  endif()
  if(TARGET PkgConfig::PENSTOCK_${name})
    list(APPEND penstock_libraries PkgConfig::PENSTOCK_${name})
  else()
    string(APPEND penstock_missing "penstock needs ${pkg} (Debian, Ubuntu: apt-get install ${debian})\n")
  endif()
endmacro()

find_package(PkgConfig ${penstock_quiet})
if(NOT PkgConfig_FOUND)
  string(APPEND penstock_missing "penstock needs pkg-config (Debian, Ubuntu: apt-get install pkg-config)\n")
endif()
penstock_module(ZSTD libzstd libzstd-dev)
penstock_module(LZ4 liblz4 liblz4-dev)
penstock_module(ZLIB zlib zlib1g-dev)
penstock_module(DEFLATE libdeflate libdeflate-dev)
# Debian ships CRoaring without pkg-config data.
penstock_package(roaring roaring::roaring libroaring-dev)
penstock_module(CRYPTO libcrypto libssl-dev)
# HTTP and S3: transfers, listings, and the JSON of manifests and metadata services.
penstock_module(CURL libcurl libcurl4-openssl-dev)
penstock_module(PUGIXML pugixml libpugixml-dev)
penstock_package(BZip2 BZip2::BZip2 libbz2-dev)
penstock_package(nlohmann_json nlohmann_json::nlohmann_json nlohmann-json3-dev)
penstock_package(Threads Threads::Threads libc6-dev)
