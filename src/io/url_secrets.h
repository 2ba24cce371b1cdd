#pragma once

#include <string>
#include <string_view>

// Keeps secrets out of addresses, because addresses are shown, written into packs and logged. An
// address with a user, a password, a query or a fragment is refused before it is used. Addresses
// that servers name are shown without these parts.
//
// Pure functions of their arguments.

namespace penstock::io {

/// Names the part of an address that may be a secret: "a user or password", "a query", "a
/// fragment", "a mistyped scheme" (http:/user:password@host, //user:password@host). Empty if there
/// is none. A port counts as a password if it is not a number or if an '@' follows anywhere, and so
/// does a host with an escaped ':' or '@'. Characters before the scheme are ignored. Paths have no
/// secret parts. In an s3:// key "?" and "#" are plain characters.
std::string secret_part_of(std::string_view address);

/// Throws InvalidArgument if the address has such a part. The message does not show the address;
/// `what` names the argument.
void check_no_secrets(std::string_view what, std::string_view address);

/// An address for messages: without user, password, query and fragment.
std::string shown_address(std::string_view address);

}  // namespace penstock::io
