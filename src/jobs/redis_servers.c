/* SPDX-License-Identifier: MIT
 *
 * redis_servers: the servers of a store. The name of a store has one URL (redis_url.c), or several
 * URLs with commas between them. Settings follow the last URL, and hold for all servers. Only db=
 * may follow each URL.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "jobs/alloc.h"
#include "jobs/redis_socket.h"

/* ------------------------------------------------------------------------ list --- */

/* Finds the comma in front of the next server, or NULL. A list of sentinels has commas too. */
static char *next_comma(char *at) {
  while ((at = strstr(at, ",redis")) != NULL) {
    const char *end = at + 6 + strspn(at + 6, "abcdefghijklmnopqrstuvwxyz+");

    if (strncmp(end, "://", 3) == 0)
      break;
    at++;
  }
  return at;
}

/* Says which server of the list is wrong. */
static void name_index(size_t i, char *text, size_t size) {
  char what[200];

  snprintf(what, sizeof what, "%s", text);
  snprintf(text, size, "server %zu of the list: %s", i, what);
}

static int read_all(char *at, struct uvs__redis_options **end, char *text, size_t size) {
  bool is_list = next_comma(at) != NULL;

  for (size_t i = 1; at != NULL; i++) {
    char *comma = next_comma(at);
    int rc;

    if (i > UVS__REDIS_SERVERS) {
      snprintf(text, size, "the list has more than %d servers", UVS__REDIS_SERVERS);
      return UV_EINVAL;
    }
    if (comma != NULL)
      *comma = '\0';
    rc = uvs__redis_read_server(at, comma != NULL, end, text, size);
    if (rc != 0) {
      if (is_list)
        name_index(i, text, size);
      return rc;
    }
    end = &(*end)->next;
    at = comma == NULL ? NULL : comma + 1;
  }
  return 0;
}

static void copy_settings(struct uvs__redis_options *to, const struct uvs__redis_options *from) {
  to->ns = from->ns;
  to->replicas = from->replicas;
  to->strict = from->strict;
  to->timeout_ns = from->timeout_ns;
}

/* The servers of a list need names that differ. */
static int check_names(const struct uvs__redis_options *list, char *text, size_t size) {
  char name[UVS__REDIS_SERVER_NAME], other[UVS__REDIS_SERVER_NAME];
  size_t i = 1, j;

  for (const struct uvs__redis_options *o = list; o != NULL; o = o->next, i++) {
    if (!uvs__redis_server_name(o, name)) {
      snprintf(text, size, "server %zu of the list: its address is too long, or has a blank", i);
      return UV_EINVAL;
    }
    j = 1;
    for (const struct uvs__redis_options *p = list; p != o; p = p->next, j++) {
      uvs__redis_server_name(p, other);
      if (strcmp(name, other) != 0)
        continue;
      snprintf(text, size, "servers %zu and %zu of the list are the same", j, i);
      return UV_EINVAL;
    }
  }
  return 0;
}

int uvs__redis_read_url(const char *name, struct uvs__redis_options **ret, char *text,
                        size_t size) {
  struct uvs__redis_options *list = NULL, *last;
  size_t length = strlen(name);
  char *copy;
  int rc;

  if (length >= 100000) {
    snprintf(text, size, "the name of the store is too long");
    return UV_EINVAL;
  }
  copy = uvs__jobs_alloc(length + 1);
  if (copy == NULL) {
    snprintf(text, size, "no memory");
    return UV_ENOMEM;
  }
  memcpy(copy, name, length + 1);
  rc = read_all(copy, &list, text, size);
  uvs__jobs_free(copy);
  if (rc == 0 && list->next != NULL)
    rc = check_names(list, text, size);
  if (rc != 0) {
    uvs__redis_free_options(list);
    return rc;
  }
  for (last = list; last->next != NULL;)
    last = last->next;
  for (struct uvs__redis_options *o = list; o != last; o = o->next)
    copy_settings(o, last);
  *ret = list;
  return 0;
}

void uvs__redis_free_options(struct uvs__redis_options *o) {
  while (o != NULL) {
    struct uvs__redis_options *next = o->next;

    uvs__jobs_free(o);
    o = next;
  }
}

/* ---------------------------------------------------------------------- server --- */

/* Writes a path with %XX for all bytes that are not letters, digits or one of "/._-". */
static void encode(const char *path, char *to, size_t size) {
  size_t used = 0;

  for (; *path != '\0' && used + 4 < size; path++) {
    if (isalnum((unsigned char)*path) || strchr("/._-", *path) != NULL)
      to[used++] = *path;
    else
      used += (size_t)snprintf(to + used, size - used, "%%%02x", (unsigned char)*path);
  }
  to[used] = '\0';
}

bool uvs__redis_server_name(const struct uvs__redis_options *o, char to[UVS__REDIS_SERVER_NAME]) {
  char path[3 * sizeof((struct sockaddr_un *)0)->sun_path + 1];
  size_t size = UVS__REDIS_SERVER_NAME;
  int n;

  if (o->service != NULL) {
    n = snprintf(to, size, "redis+sentinel://%s/%s/%d", o->sentinels, o->service, o->db);
  } else if (o->path != NULL) {
    encode(o->path, path, sizeof path);
    n = snprintf(to, size, "redis+unix://%s?db=%d", path, o->db);
  } else {
    bool brackets = strchr(o->host, ':') != NULL;

    n = snprintf(to, size, "redis://%s%s%s:%d/%d", brackets ? "[" : "", o->host,
                 brackets ? "]" : "", o->port, o->db);
  }
  for (const char *at = to; *at != '\0'; at++)
    if (*at <= ' ' || *at > '~')
      return false;
  return n > 0 && (size_t)n < size;
}

int uvs__redis_server_options(const char *server, const struct uvs__redis_options *given,
                              struct uvs__redis_options **ret, char *text, size_t size) {
  const struct uvs__redis_options *user = given;
  char name[UVS__REDIS_SERVER_NAME];
  int rc = uvs__redis_read_server(server, true, ret, text, size);

  if (rc != 0)
    return rc;
  for (const struct uvs__redis_options *o = given->next; o != NULL; o = o->next)
    if (uvs__redis_server_name(o, name) && strcmp(name, server) == 0)
      user = o;
  (*ret)->user = user->user;
  (*ret)->password = user->password;
  copy_settings(*ret, given);
  return 0;
}
