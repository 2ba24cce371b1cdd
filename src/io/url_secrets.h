#pragma once

#include <string>
#include <string_view>

// Secrets do not belong in an address: names of stores are shown, written into packs and logged.
// So an address with a user, a password, a query or a fragment is refused before anything else is
// done with it, and what servers say of other addresses is shown without these parts.
//
// Pure functions of their arguments.

namespace penstock::io {

/// The part of an address that may be a secret, in words: "a user or password", "a query", "a
/// fragment", "a mistyped scheme" (http:/user:password@host); empty where there is none. A port
/// that is no number counts as a password, and so does one with an '@' anywhere behind it. What
/// stands before the scheme is passed over. Paths have no such parts, and in an s3:// key "?" and
/// "#" are characters like any other.
std::string secret_part_of(std::string_view address);

/// Throws InvalidArgument, which does not show the address, when it has such a part; `what` names
/// the argument.
void check_no_secrets(std::string_view what, std::string_view address);

/// An address for messages: without user, password, query and fragment.
std::string shown_address(std::string_view address);

}  // namespace penstock::io
