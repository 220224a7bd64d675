/* SPDX-License-Identifier: MIT
 *
 * redis_url: reads the URL of a server.
 *
 *   redis://[user[:password]@]host[:port][/db][?...]
 *   redis+unix://[user[:password]@]/path/of/socket[?db=0&...]
 *   redis+sentinel://[user[:password]@]host[:port],host[:port]/service[/db][?...]
 *
 * User, password and path may have %XX for any byte but zero. An error names the part that is
 * wrong, and never says the user or the password.
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "jobs/alloc.h"
#include "jobs/redis_socket.h"

#define DB_MAX 1000000
#define NS_MAX 64
#define REPLICAS_MAX 1000
#define TIMEOUT_MIN_NS INT64_C(10000000)
#define TIMEOUT_MAX_NS INT64_C(600000000000)
#define PARTS_MAX 8 /* strings of the options */

/* What is being read. */
struct reader {
  struct uvs__redis_options *o;
  char *room; /* for strings, behind *o; there is enough */
  char *text; /* what is wrong */
  size_t size;
  bool only_db; /* another server follows: only db= may be behind the ? */
};

static int refuse(struct reader *r, const char *what) {
  snprintf(r->text, r->size, "%s", what);
  return UV_EINVAL;
}

/* ---------------------------------------------------------------------- parts --- */

static const char *copy(struct reader *r, const char *from, size_t size) {
  char *to = r->room;

  memcpy(to, from, size);
  to[size] = '\0';
  r->room += size + 1;
  return to;
}

static int hex(char c) {
  const char *digits = "0123456789abcdef", *p;

  p = c == '\0' ? NULL : strchr(digits, tolower((unsigned char)c));
  return p == NULL ? -1 : (int)(p - digits);
}

/* Copies a text with %XX. NULL: it has a % without two digits, or a zero byte. */
static const char *decode(struct reader *r, const char *from, size_t size) {
  char *to = r->room, *at = to;

  for (size_t i = 0; i < size; i++) {
    if (from[i] != '%') {
      *at++ = from[i];
      continue;
    }
    if (size - i < 3 || hex(from[i + 1]) < 0 || hex(from[i + 2]) < 0)
      return NULL;
    *at = (char)(hex(from[i + 1]) * 16 + hex(from[i + 2]));
    if (*at++ == '\0')
      return NULL;
    i += 2;
  }
  *at = '\0';
  r->room = at + 1;
  return to;
}

/* Reads a number without sign. -1: the text is not a number, or the number is above max. */
static int64_t read_number(const char *from, size_t size, int64_t max) {
  int64_t n = 0;

  if (size == 0)
    return -1;
  for (size_t i = 0; i < size; i++) {
    if (from[i] < '0' || from[i] > '9')
      return -1;
    n = n * 10 + (from[i] - '0');
    if (n > max)
      return -1;
  }
  return n;
}

bool uvs__redis_read_address(const char **at, int port, char host[UVS__REDIS_HOST], int *ret_port) {
  bool brackets = **at == '[';
  const char *begin = *at + brackets, *end = begin;
  size_t length;
  int64_t number = port;

  while (isalnum((unsigned char)*end) || *end == '.' || *end == '-' || *end == '_' ||
         (brackets && (*end == ':' || *end == '%')))
    end++;
  length = (size_t)(end - begin);
  if (length == 0 || length >= UVS__REDIS_HOST || (brackets && *end != ']'))
    return false;
  memcpy(host, begin, length);
  host[length] = '\0';
  end += brackets;
  if (*end == ':') {
    length = strcspn(end + 1, ",");
    number = read_number(end + 1, length, 65535);
    end += 1 + length;
  }
  if (number <= 0 || (*end != ',' && *end != '\0'))
    return false;
  *ret_port = (int)number;
  *at = end;
  return true;
}

/* "user:password@", in front of the last @ up to `end`. Moves *at behind it. */
static int read_user(struct reader *r, const char **at, const char *end) {
  const char *begin = *at, *stop = NULL, *colon;

  for (const char *p = begin; p < end; p++)
    if (*p == '@')
      stop = p;
  if (stop == NULL)
    return 0;
  *at = stop + 1;
  colon = memchr(begin, ':', (size_t)(stop - begin));
  if (colon != begin) {
    r->o->user = decode(r, begin, (size_t)((colon == NULL ? stop : colon) - begin));
    if (r->o->user == NULL || *r->o->user == '\0')
      return refuse(r, "the user is empty, or has a % that is not followed by two hex digits");
  }
  if (colon == NULL)
    r->o->password = "";
  else
    r->o->password = decode(r, colon + 1, (size_t)(stop - colon - 1));
  return r->o->password == NULL
             ? refuse(r, "the password has a % that is not followed by two hex digits")
             : 0;
}

static int read_db(struct reader *r, const char *from, size_t size) {
  int64_t n = read_number(from, size, DB_MAX);

  if (n < 0)
    return refuse(r, "the database is not a number from 0 to 1000000");
  r->o->db = (int)n;
  return 0;
}

/* -------------------------------------------------------------------- settings --- */

static int read_ns(struct reader *r, const char *from, size_t size) {
  static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";

  if (size == 0 || size > NS_MAX || strspn(from, legal) < size)
    return refuse(r, "ns is not 1 to 64 characters of A-Z a-z 0-9 _ . : -");
  r->o->ns = copy(r, from, size);
  return 0;
}

static int read_replicas(struct reader *r, const char *from, size_t size) {
  int64_t n = read_number(from, size, REPLICAS_MAX);

  if (n < 0)
    return refuse(r, "replicas is not a number from 0 to 1000");
  r->o->replicas = (uint32_t)n;
  return 0;
}

static int read_strict(struct reader *r, const char *from, size_t size) {
  if (size != 1 || (*from != '0' && *from != '1'))
    return refuse(r, "strict is neither 0 nor 1");
  r->o->strict = *from == '1';
  return 0;
}

static int read_timeout(struct reader *r, const char *from, size_t size) {
  int64_t unit = 0, n = -1;
  size_t digits = strspn(from, "0123456789");

  if (digits + 2 == size && memcmp(from + digits, "ms", 2) == 0)
    unit = 1000000;
  else if (digits + 1 == size && from[digits] == 's')
    unit = 1000000000;
  if (unit != 0)
    n = read_number(from, digits, TIMEOUT_MAX_NS / unit);
  if (n < 0 || n * unit < TIMEOUT_MIN_NS)
    return refuse(r, "timeout is not a time from 10ms to 600s, such as 500ms or 2s");
  r->o->timeout_ns = n * unit;
  return 0;
}

/* With an @ behind it, the "setting" may be a part of a password that has a ? in it. */
static int refuse_setting(struct reader *r, const char *at, size_t length) {
  char name[40];

  uvs__redis_line(name, sizeof name, at, length);
  snprintf(r->text, r->size,
           "behind the ? is an unknown setting%s%s; known: ns=, replicas=, strict=, timeout=, db=",
           strchr(at, '@') == NULL ? " " : "", strchr(at, '@') == NULL ? name : "");
  return UV_EINVAL;
}

/* Reads "name=value&name=value" up to the end. has_db: the path has given the database. */
static int read_settings(struct reader *r, const char *at, bool has_db) {
  static const struct {
    const char *name;
    int (*read)(struct reader *, const char *, size_t);
  } settings[] = {{"ns", read_ns},
                  {"replicas", read_replicas},
                  {"strict", read_strict},
                  {"timeout", read_timeout},
                  {"db", read_db}};
  enum { N = sizeof settings / sizeof *settings };
  bool seen[N] = {[N - 1] = has_db};

  for (;;) {
    size_t size = strcspn(at, "&"), length = strcspn(at, "=&"), i = 0;
    int rc;

    while (i < N && (strlen(settings[i].name) != length ||
                     strncmp(settings[i].name, at, length) != 0 || at[length] != '='))
      i++;
    if (i == N) {
      return refuse_setting(r, at, length);
    }
    if (seen[i]) {
      snprintf(r->text, r->size, "%s is given twice", settings[i].name);
      return UV_EINVAL;
    }
    if (r->only_db && settings[i].read != read_db) {
      snprintf(r->text, r->size, "%s= must follow the last server of the list", settings[i].name);
      return UV_EINVAL;
    }
    seen[i] = true;
    rc = settings[i].read(r, at + length + 1, size - length - 1);
    if (rc != 0 || at[size] == '\0')
      return rc;
    at += size + 1;
  }
}

/* ----------------------------------------------------------------------- forms --- */

/* What is behind a host or a service: "/db", "?settings". */
static int read_rest(struct reader *r, const char *at) {
  bool has_db = false;
  int rc;

  if (*at == '/') {
    size_t size = strcspn(++at, "?");

    has_db = size > 0;
    rc = has_db ? read_db(r, at, size) : 0;
    if (rc != 0)
      return rc;
    at += size;
  }
  return *at == '?' ? read_settings(r, at + 1, has_db) : 0;
}

static int read_server(struct reader *r, const char *at) {
  const char *end = at + strcspn(at, "/?"), *list;
  char host[UVS__REDIS_HOST];
  int rc = read_user(r, &at, end);

  if (rc != 0)
    return rc;
  if (at == end)
    return refuse(r, "the host is missing");
  list = copy(r, at, (size_t)(end - at));
  if (!uvs__redis_read_address(&list, 6379, host, &r->o->port) || *list != '\0')
    return refuse(r, "the host is not a name or an address, with :PORT (1 to 65535) or without");
  r->o->host = copy(r, host, strlen(host));
  return read_rest(r, end);
}

static int read_unix(struct reader *r, const char *at) {
  int rc = read_user(r, &at, at + strcspn(at, "/?"));
  size_t size = strcspn(at, "?");

  if (rc != 0)
    return rc;
  r->o->path = decode(r, at, size);
  if (r->o->path == NULL)
    return refuse(r, "the path has a % that is not followed by two hex digits");
  if (*r->o->path != '/')
    return refuse(r, "the path of the socket does not begin with /");
  if (strlen(r->o->path) >= sizeof((struct sockaddr_un *)0)->sun_path)
    return refuse(r, "the path of the socket is too long for the system");
  return at[size] == '?' ? read_settings(r, at + size + 1, false) : 0;
}

static int read_sentinel(struct reader *r, const char *at) {
  const char *end = at + strcspn(at, "/?"), *list;
  char host[UVS__REDIS_HOST];
  size_t size;
  int port, rc = read_user(r, &at, end);

  if (rc != 0)
    return rc;
  if (at == end)
    return refuse(r, "the sentinels are missing");
  list = r->o->sentinels = copy(r, at, (size_t)(end - at));
  for (;;) {
    if (!uvs__redis_read_address(&list, 26379, host, &port))
      return refuse(r,
                    "a sentinel is not a name or an address, with :PORT (1 to 65535) or without");
    if (*list++ == '\0')
      break;
  }
  at = end + (*end == '/');
  size = *end == '/' ? strcspn(at, "/?") : 0;
  if (size == 0)
    return refuse(r, "the service is missing: redis+sentinel://HOST:PORT,HOST:PORT/SERVICE");
  r->o->service = copy(r, at, size);
  return read_rest(r, at + size);
}

int uvs__redis_read_server(const char *name, bool only_db, struct uvs__redis_options **ret,
                           char *text, size_t size) {
  static const struct {
    const char *scheme;
    int (*read)(struct reader *, const char *);
  } forms[] = {{"redis://", read_server},
               {"redis+unix://", read_unix},
               {"redis+sentinel://", read_sentinel}};
  size_t length = strlen(name);
  struct reader r = {.text = text, .size = size, .only_db = only_db};
  int rc;

  if (strncmp(name, "rediss:", 7) == 0)
    return refuse(&r, "TLS is not built in: use redis:// to a TLS proxy on this machine");
  /* No string is copied more than twice, and each has a zero byte behind it. */
  r.o = uvs__jobs_alloc(sizeof *r.o + 2 * length + PARTS_MAX);
  if (r.o == NULL) {
    refuse(&r, "no memory");
    return UV_ENOMEM;
  }
  r.room = (char *)(r.o + 1);
  r.o->ns = "uvsched";
  r.o->timeout_ns = INT64_C(2000000000);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    size_t scheme = strlen(forms[i].scheme);

    if (strncmp(name, forms[i].scheme, scheme) != 0)
      continue;
    rc = forms[i].read(&r, name + scheme);
    if (rc != 0)
      uvs__redis_free_options(r.o);
    else
      *ret = r.o;
    return rc;
  }
  uvs__redis_free_options(r.o);
  return refuse(&r, "the store is none of redis://, redis+unix:// and redis+sentinel://");
}
