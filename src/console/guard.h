/* SPDX-License-Identifier: MIT
 *
 * guard: which requests are let in. Pure functions of header values.
 *
 * A browser can be made to send requests by any page that its user opens. Three headers tell such
 * requests: Host (a name of the attacker's that now leads to this address), Origin, and
 * Sec-Fetch-Site. Pages cannot set or hide them.
 */
#ifndef UVSCHED_CONSOLE_GUARD_H
#define UVSCHED_CONSOLE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define UVS__ADDRESS_SIZE 64

struct uvs__guard {
  char address[UVS__ADDRESS_SIZE]; /* numeric, as a browser writes it: with brackets if IPv6 */
  bool any_address;                /* 0.0.0.0 or [::]: browsers may use any numeric address */
  bool loopback;
  char *hosts; /* with commas; NULL: none */
  char *token; /* NULL: none */
  bool token_to_read;
};

/* Is this value of Host one of our names? Any port will do: `ssh -L` changes it, and an attacker's
 * name is never one of ours. */
bool uvs__guard_host(const struct uvs__guard *g, const char *host);

/* Does the request come from a page of this host, or from no page at all? Each header may be NULL.
 * navigates: the request loads "/" itself, to which any page may link. */
bool uvs__guard_site(const char *host, const char *origin, const char *fetch_site,
                     const char *fetch_mode, bool navigates);

/* Has the request the token? authorization may be NULL. The time it takes does not depend on
 * which characters are right. */
bool uvs__guard_token(const struct uvs__guard *g, const char *authorization);

/* 16 or more printable ASCII characters without blanks. */
bool uvs__guard_is_token(const char *token);

#endif
