#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <penstock/error.h>
#include <pthread.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "base/threads/cancellation.h"
#include "io/s3/s3_source.h"
#include "io/s3/shared_config.h"
#include "io/s3/sigv4.h"
#include "io/storage_options.h"
#include "io/url_secrets.h"
#include "register.h"
#include "support/credentials.h"
#include "support/gil.h"

// Bindings for stores: Ctrl-C during long waits and reads, and the parts of remote stores that
// tests compare with botocore.

namespace penstock::python {
namespace nb = nanobind;
namespace {

std::atomic<unsigned long> main_thread{0};

/// Python handles signals only in its main thread. Other threads must not check: they would wait
/// for the interpreter's lock, for ever if the interpreter ends.
bool handles_signals() { return PyThread_get_thread_ident() == main_thread.load(); }

void find_main_thread() {
  const nb::object thread = nb::module_::import_("threading").attr("main_thread")();
  main_thread = nb::cast<unsigned long>(thread.attr("ident"));
  // In a child, the main thread is the one that forked.
  ::pthread_atfork(nullptr, nullptr, [] { main_thread = PyThread_get_thread_ident(); });
}

/// What another client needs to write where the engine reads.
class S3Access {
 public:
  S3Access(const std::string& uri, std::map<std::string, std::string> options,
           nb::object credentials) {
    StorageOptions storage{std::move(options), credentials_of(std::move(credentials))};
    const GilRelease release;
    source_ = io::s3_source_for(uri, storage);
    source_->list_folder(uri);  // the bucket's answer says where it is
    access_ = source_->access(io::parse_s3_uri(uri).bucket);
  }
  const io::S3Source::Access& access() const { return access_; }
  std::optional<std::tuple<std::string, std::string, std::string>> key() const {
    const GilRelease release;
    const auto key = source_->key();
    if (!key) return std::nullopt;
    return std::tuple(key->access_key_id, key->secret_access_key, key->session_token);
  }

 private:
  std::shared_ptr<io::S3Source> source_;
  io::S3Source::Access access_;
};

}  // namespace

void register_remote(nb::module_& module) {
  find_main_thread();
  set_wait_hook([] {
    if (ends_without_this_thread()) throw IoError("the Python interpreter ends");
    if (!handles_signals() || !Py_IsInitialized()) return;
    const GilAcquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });

  module.def(
      "_sign_request",
      [](std::string method, std::string host, std::string path,
         std::vector<std::pair<std::string, std::string>> query,
         std::vector<std::pair<std::string, std::string>> headers, std::string region,
         std::string timestamp, std::string access_key_id, std::string secret_access_key,
         std::string session_token) {
        return io::sign_request(
            {std::move(method), std::move(host), std::move(path), std::move(query),
             std::move(headers), std::move(region), std::move(timestamp)},
            {std::move(access_key_id), std::move(secret_access_key), std::move(session_token)});
      },
      nb::arg("method"), nb::arg("host"), nb::arg("path"), nb::arg("query"), nb::arg("headers"),
      nb::arg("region"), nb::arg("timestamp"), nb::arg("access_key_id"),
      nb::arg("secret_access_key"), nb::arg("session_token"),
      "Headers of a request signed with SigV4: for tests.");
  nb::class_<S3Access>(module, "S3Access", "How another client writes to a bucket.")
      .def(nb::init<const std::string&, std::map<std::string, std::string>, nb::object>(),
           nb::arg("uri"), nb::arg("storage_options"), nb::arg("credentials").none(),
           "Lists the folder, to learn where the bucket is.")
      .def_prop_ro("url", [](const S3Access& self) { return self.access().url; })
      .def_prop_ro("region", [](const S3Access& self) { return self.access().region; })
      .def_prop_ro("requester_pays",
                   [](const S3Access& self) { return self.access().requester_pays; })
      .def("key", &S3Access::key,
           "Key, secret and token, valid for five minutes at least; None for unsigned requests.");
  module.def(
      "check_no_secrets",
      [](const std::string& what, const nb::bytes& address) {
        io::check_no_secrets(what, {address.c_str(), address.size()});
      },
      nb::arg("what"), nb::arg("address"),
      "InvalidArgument, which does not show it, for an address with a user, password, query or "
      "fragment.");
  module.def("_percent_encode", &io::percent_encode, nb::arg("text"), nb::arg("encode_slash"),
             "For tests.");
  module.def("_canonical_query", &io::canonical_query, nb::arg("query"), "For tests.");
  module.def("_parse_config", &io::parse_config, nb::arg("text"), "For tests.");
}

}  // namespace penstock::python
