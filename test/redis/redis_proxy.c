/* SPDX-License-Identifier: MIT */
#include "redis_proxy.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

#include "redis_server.h"

enum { CLIENT, SERVER };

struct pair;

struct side {
  uv_tcp_t tcp;
  struct pair *pair;
};

/* A connection of a client, and the one to the server. */
struct pair {
  struct pair *next;
  struct redis_proxy *proxy;
  struct side sides[2];
  uv_connect_t connect;
  int open;  /* sides, and chunks on their way */
  bool dead; /* half open: nothing goes on */
  bool closing;
};

/* Bytes on their way. */
struct chunk {
  uv_write_t write; /* data: the chunk */
  uv_timer_t timer;
  struct pair *pair;
  int to;
  size_t size;
  char data[];
};

struct redis_proxy {
  uv_loop_t loop;
  uv_thread_t thread;
  uv_async_t async;
  uv_tcp_t listener;
  bool listening;
  uv_sem_t done;
  int port, to_port;
  struct pair *pairs;
  enum redis_fault fault; /* the thread's */
  _Atomic int wanted;     /* a fault; STOP */
  _Atomic bool changing;  /* on_async comes soon */
  _Atomic int accepted;
  char room[65536]; /* for what is read */
};

enum { STOP = 100 };

static void check(int rc, const char *what) {
  if (rc == 0)
    return;
  fprintf(stderr, "redis_proxy: %s: %s\n", what, uv_strerror(rc));
  abort();
}

/* ----------------------------------------------------------------------- pairs --- */

static void drop_pair(struct pair *pair) {
  struct pair **at = &pair->proxy->pairs;

  if (--pair->open > 0)
    return;
  while (*at != pair)
    at = &(*at)->next;
  *at = pair->next;
  free(pair);
}

static void on_side_closed(uv_handle_t *handle) {
  struct side *side = handle->data;

  drop_pair(side->pair);
}

static void close_pair(struct pair *pair, bool reset) {
  if (pair->closing)
    return;
  pair->closing = true;
  if (!reset || uv_tcp_close_reset(&pair->sides[CLIENT].tcp, on_side_closed) != 0)
    uv_close((uv_handle_t *)&pair->sides[CLIENT].tcp, on_side_closed);
  uv_close((uv_handle_t *)&pair->sides[SERVER].tcp, on_side_closed);
}

static void on_chunk_closed(uv_handle_t *timer) {
  struct chunk *chunk = timer->data;

  drop_pair(chunk->pair);
  free(chunk);
}

static void on_written(uv_write_t *write, int status) {
  struct chunk *chunk = write->data;

  (void)status;
  uv_close((uv_handle_t *)&chunk->timer, on_chunk_closed);
}

static void write_chunk(struct chunk *chunk) {
  uv_buf_t buf = uv_buf_init(chunk->data, (unsigned)chunk->size);
  struct pair *pair = chunk->pair;

  if (pair->closing ||
      uv_write(&chunk->write, (uv_stream_t *)&pair->sides[chunk->to].tcp, &buf, 1, on_written) != 0)
    uv_close((uv_handle_t *)&chunk->timer, on_chunk_closed);
}

static void on_chunk_timer(uv_timer_t *timer) {
  write_chunk(timer->data);
}

static void forward(struct pair *pair, int to, const char *data, size_t size, unsigned delay_ms) {
  struct chunk *chunk = malloc(sizeof *chunk + size);

  if (chunk == NULL)
    abort();
  chunk->pair = pair;
  pair->open++;
  chunk->to = to;
  chunk->size = size;
  memcpy(chunk->data, data, size);
  chunk->write.data = chunk;
  uv_timer_init(&pair->proxy->loop, &chunk->timer);
  chunk->timer.data = chunk;
  if (delay_ms == 0)
    write_chunk(chunk);
  else
    uv_timer_start(&chunk->timer, on_chunk_timer, delay_ms, 0);
}

/* This thread has nothing else to do, so it may sleep. */
static void forward_bytes(struct pair *pair, int to, const char *data, size_t size, unsigned us) {
  struct redis_proxy *p = pair->proxy;

  for (size_t i = 0; i < size; i++) {
    if (atomic_load(&p->changing)) { /* the rest goes at once */
      forward(pair, to, data + i, size - i, 0);
      return;
    }
    forward(pair, to, data + i, 1, 0);
    usleep(us);
  }
}

static void pass_on(struct pair *pair, int from, const char *data, size_t size) {
  struct redis_proxy *p = pair->proxy;

  if (pair->dead)
    return;
  switch (p->fault) {
  case PROXY_DELAY:
    forward(pair, !from, data, size, 200);
    break;
  case PROXY_BYTES:
    forward_bytes(pair, !from, data, size, 20);
    break;
  case PROXY_SLOW_BYTES:
    if (from == SERVER)
      forward_bytes(pair, !from, data, size, 50000);
    else
      forward(pair, !from, data, size, 0);
    break;
  case PROXY_BLACK_HOLE:
    break;
  case PROXY_CUT:
    if (from == SERVER) {
      p->fault = PROXY_GOOD;
      close_pair(pair, true);
      break;
    }
    forward(pair, !from, data, size, 0);
    break;
  default:
    forward(pair, !from, data, size, 0);
  }
}

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *buf) {
  const struct side *side = handle->data;
  struct redis_proxy *p = side->pair->proxy;

  (void)size;
  *buf = uv_buf_init(p->room, sizeof p->room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  struct side *side = stream->data;
  struct pair *pair = side->pair;

  if (n > 0)
    pass_on(pair, side == &pair->sides[SERVER], buf->base, (size_t)n);
  else if (n < 0 && (side == &pair->sides[CLIENT] ||
                     (!pair->dead && pair->proxy->fault != PROXY_BLACK_HOLE)))
    close_pair(pair, false);
  else if (n < 0)
    uv_read_stop(stream);
}

static void on_connected(uv_connect_t *connect, int status) {
  struct pair *pair = connect->data;

  if (pair->closing)
    return;
  if (status != 0) {
    close_pair(pair, true);
    return;
  }
  for (int i = 0; i < 2; i++) {
    uv_tcp_nodelay(&pair->sides[i].tcp, 1);
    check(uv_read_start((uv_stream_t *)&pair->sides[i].tcp, on_room, on_read), "read");
  }
}

static void on_connection(uv_stream_t *listener, int status) {
  struct redis_proxy *p = listener->data;
  struct pair *pair = calloc(1, sizeof *pair);
  struct sockaddr_in address;

  if (status != 0 || pair == NULL)
    abort();
  pair->proxy = p;
  pair->open = 2;
  pair->next = p->pairs;
  p->pairs = pair;
  for (int i = 0; i < 2; i++) {
    uv_tcp_init(&p->loop, &pair->sides[i].tcp);
    pair->sides[i].tcp.data = &pair->sides[i];
    pair->sides[i].pair = pair;
  }
  check(uv_accept(listener, (uv_stream_t *)&pair->sides[CLIENT].tcp), "accept");
  atomic_fetch_add(&p->accepted, 1);
  if (p->fault == PROXY_RESET) {
    close_pair(pair, true);
    return;
  }
  uv_ip4_addr("127.0.0.1", p->to_port, &address);
  pair->connect.data = pair;
  check(uv_tcp_connect(&pair->connect, &pair->sides[SERVER].tcp, (struct sockaddr *)&address,
                       on_connected),
        "connect");
}

/* ---------------------------------------------------------------------- faults --- */

static void start_listening(struct redis_proxy *p) {
  struct sockaddr_in address;

  if (p->listening)
    return;
  p->listening = true;
  uv_ip4_addr("127.0.0.1", p->port, &address);
  check(uv_tcp_init(&p->loop, &p->listener), "listener");
  p->listener.data = p;
  check(uv_tcp_bind(&p->listener, (struct sockaddr *)&address, 0), "bind");
  check(uv_listen((uv_stream_t *)&p->listener, 100, on_connection), "listen");
}

static void on_listener_closed(uv_handle_t *listener) {
  struct redis_proxy *p = listener->data;

  uv_sem_post(&p->done);
}

static void close_pairs(struct redis_proxy *p, bool reset) {
  struct pair *pair = p->pairs, *next;

  for (; pair != NULL; pair = next) {
    next = pair->next;
    close_pair(pair, reset);
  }
}

static void on_async(uv_async_t *async) {
  struct redis_proxy *p = async->data;
  int wanted = atomic_load(&p->wanted);

  atomic_store(&p->changing, false);
  p->fault = wanted == STOP ? PROXY_REFUSE : (enum redis_fault)wanted;
  if (wanted == STOP)
    uv_close((uv_handle_t *)async, NULL);
  if (p->fault == PROXY_HALF_OPEN)
    for (struct pair *pair = p->pairs; pair != NULL; pair = pair->next)
      pair->dead = true;
  if (p->fault == PROXY_REFUSE || p->fault == PROXY_RESET)
    close_pairs(p, p->fault == PROXY_RESET);
  if (p->fault == PROXY_REFUSE && p->listening) {
    p->listening = false;
    uv_close((uv_handle_t *)&p->listener, on_listener_closed);
    return;
  }
  if (p->fault != PROXY_REFUSE)
    start_listening(p);
  uv_sem_post(&p->done);
}

static void run(void *arg) {
  struct redis_proxy *p = arg;
  sigset_t set;

  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  start_listening(p);
  uv_sem_post(&p->done);
  uv_run(&p->loop, UV_RUN_DEFAULT);
}

static void say(struct redis_proxy *p, int wanted) {
  atomic_store(&p->wanted, wanted);
  atomic_store(&p->changing, true);
  check(uv_async_send(&p->async), "async");
}

void redis_proxy_set(struct redis_proxy *p, enum redis_fault fault) {
  say(p, (int)fault);
  uv_sem_wait(&p->done);
}

void redis_proxy_lead(struct redis_proxy *p, int to_port) {
  redis_proxy_set(p, PROXY_REFUSE); /* then the thread does not read to_port */
  p->to_port = to_port;
  redis_proxy_set(p, PROXY_GOOD);
}

struct redis_proxy *redis_proxy_start(int to_port) {
  struct redis_proxy *p = calloc(1, sizeof *p);

  if (p == NULL)
    abort();
  p->to_port = to_port;
  p->port = free_port();
  check(uv_loop_init(&p->loop), "loop");
  p->loop.data = p;
  check(uv_sem_init(&p->done, 0), "semaphore");
  check(uv_async_init(&p->loop, &p->async, on_async), "async");
  p->async.data = p;
  check(uv_thread_create(&p->thread, run, p), "thread");
  uv_sem_wait(&p->done);
  return p;
}

int redis_proxy_port(const struct redis_proxy *p) {
  return p->port;
}

int redis_proxy_connections(struct redis_proxy *p) {
  return atomic_load(&p->accepted);
}

void redis_proxy_stop(struct redis_proxy *p) {
  say(p, STOP);
  check(uv_thread_join(&p->thread), "join");
  check(uv_loop_close(&p->loop), "close");
  uv_sem_destroy(&p->done);
  free(p);
}
