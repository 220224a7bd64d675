/* SPDX-License-Identifier: MIT */
#include "jobs/redis_socket.h"

#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"

#define READ_SIZE 32768
#define KEEP_SIZE 262144 /* a larger buffer is freed when it is empty */
#define KEEPALIVE_S 15

struct buffer {
  char *data;
  size_t size, capacity;
};

struct uvs__redis_socket {
  uv_loop_t *loop;
  const struct uvs__redis_socket_hooks *hooks;
  void *arg;
  int64_t until_ns;    /* the deadline of all attempts to connect */
  int64_t deadline_ns; /* the deadline of this attempt */
  int pending;         /* handles that are not closed, and the look-up of the name */
  bool connected, broken;
  bool looking, streaming; /* the look-up runs; the stream is not closed */
  bool was_late;           /* the deadline has passed; what has arrived is read first */

  union {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } to;
  uv_timer_t timer;
  uv_prepare_t flush;
  uv_getaddrinfo_t lookup;
  uv_connect_t connect;
  uv_write_t write;
  struct addrinfo *addresses; /* of the look-up */
  struct addrinfo *next;      /* to be tried */
  struct addrinfo numeric;    /* instead of a look-up */
  struct sockaddr_storage numeric_address;
  int last_error; /* of the last address that was tried */

  struct uvs__redis_command *first, *last; /* in flight */
  struct buffer out;                       /* not given to libuv yet */
  struct buffer writing;                   /* being written; size 0: nothing */
  uint64_t queued, given;                  /* bytes of all commands; those given to libuv */
  redisReader *reader;
  int port;
  char host[UVS__REDIS_HOST]; /* or the path */
  char in[READ_SIZE];
};

static int64_t now_ns(void) {
  return (int64_t)uv_hrtime();
}

/* Milliseconds, rounded up. */
static uint64_t ms_until(int64_t at_ns) {
  int64_t left_ns = at_ns - now_ns();

  return left_ns <= 0 ? 0 : (uint64_t)(left_ns - 1) / 1000000 + 1;
}

/* ------------------------------------------------------------------- close --- */

static void end_one(struct uvs__redis_socket *s) {
  if (--s->pending > 0)
    return;
  s->hooks->closed(s->arg);
  if (s->addresses != NULL)
    uv_freeaddrinfo(s->addresses);
  if (s->reader != NULL)
    redisReaderFree(s->reader);
  uvs__jobs_free(s->out.data);
  uvs__jobs_free(s->writing.data);
  uvs__jobs_free(s);
}

static void on_closed(uv_handle_t *handle) {
  end_one(handle->data);
}

static void connect_next(struct uvs__redis_socket *s);

static void on_stream_closed(uv_handle_t *handle) {
  struct uvs__redis_socket *s = handle->data;

  s->streaming = false;
  if (!s->broken)
    connect_next(s);
  end_one(s);
}

static void close_stream(struct uvs__redis_socket *s) {
  if (s->streaming && !uv_is_closing(&s->to.handle))
    uv_close(&s->to.handle, on_stream_closed);
}

/* How many bytes were given to the kernel. */
static uint64_t bytes_sent(const struct uvs__redis_socket *s) {
  return s->connected ? s->given - uv_stream_get_write_queue_size(&s->to.stream) : 0;
}

void uvs__redis_socket_break(struct uvs__redis_socket *s, int status, const char *why) {
  struct uvs__redis_command *c = s->first, *next;
  uint64_t sent = bytes_sent(s);
  int64_t at_ns = now_ns();

  if (s->broken)
    return;
  s->broken = true;
  s->first = s->last = NULL;
  s->hooks->broken(s->arg, status, why);
  for (; c != NULL; c = next) {
    next = c->next;
    c->done(c, c->end > sent ? UV_EAGAIN : UVS_EUNKNOWN, NULL, at_ns);
  }
  if (s->looking)
    uv_cancel((uv_req_t *)&s->lookup);
  uv_close((uv_handle_t *)&s->timer, on_closed);
  uv_close((uv_handle_t *)&s->flush, on_closed);
  close_stream(s);
}

static void break_by(struct uvs__redis_socket *s, int status, const char *what) {
  char why[160];

  snprintf(why, sizeof why, "%s: %s", what, uv_strerror(status));
  uvs__redis_socket_break(s, status, why);
}

/* --------------------------------------------------------------- deadlines --- */

static void on_timer(uv_timer_t *timer);

static void arm(struct uvs__redis_socket *s, int64_t at_ns) {
  s->was_late = false;
  uv_update_time(s->loop);
  uv_timer_start(&s->timer, on_timer, ms_until(at_ns), 0);
}

static void on_timer(uv_timer_t *timer) {
  struct uvs__redis_socket *s = timer->data;
  int64_t at_ns = s->deadline_ns;

  if (s->connected && s->first == NULL)
    return;
  if (s->connected)
    at_ns = s->first->deadline_ns;
  if (at_ns > now_ns()) {
    arm(s, at_ns);
  } else if (!s->was_late) {
    /* Perhaps the loop was held up, and the reply is here: in 1 ms the next poll has been done. */
    s->was_late = true;
    uv_timer_start(timer, on_timer, 1, 0);
  } else if (s->connected) {
    uvs__redis_socket_break(s, UV_ETIMEDOUT, "the server did not reply in time");
  } else if (s->looking) {
    uvs__redis_socket_break(s, UV_ETIMEDOUT, "the host's name was not resolved in time");
  } else if (s->streaming) {
    s->last_error = UV_ETIMEDOUT;
    close_stream(s);
  } else {
    break_by(s, s->last_error, "the host's name was not resolved");
  }
}

/* ------------------------------------------------------------------- writing --- */

static bool reserve(struct buffer *b, size_t more) {
  size_t capacity = b->capacity == 0 ? 4096 : b->capacity;
  char *data;

  if (more > SIZE_MAX / 4 - b->size)
    return false;
  while (capacity - b->size < more)
    capacity *= 2;
  if (capacity == b->capacity)
    return true;
  data = uvs__jobs_realloc(b->data, capacity);
  if (data == NULL)
    return false;
  b->data = data;
  b->capacity = capacity;
  return true;
}

static void on_written(uv_write_t *write, int status);

/* Gives all commands to libuv, unless it is still busy with earlier ones. */
static void write_out(struct uvs__redis_socket *s) {
  struct buffer b = s->writing;
  uv_buf_t buf;
  int rc;

  if (s->out.size == 0 || s->writing.size > 0)
    return;
  s->writing = s->out;
  s->out = b;
  s->given += s->writing.size;
  buf = uv_buf_init(s->writing.data, (unsigned)s->writing.size);
  rc = uv_write(&s->write, &s->to.stream, &buf, 1, on_written);
  if (rc == 0)
    return;
  s->given -= s->writing.size; /* nothing was sent */
  s->writing.size = 0;
  break_by(s, rc, "the connection was lost");
}

static void on_written(uv_write_t *write, int status) {
  struct uvs__redis_socket *s = write->data;

  s->writing.size = 0;
  if (s->broken)
    return;
  if (s->writing.capacity > KEEP_SIZE) {
    uvs__jobs_free(s->writing.data);
    s->writing = (struct buffer){0};
  }
  if (status < 0)
    break_by(s, status, "the connection was lost");
  else
    write_out(s);
}

static void on_flush(uv_prepare_t *prepare) {
  uv_prepare_stop(prepare);
  write_out(prepare->data);
}

static size_t word_size(const struct uvs__redis_words *part, int i) {
  return part->sizes != NULL ? part->sizes[i] : strlen(part->words[i]);
}

/* The caller has made sure that there is room. */
static void append(struct buffer *b, const void *data, size_t size) {
  if (size > 0)
    memcpy(b->data + b->size, data, size);
  b->size += size;
}

static void append_number(struct buffer *b, char kind, size_t n) {
  char text[32];

  append(b, text, (size_t)snprintf(text, sizeof text, "%c%zu\r\n", kind, n));
}

int uvs__redis_socket_send(struct uvs__redis_socket *s, struct uvs__redis_command *c,
                           const struct uvs__redis_words *parts, int n_parts, int64_t timeout_ns) {
  size_t before = s->out.size, size = 32, n = 0;

  if (s->broken)
    return UV_EAGAIN;
  for (int p = 0; p < n_parts; p++) {
    n += (size_t)parts[p].n;
    for (int i = 0; i < parts[p].n; i++)
      size += word_size(&parts[p], i) + 32;
  }
  /* libuv takes sizes of 32 bits. */
  if (size > UINT32_MAX - before || !reserve(&s->out, size))
    return UV_ENOMEM;
  append_number(&s->out, '*', n);
  for (int p = 0; p < n_parts; p++) {
    for (int i = 0; i < parts[p].n; i++) {
      append_number(&s->out, '$', word_size(&parts[p], i));
      append(&s->out, parts[p].words[i], word_size(&parts[p], i));
      append(&s->out, "\r\n", 2);
    }
  }
  s->queued += s->out.size - before;
  c->end = s->queued;
  c->sent_ns = now_ns();
  c->deadline_ns = timeout_ns < INT64_MAX - c->sent_ns ? c->sent_ns + timeout_ns : INT64_MAX;
  c->next = NULL;
  if (s->first == NULL)
    s->first = c;
  else
    s->last->next = c;
  s->last = c;
  if (!uv_is_active((uv_handle_t *)&s->timer))
    arm(s, c->deadline_ns);
  uv_prepare_start(&s->flush, on_flush);
  return 0;
}

bool uvs__redis_socket_idle(const struct uvs__redis_socket *s) {
  return s->first == NULL;
}

/* ------------------------------------------------------------------- reading --- */

static bool is_message(const redisReply *r) {
  return r->type == REDIS_REPLY_ARRAY && r->elements == 3 &&
         r->element[0]->type == REDIS_REPLY_STRING && strcmp(r->element[0]->str, "message") == 0;
}

static void receive(struct uvs__redis_socket *s, redisReply *reply, int64_t received_ns) {
  struct uvs__redis_command *c = s->first;
  enum uvs__redis_remedy unused;
  char why[160];

  if (s->hooks->message != NULL && is_message(reply)) {
    s->hooks->message(s->arg, reply);
    freeReplyObject(reply);
  } else if (c != NULL) {
    s->first = c->next;
    if (s->first == NULL)
      s->last = NULL;
    c->done(c, reply->type == REDIS_REPLY_ERROR ? uvs__redis_error(reply, &unused) : 0, reply,
            received_ns);
  } else {
    /* Too many connections, or protected mode: the server sends an error unasked, and closes. */
    uvs__redis_line(why, sizeof why, reply->type == REDIS_REPLY_ERROR ? reply->str : "?",
                    reply->type == REDIS_REPLY_ERROR ? reply->len : 1);
    freeReplyObject(reply);
    uvs__redis_socket_break(s, UV_EPROTO, why);
  }
}

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *buf) {
  struct uvs__redis_socket *s = handle->data;

  (void)size;
  *buf = uv_buf_init(s->in, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  struct uvs__redis_socket *s = stream->data;
  int64_t received_ns = now_ns();
  void *reply;

  if (n == 0 || s->broken)
    return;
  if (n == UV_EOF) {
    uvs__redis_socket_break(s, UV_EOF, "the server closed the connection");
    return;
  }
  if (n < 0) {
    break_by(s, (int)n, "the connection was lost");
    return;
  }
  if (redisReaderFeed(s->reader, buf->base, (size_t)n) == REDIS_OK) {
    while (!s->broken && redisReaderGetReply(s->reader, &reply) == REDIS_OK && reply != NULL)
      receive(s, reply, received_ns);
  }
  if (s->reader->err != 0)
    uvs__redis_socket_break(s, s->reader->err == REDIS_ERR_OOM ? UV_ENOMEM : UV_EPROTO,
                            s->reader->err == REDIS_ERR_OOM ? "no memory for a reply"
                                                            : "the reply is not Redis' protocol");
}

/* ---------------------------------------------------------------- connecting --- */

static void on_connected(uv_connect_t *connect, int status) {
  struct uvs__redis_socket *s = connect->data;

  if (uv_is_closing(&s->to.handle))
    return;
  if (status == 0)
    status = uv_read_start(&s->to.stream, on_room, on_read);
  if (status != 0) {
    s->last_error = status;
    close_stream(s);
    return;
  }
  if (s->to.handle.type == UV_TCP) {
    uv_tcp_nodelay(&s->to.tcp, 1);
    uv_tcp_keepalive(&s->to.tcp, 1, KEEPALIVE_S);
  }
  s->connected = true;
  uv_timer_stop(&s->timer);
  s->hooks->opened(s->arg);
}

/* Each address that is left gets an equal share of the time that is left. */
static void set_share(struct uvs__redis_socket *s) {
  int64_t left_ns = s->until_ns - now_ns();
  int n = 1;

  for (const struct addrinfo *a = s->next; a != NULL; a = a->ai_next)
    n++;
  s->deadline_ns = now_ns() + (left_ns > 0 ? left_ns / n : 0);
  arm(s, s->deadline_ns);
}

static void begin_stream(struct uvs__redis_socket *s) {
  s->to.handle.data = s;
  s->streaming = true;
  s->pending++;
}

static void connect_next(struct uvs__redis_socket *s) {
  struct addrinfo *a = s->next;
  int rc;

  if (a == NULL) {
    if (s->last_error == UV_ETIMEDOUT)
      uvs__redis_socket_break(s, UV_ETIMEDOUT, "the connection was not made in time");
    else
      break_by(s, s->last_error, "no connection");
    return;
  }
  s->next = a->ai_next;
  uv_tcp_init(s->loop, &s->to.tcp);
  begin_stream(s);
  rc = uv_tcp_connect(&s->connect, &s->to.tcp, a->ai_addr, on_connected);
  if (rc == 0) {
    set_share(s);
  } else {
    s->last_error = rc;
    close_stream(s);
  }
}

static void on_lookup(uv_getaddrinfo_t *lookup, int status, struct addrinfo *list) {
  struct uvs__redis_socket *s = lookup->data;

  s->looking = false;
  s->addresses = s->next = list;
  if (!s->broken && status != 0)
    break_by(s, status, "the host's name was not resolved");
  else if (!s->broken)
    connect_next(s);
  end_one(s);
}

/* A numeric address needs no thread of the pool, where a look-up may have to wait. */
static bool read_numeric(struct uvs__redis_socket *s) {
  struct sockaddr_storage *to = &s->numeric_address;

  if (uv_ip4_addr(s->host, s->port, (struct sockaddr_in *)to) != 0 &&
      uv_ip6_addr(s->host, s->port, (struct sockaddr_in6 *)to) != 0)
    return false;
  s->numeric.ai_addr = (struct sockaddr *)to;
  s->next = &s->numeric;
  return true;
}

static int start_lookup(struct uvs__redis_socket *s) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  char service[16];
  int rc;

  snprintf(service, sizeof service, "%d", s->port);
  rc = uv_getaddrinfo(s->loop, &s->lookup, on_lookup, s->host, service, &hints);
  s->looking = rc == 0;
  s->pending += rc == 0;
  return rc;
}

static void start(struct uvs__redis_socket *s, bool path) {
  arm(s, s->until_ns);
  s->deadline_ns = s->until_ns;
  if (path) {
    uv_pipe_init(s->loop, &s->to.pipe, 0);
    begin_stream(s);
    uv_pipe_connect(&s->connect, &s->to.pipe, s->host, on_connected);
  } else if (read_numeric(s)) {
    connect_next(s);
  } else {
    /* No hook is called from inside uvs__redis_socket_open, so the timer reports the error. */
    s->last_error = start_lookup(s);
    if (s->last_error != 0) {
      s->deadline_ns = 0;
      arm(s, 0);
    }
  }
}

struct uvs__redis_socket *
uvs__redis_socket_open(uv_loop_t *loop, const struct uvs__redis_address *address,
                       int64_t timeout_ns, const struct uvs__redis_socket_hooks *hooks, void *arg) {
  struct uvs__redis_socket *s = uvs__jobs_alloc(sizeof *s);

  if (s == NULL)
    return NULL;
  s->reader = redisReaderCreate();
  if (s->reader == NULL) {
    uvs__jobs_free(s);
    return NULL;
  }
  s->loop = loop;
  s->hooks = hooks;
  s->arg = arg;
  s->until_ns = now_ns() + timeout_ns;
  s->port = address->port;
  snprintf(s->host, sizeof s->host, "%s", address->path != NULL ? address->path : address->host);
  uv_timer_init(loop, &s->timer);
  uv_prepare_init(loop, &s->flush);
  s->timer.data = s->flush.data = s->lookup.data = s->connect.data = s->write.data = s;
  s->pending = 2;
  start(s, address->path != NULL);
  return s;
}
