/* SPDX-License-Identifier: MIT */
#include "console/server.h"

#include "console/alloc.h"
#include "console/query.h"

#include <stdio.h>
#include <string.h>

/* ---- connections ---- */

void uvs__connection_notify(void *console, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what) {
  struct uvs_console_s *c = console;
  struct uvs__connection *x = *context;

  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    c->accepted++;
    x = uvs__console_alloc(sizeof *x);
    *context = x; /* NULL: its requests are refused */
    if (x == NULL)
      return;
    *x = (struct uvs__connection){.console = c,
                                  .fd = info == NULL ? -1 : info->connect_fd,
                                  .until_ns = uv_hrtime() + UVS__REQUEST_NS,
                                  .next = c->connections};
    if (c->connections != NULL)
      c->connections->prev = x;
    c->connections = x;
  } else if (x != NULL) {
    *(x->prev == NULL ? &c->connections : &x->prev->next) = x->next;
    if (x->next != NULL)
      x->next->prev = x->prev;
    uvs__console_free(x);
    *context = NULL;
  }
}

/* ---- requests ---- */

void *uvs__request_begin(void *console, const char *target, struct MHD_Connection *connection) {
  struct uvs__request *r = uvs__console_alloc(sizeof *r);

  if (r == NULL)
    return NULL;
  r->console = console;
  r->connection = connection;
  if (strlen(target) <= UVS__TARGET_MAX)
    r->target = uvs__console_copy(target);
  return r;
}

void uvs__request_end(void *console, struct MHD_Connection *connection, void **request,
                      enum MHD_RequestTerminationCode why) {
  struct uvs__request *r = *request;
  struct uvs__connection *x = uvs__connection_of(connection);

  (void)console, (void)why;
  if (x != NULL)
    x->until_ns = uv_hrtime() + UVS__REQUEST_NS;
  if (r == NULL)
    return;
  uvs__cache_leave(r);
  uvs__later_leave(r);
  if (r->answer != NULL)
    MHD_destroy_response(r->answer);
  uvs__console_free(r->target);
  uvs__console_free(r);
  *request = NULL;
}

static enum MHD_Result refuse(struct uvs__request *r, unsigned status, const char *text) {
  struct MHD_Response *answer = uvs__answer_error(text);

  if (answer != NULL && status == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(answer, "WWW-Authenticate", "Bearer");
  if (answer != NULL && status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(answer, "Allow", "GET, HEAD, POST");
  return uvs__answer_queue(r->connection, status, answer);
}

/* ---- who may ---- */

struct headers {
  int hosts, bodies;
  bool twice; /* a header that decides who may */
  const char *host, *origin, *site, *mode, *authorization;
};

static enum MHD_Result see_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value) {
  struct headers *h = arg;
  const char **at = NULL;

  (void)kind;
  if (value == NULL)
    value = "";
  if (strcasecmp(name, "Host") == 0) {
    h->hosts++;
    at = &h->host;
  } else if (strcasecmp(name, "Origin") == 0) {
    at = &h->origin;
  } else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
    at = &h->site;
  } else if (strcasecmp(name, "Sec-Fetch-Mode") == 0) {
    at = &h->mode;
  } else if (strcasecmp(name, "Authorization") == 0) {
    at = &h->authorization;
  } else if (strcasecmp(name, "Transfer-Encoding") == 0 ||
             (strcasecmp(name, "Content-Length") == 0 && strcmp(value, "0") != 0)) {
    h->bodies++;
  }
  if (at != NULL) {
    h->twice |= *at != NULL;
    *at = value;
  }
  return MHD_YES;
}

/* 0, or the status with which the request is refused. */
static unsigned check(struct uvs__request *r, const struct headers *h, const char *method,
                      const char **ret_text) {
  const struct uvs__guard *g = &r->console->guard;
  bool post = strcmp(method, "POST") == 0;
  bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
  bool is_page = r->target != NULL && uvs__query_path_is(r->target, "/");
  bool has_token;

  *ret_text = "no memory";
  if (uvs__connection_of(r->connection) == NULL)
    return MHD_HTTP_SERVICE_UNAVAILABLE;
  *ret_text = "the request target is too long";
  if (r->target == NULL)
    return MHD_HTTP_URI_TOO_LONG;
  *ret_text = "a request needs one Host header";
  if (h->hosts != 1)
    return MHD_HTTP_BAD_REQUEST;
  *ret_text = "a header is there twice";
  if (h->twice)
    return MHD_HTTP_BAD_REQUEST;
  *ret_text = "this host name is not one of the console's: see `hosts` in uvsched/console.h";
  if (!uvs__guard_host(g, h->host))
    return MHD_HTTP_FORBIDDEN;
  *ret_text = "requests from pages of other hosts are refused";
  if (!uvs__guard_site(h->host, h->origin, h->site, h->mode, is_page && get))
    return MHD_HTTP_FORBIDDEN;
  *ret_text = "there is no such method here";
  if (!post && !get)
    return MHD_HTTP_METHOD_NOT_ALLOWED;
  has_token = uvs__guard_token(g, h->authorization);
  *ret_text = "this console only shows: it has no token";
  if (post && g->token == NULL)
    return MHD_HTTP_FORBIDDEN;
  *ret_text = "this needs the token, as Authorization: Bearer TOKEN";
  if (!has_token && (post || (g->token_to_read && !is_page)))
    return MHD_HTTP_UNAUTHORIZED;
  return 0;
}

/* ---- what it asks for ---- */

static enum MHD_Result route(struct uvs__request *r, const char *method) {
  bool action = uvs__action_exists(r->target);

  if (strcmp(method, "POST") == 0)
    return action ? uvs__action_do(r) : refuse(r, MHD_HTTP_NOT_FOUND, "there is no such action");
  if (action)
    return refuse(r, MHD_HTTP_METHOD_NOT_ALLOWED, "this needs POST");
  if (uvs__query_path_is(r->target, "/"))
    return uvs__answer_queue(r->connection, MHD_HTTP_OK, uvs__answer_page());
  if (uvs__query_path_is(r->target, "/events"))
    return strcmp(method, "HEAD") == 0 ? uvs__events_head(r) : uvs__events_get(r);
  if (uvs__query_path_is(r->target, "/jobs.json"))
    return uvs__console_get_jobs(r);
  if (uvs__query_path_is(r->target, "/trace.json"))
    return uvs__recording_get(r);
  if (uvs_console_type(r->target) == NULL)
    return refuse(r, MHD_HTTP_NOT_FOUND, "there is no such page");
  return uvs__cache_get(r);
}

/* Called when the headers have arrived, then when the whole request has, and again after the
 * request was suspended. */
enum MHD_Result uvs__request_handle(void *console, struct MHD_Connection *connection,
                                    const char *url, const char *method, const char *version,
                                    const char *upload, size_t *upload_size, void **request) {
  struct uvs__request *r = *request;
  struct headers h = {0};
  const char *text;
  unsigned status;

  (void)console, (void)url, (void)version, (void)upload;
  if (r == NULL || *upload_size > 0)
    return MHD_NO; /* the connection is closed */
  if (r->console->closing)
    return MHD_NO;
  if (r->answered) {
    struct MHD_Response *answer = r->answer;

    r->answer = NULL; /* it may be NULL: no memory */
    return uvs__answer_queue(connection, r->status, answer);
  }
  MHD_get_connection_values(connection, MHD_HEADER_KIND, see_header, &h);
  if (!r->whole) {
    r->whole = true;
    return h.bodies > 0 ? refuse(r, MHD_HTTP_CONTENT_TOO_LARGE, "a request has no body here")
                        : MHD_YES;
  }
  uvs__request_lives(r, UVS__ANSWER_NS);
  status = check(r, &h, method, &text);
  if (status != 0)
    return refuse(r, status, text);
  return route(r, method);
}
