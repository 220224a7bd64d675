/* SPDX-License-Identifier: MIT
 *
 * http: reads a page from an HTTP server.
 */
#ifndef UVSCHED_CLI_HTTP_H
#define UVSCHED_CLI_HTTP_H

#include <stddef.h>

struct cli_url {
  char host[256]; /* without the brackets of IPv6 */
  char port[8];
  char authority[272]; /* as it was given: for the header Host */
};

/* Reads http://HOST[:PORT][/]. NULL, or one line that says what is wrong. */
const char *cli_url_read(const char *text, struct cli_url *ret);

/* GET, with the token if it is not NULL. Waits for 5 s at most, all in all. Returns the
 * body, which the caller frees; NULL: `why` says what is wrong, in one line. */
char *cli_http_get(const struct cli_url *url, const char *path, const char *token, char *why,
                   size_t why_size);

#endif
