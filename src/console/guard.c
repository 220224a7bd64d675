/* SPDX-License-Identifier: MIT */
#include "console/guard.h"

#include <uvsched/console.h>

#include <string.h>
#include <strings.h>

/* ---- Host ---- */

static bool is_digits(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9')
      return false;
  }
  return size > 0;
}

/* The length of the name in front of ":PORT"; 0: it is not well-formed. */
static size_t name_length(const char *host) {
  size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");

  if (host[0] == '[' && host[n - 1] != ']')
    return 0;
  if (host[n] == 0)
    return n;
  return host[n] == ':' && strlen(host + n + 1) <= 5 &&
                 is_digits(host + n + 1, strlen(host + n + 1))
             ? n
             : 0;
}

static bool is_name(const char *host, size_t n, const char *name, size_t size) {
  return n == size && strncasecmp(host, name, n) == 0;
}

static bool is_numeric(const char *host, size_t n) {
  char text[UVS__ADDRESS_SIZE];
  unsigned char address[16];
  bool v6 = host[0] == '[';

  if (n >= sizeof text || n < 3)
    return false;
  memcpy(text, host + v6, n - 2 * (size_t)v6);
  text[n - 2 * (size_t)v6] = 0;
  return uv_inet_pton(v6 ? AF_INET6 : AF_INET, text, address) == 0;
}

static bool is_listed(const char *list, const char *host, size_t n) {
  while (*list != 0) {
    size_t size = strcspn(list, ",");

    if (is_name(host, n, list, size))
      return true;
    list += size + (list[size] == ',');
  }
  return false;
}

bool uvs__guard_host(const struct uvs__guard *g, const char *host) {
  size_t n = name_length(host);

  if (n == 0)
    return false;
  if (is_name(host, n, g->address, strlen(g->address)))
    return true;
  if ((g->loopback || g->any_address) &&
      (is_name(host, n, "localhost", 9) || is_name(host, n, "127.0.0.1", 9) ||
       is_name(host, n, "[::1]", 5)))
    return true;
  if (g->any_address && is_numeric(host, n))
    return true;
  return g->hosts != NULL && is_listed(g->hosts, host, n);
}

/* ---- Origin and Sec-Fetch-Site ---- */

static bool is_same_origin(const char *host, const char *origin) {
  if (strncmp(origin, "http://", 7) == 0)
    return strcasecmp(origin + 7, host) == 0;
  /* A proxy in front of the console speaks TLS. */
  return strncmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0;
}

bool uvs__guard_site(const char *host, const char *origin, const char *fetch_site,
                     const char *fetch_mode, bool navigates) {
  if (origin != NULL && !is_same_origin(host, origin))
    return false;
  if (fetch_site == NULL || strcmp(fetch_site, "same-origin") == 0 ||
      strcmp(fetch_site, "none") == 0) /* none: the user has typed the address */
    return true;
  return navigates && fetch_mode != NULL && strcmp(fetch_mode, "navigate") == 0;
}

/* ---- the token ---- */

bool uvs__guard_is_token(const char *token) {
  size_t n = 0;

  for (; token[n] != 0; n++) {
    if (token[n] <= ' ' || token[n] > '~')
      return false;
  }
  return n >= UVS_CONSOLE_TOKEN_MIN;
}

bool uvs__guard_token(const struct uvs__guard *g, const char *authorization) {
  volatile unsigned differs;
  size_t n, given;

  if (g->token == NULL || authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
    return false;
  authorization += 7;
  n = strlen(g->token);
  given = strlen(authorization);
  differs = n != given;
  for (size_t i = 0; i < n; i++)
    differs |= (unsigned char)authorization[i < given ? i : given] ^ (unsigned char)g->token[i];
  return differs == 0;
}
