/* SPDX-License-Identifier: MIT
 *
 * Live updates: server-sent events. All clients share one text, which is rendered twice a second at
 * most, and only while there are clients. A client that reads slowly misses updates: it has at most
 * one that it has not read to the end.
 */
#include "console/server.h"

#include "console/alloc.h"
#include "console/timeline.h"

#include <string.h>
#include <sys/socket.h>

struct uvs__update {
  int shares;
  struct uvs__text text;
};

static struct uvs__update *share(struct uvs__update *u) {
  if (u != NULL)
    u->shares++;
  return u;
}

static void drop(struct uvs__update *u) {
  if (u == NULL || --u->shares > 0)
    return;
  uvs__text_free(&u->text);
  uvs__console_free(u);
}

/* ---- an update ---- */

static int add(struct uvs__text *t, const char *text) {
  return uvs__text_write(text, strlen(text), t);
}

/* The runs since the last update, and somewhat more: the page knows what it has. Reading them takes
 * time if there are very many. Then they come less often. */
static int add_runs(struct uvs_console_s *c, struct uvs__text *t) {
  uint64_t began_ns = uv_hrtime(), cpu_ns = uvs__console_cpu_ns();
  int64_t last_ns = (int64_t)(began_ns - c->runs_ns) + UVS_MS(500);
  struct uvs__json j;
  int rc, written;

  if (began_ns < c->runs_next_ns)
    return 0;
  rc = add(t, "event: runs\ndata: ");
  if (rc < 0)
    return rc;
  uvs__json_init(&j, uvs__text_write, t);
  rc = uvs__timeline_write(&j, c->s, last_ns > UVS_SEC(60) ? UVS_SEC(60) : last_ns,
                           UVS__UPDATE_RUNS);
  written = uvs__json_end(&j);
  c->runs_ns = began_ns;
  c->runs_next_ns = began_ns + uvs__console_rest(uvs__console_cpu_ns() - cpu_ns);
  return rc < 0 ? rc : written < 0 ? written : add(t, "\n\n");
}

/* JSON has no line breaks, so it is one line of data. NULL: no memory, or the scheduler is gone. */
static struct uvs__update *render_update(struct uvs_console_s *c) {
  struct uvs__update *u = uvs__console_alloc(sizeof *u);
  struct uvs__stats_about about;
  int rc;

  if (u == NULL)
    return NULL;
  u->shares = 1;
  uvs__console_about(c, &about);
  rc = add(&u->text, "retry: 2000\nevent: stats\ndata: ");
  if (rc == 0)
    rc = uvs__render(c->s, "/stats.json", &about, uvs__text_write, &u->text);
  if (rc == 0)
    rc = add(&u->text, "\n\n");
  if (rc == 0)
    rc = add_runs(c, &u->text);
  if (rc == 0)
    return u;
  drop(u);
  return NULL;
}

/* ---- clients ---- */

/* Called by libmicrohttpd when the client can take more. */
static ssize_t read_update(void *arg, uint64_t at, char *ret, size_t room) {
  struct uvs__client *x = arg;
  size_t n;

  (void)at;
  if (x->console->closing)
    return MHD_CONTENT_READER_END_OF_STREAM;
  if (x->update == NULL) {
    x->suspended = true;
    MHD_suspend_connection(x->connection);
    return 0;
  }
  n = x->update->text.size - x->offset;
  if (n > room)
    n = room;
  memcpy(ret, x->update->text.data + x->offset, n);
  x->offset += n;
  if (x->offset == x->update->text.size) {
    drop(x->update);
    x->update = NULL;
  }
  return (ssize_t)n;
}

static void end_client(void *arg) {
  struct uvs__client *x = arg;

  *(x->prev == NULL ? &x->console->clients : &x->prev->next) = x->next;
  if (x->next != NULL)
    x->next->prev = x->prev;
  drop(x->update);
  x->console->clients_left++;
  uvs__console_free(x);
}

/* So a client that does not read is noticed soon. */
static void bound_send_buffer(const struct uvs__request *r) {
  struct uvs__connection *x = uvs__connection_of(r->connection);
  int size = 64 * 1024;

  if (x != NULL)
    setsockopt(x->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

enum MHD_Result uvs__events_get(struct uvs__request *r) {
  struct uvs_console_s *c = r->console;
  struct uvs__client *x;
  struct MHD_Response *answer;

  if (c->clients_left == 0)
    return uvs__answer_queue(r->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                             uvs__answer_error("too many clients get live updates"));
  x = uvs__console_alloc(sizeof *x);
  if (x == NULL)
    return MHD_NO;
  if (c->update == NULL)
    c->update = render_update(c);
  *x = (struct uvs__client){.console = c,
                            .connection = r->connection,
                            .update = share(c->update),
                            .began_ns = uv_hrtime(),
                            .next = c->clients};
  answer =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 * 1024, read_update, x, end_client);
  if (answer == NULL) {
    drop(x->update);
    uvs__console_free(x);
    return MHD_NO;
  }
  if (c->clients != NULL)
    c->clients->prev = x;
  c->clients = x;
  c->clients_left--;
  bound_send_buffer(r);
  uvs__answer_headers(answer, "text/event-stream");
  uvs__request_lives(r, UVS__EVENTS_NS);
  return uvs__answer_queue(r->connection, MHD_HTTP_OK, answer);
}

enum MHD_Result uvs__events_head(struct uvs__request *r) {
  struct MHD_Response *answer = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);

  if (answer != NULL)
    uvs__answer_headers(answer, "text/event-stream");
  return uvs__answer_queue(r->connection, MHD_HTTP_OK, answer);
}

static void resume(struct uvs__client *x) {
  if (x->suspended) {
    x->suspended = false;
    MHD_resume_connection(x->connection);
    x->console->kick(x->console);
  }
}

static void end_if_stuck(struct uvs__client *x, uint64_t now_ns) {
  struct uvs__connection *connection = uvs__connection_of(x->connection);

  if (now_ns - x->began_ns > UVS__ANSWER_NS && connection != NULL)
    connection->until_ns = now_ns; /* the next tick shuts it down */
}

void uvs__events_tick(struct uvs_console_s *c) {
  uint64_t now_ns = uv_hrtime();

  drop(c->update);
  c->update = c->clients == NULL ? NULL : render_update(c);
  for (struct uvs__client *x = c->clients; x != NULL; x = x->next) {
    if (x->update != NULL) { /* it is still reading an older one */
      end_if_stuck(x, now_ns);
    } else if (c->update != NULL) {
      x->update = share(c->update);
      x->offset = 0;
      x->began_ns = now_ns;
      resume(x);
    }
  }
}

void uvs__events_close(struct uvs_console_s *c) {
  for (struct uvs__client *x = c->clients; x != NULL; x = x->next)
    resume(x);
}

void uvs__events_free(struct uvs_console_s *c) {
  drop(c->update);
  c->update = NULL;
}
