/* SPDX-License-Identifier: MIT */
#include "http.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <uv.h>

#define BODY_MAX ((size_t)16 << 20)
#define WAIT_NS \
  (UINT64_C(5) * 1000000000) /* for the connection, the request and the whole answer */

const char *cli_url_read(const char *text, struct cli_url *ret) {
  const char *host, *end, *port;

  if (strncmp(text, "http://", 7) != 0)
    return "the URL must begin with http://";
  text += 7;
  end = text + strcspn(text, "/?#");
  if (strcmp(end, "") != 0 && strcmp(end, "/") != 0)
    return "the URL must end after the port";
  if ((size_t)(end - text) >= sizeof ret->authority ||
      memchr(text, '@', (size_t)(end - text)) != NULL)
    return "the URL has no usable host";
  snprintf(ret->authority, sizeof ret->authority, "%.*s", (int)(end - text), text);
  for (const char *c = ret->authority; *c != 0; c++) {
    if (*c <= ' ' || *c > '~')
      return "the URL has no usable host";
  }
  host = ret->authority + (ret->authority[0] == '[');
  end = host + strcspn(host, ret->authority[0] == '[' ? "]" : ":");
  port = ret->authority[0] == '[' && *end == ']' ? end + 1 : end;
  if (end == host || (ret->authority[0] == '[' && *end != ']') ||
      (size_t)(end - host) >= sizeof ret->host)
    return "the URL has no usable host";
  snprintf(ret->host, sizeof ret->host, "%.*s", (int)(end - host), host);
  if (*port != 0 && (*port != ':' || strlen(port + 1) > 5 || port[1] == 0 ||
                     strspn(port + 1, "0123456789") != strlen(port + 1)))
    return "the port of the URL must be a number";
  snprintf(ret->port, sizeof ret->port, "%s", *port == 0 ? "80" : port + 1);
  return NULL;
}

/* The next call on this socket waits no longer than until then. False: it is later already. */
static bool set_deadline(int fd, uint64_t deadline_ns) {
  uint64_t now_ns = uv_hrtime();
  uint64_t us = now_ns < deadline_ns ? (deadline_ns - now_ns) / 1000 : 0;
  struct timeval wait = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};

  return us > 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0 &&
         setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) == 0; /* also for connect */
}

/* A connected socket; -1: `why` says what is wrong. */
static int connect_to(const struct cli_url *url, uint64_t deadline_ns, char *why, size_t size) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
  int fd = -1, rc = getaddrinfo(url->host, url->port, &hints, &list);

  if (rc != 0) {
    snprintf(why, size, "%s: %s", url->host, gai_strerror(rc));
    return -1;
  }
  for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    if (fd < 0)
      continue;
    errno = ETIMEDOUT;
    if (!set_deadline(fd, deadline_ns) || connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
      rc = errno;
      close(fd);
      fd = -1;
      errno = rc;
    }
  }
  if (fd < 0)
    snprintf(why, size, "%s cannot be reached: %s", url->authority,
             uv_strerror(uv_translate_sys_error(errno)));
  freeaddrinfo(list);
  return fd;
}

static int send_request(int fd, const struct cli_url *url, const char *path, const char *token) {
  char text[1200];
  int n = snprintf(text, sizeof text, "GET %s HTTP/1.0\r\nHost: %s\r\n%s%s%s\r\n", path,
                   url->authority, token == NULL ? "" : "Authorization: Bearer ",
                   token == NULL ? "" : token, token == NULL ? "" : "\r\n");
  int sent = 0;

  if (n < 0 || (size_t)n >= sizeof text)
    return -1;
  while (sent < n) {
    ssize_t part = send(fd, text + sent, (size_t)(n - sent), MSG_NOSIGNAL);

    if (part <= 0)
      return -1;
    sent += (int)part;
  }
  return 0;
}

/* All that the server sends, with a zero byte behind it; NULL: no memory, too much, too slow, an
 * error. */
static char *receive(int fd, uint64_t deadline_ns, size_t *ret_size) {
  size_t size = 0, room = 65536;
  char *data = malloc(room);

  while (data != NULL && set_deadline(fd, deadline_ns)) {
    ssize_t part = recv(fd, data + size, room - size - 1, 0);

    if (part == 0) {
      data[size] = 0;
      *ret_size = size;
      return data;
    }
    size += part > 0 ? (size_t)part : 0;
    if (part < 0 || size > BODY_MAX)
      break;
    if (room - size < 32768) {
      char *bigger = realloc(data, room *= 2);

      if (bigger == NULL)
        break;
      data = bigger;
    }
  }
  free(data);
  return NULL;
}

char *cli_http_get(const struct cli_url *url, const char *path, const char *token, char *why,
                   size_t why_size) {
  uint64_t deadline_ns = uv_hrtime() + WAIT_NS;
  int fd = connect_to(url, deadline_ns, why, why_size), status;
  char *data = NULL, *body;
  size_t size;

  if (fd < 0)
    return NULL;
  if (send_request(fd, url, path, token) == 0)
    data = receive(fd, deadline_ns, &size);
  close(fd);
  body = data == NULL ? NULL : strstr(data, "\r\n\r\n");
  if (body == NULL || sscanf(data, "HTTP/1.%*1d %3d", &status) != 1) {
    snprintf(why, why_size, "%s gave no answer that can be read", url->authority);
    free(data);
    return NULL;
  }
  if (status != 200) {
    snprintf(why, why_size,
             status == 401 ? "%s wants a token: set UVSCHED_TOKEN (status %d)"
                           : "%s answered with status %d, not as a console of uvsched",
             url->authority, status);
    free(data);
    return NULL;
  }
  memmove(data, body + 4, size - (size_t)(body + 4 - data) + 1);
  return data;
}
