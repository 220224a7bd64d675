/* SPDX-License-Identifier: MIT
 *
 * bench-amqp URL FOLDER [N]: delayed messages through the bridge, beside the raw rate of the same
 * broker with the same client (rabbitmq-c, publisher confirms, persistent messages of 128 bytes).
 *
 *   raw     one thread publishes N messages with at most 500 unconfirmed, another consumes them
 *   bridge  the same, but to an intake, with a delay of 1 ms; the messages come out of the target
 *
 * The bridge runs in this process. Both rates are from the first publish to the last delivery. The
 * broker is one that may be filled with queues named bench.*; bench/amqp starts one.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <amqp_tcp_socket.h>
#include <uvsched/jobs_amqp.h>

#define MUST(condition) must(condition, #condition, __LINE__)
#define ROUNDS 3

static void must(int ok, const char *what, int line) {
  if (ok)
    return;
  fprintf(stderr, "bench-amqp: line %d: %s\n", line, what);
  exit(1);
}

static char *url;
static long n_messages = 50000;

static amqp_connection_state_t connect_now(void) {
  amqp_connection_state_t c = amqp_new_connection();
  struct amqp_connection_info info;
  char *copy = strdup(url);

  MUST(c != NULL && copy != NULL);
  amqp_default_connection_info(&info);
  MUST(amqp_parse_url(copy, &info) == AMQP_STATUS_OK);
  MUST(amqp_socket_open(amqp_tcp_socket_new(c), info.host, info.port) == AMQP_STATUS_OK);
  MUST(amqp_login(c, info.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, info.user, info.password)
           .reply_type == AMQP_RESPONSE_NORMAL);
  amqp_channel_open(c, 1);
  MUST(amqp_get_rpc_reply(c).reply_type == AMQP_RESPONSE_NORMAL);
  free(copy);
  return c;
}

static void disconnect(amqp_connection_state_t c) {
  amqp_connection_close(c, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(c);
}

/* --------------------------------------------------------------- consumer --- */

static uv_sem_t consuming;

static void consume(void *arg) {
  amqp_connection_state_t c = connect_now();
  amqp_envelope_t e;

  (void)arg;
  amqp_basic_qos(c, 1, 0, 1000, 0);
  amqp_basic_consume(c, 1, amqp_cstring_bytes("bench.q"), amqp_empty_bytes, 0, 0, 0,
                     amqp_empty_table);
  MUST(amqp_get_rpc_reply(c).reply_type == AMQP_RESPONSE_NORMAL);
  uv_sem_post(&consuming);
  for (long i = 1; i <= n_messages; i++) {
    amqp_maybe_release_buffers(c);
    MUST(amqp_consume_message(c, &e, NULL, 0).reply_type == AMQP_RESPONSE_NORMAL);
    if (i % 100 == 0 || i == n_messages)
      MUST(amqp_basic_ack(c, 1, e.delivery_tag, 1) == 0);
    amqp_destroy_envelope(&e);
  }
  disconnect(c);
}

/* -------------------------------------------------------------- publisher --- */

/* Takes confirms until at most `max` are missing. */
static void wait_confirms(amqp_connection_state_t c, uint64_t sent, uint64_t *confirmed,
                          uint64_t max) {
  while (sent - *confirmed > max) {
    amqp_frame_t frame;

    MUST(amqp_simple_wait_frame(c, &frame) == AMQP_STATUS_OK);
    MUST(frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD);
    *confirmed = ((amqp_basic_ack_t *)frame.payload.method.decoded)->delivery_tag;
    amqp_maybe_release_buffers(c);
  }
}

static void publish(const char *exchange) {
  static char body[128];
  amqp_connection_state_t c = connect_now();
  amqp_table_entry_t delay;
  amqp_basic_properties_t p;
  uint64_t confirmed = 0;
  char id[30];

  amqp_confirm_select(c, 1);
  MUST(amqp_get_rpc_reply(c).reply_type == AMQP_RESPONSE_NORMAL);
  memset(&delay, 0, sizeof delay);
  delay.key = amqp_cstring_bytes("x-delay");
  delay.value.kind = AMQP_FIELD_KIND_I32;
  delay.value.value.i32 = 1;
  memset(&p, 0, sizeof p);
  p._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG;
  p.delivery_mode = 2;
  p.headers.num_entries = 1;
  p.headers.entries = &delay;
  for (long i = 1; i <= n_messages; i++) {
    snprintf(id, sizeof id, "%llx", (unsigned long long)uv_hrtime());
    p.message_id = amqp_cstring_bytes(id);
    MUST(amqp_basic_publish(c, 1, amqp_cstring_bytes(exchange), amqp_cstring_bytes("k"), 0, 0, &p,
                            (amqp_bytes_t){sizeof body, body}) == 0);
    wait_confirms(c, (uint64_t)i, &confirmed, 499);
  }
  wait_confirms(c, (uint64_t)n_messages, &confirmed, 0);
  disconnect(c);
}

/* Messages a second, from the first publish to the last delivery. */
static double measure(const char *exchange) {
  uv_thread_t consumer;
  uint64_t start_ns;
  double seconds;

  MUST(uv_sem_init(&consuming, 0) == 0);
  MUST(uv_thread_create(&consumer, consume, NULL) == 0);
  uv_sem_wait(&consuming);
  start_ns = uv_hrtime();
  publish(exchange);
  uv_thread_join(&consumer);
  seconds = (double)(uv_hrtime() - start_ns) / 1e9;
  uv_sem_destroy(&consuming);
  return (double)n_messages / seconds;
}

/* ------------------------------------------------------------------ bridge --- */

static struct bridge {
  uv_thread_t thread;
  uv_sem_t ready;
  uv_async_t stop;
  char store[600];
  uvs_t *s;
  uvs_jobs_t *jobs;
  uvs_jobs_amqp_t *amqp;
} bridge;

static void on_amqp_closed(uvs_jobs_amqp_t *amqp, void *arg) {
  (void)amqp;
  (void)arg;
  uvs_close(bridge.s, NULL);
}

static void on_jobs_closed(uvs_jobs_t *jobs, void *arg) {
  (void)jobs;
  (void)arg;
  MUST(uvs_jobs_amqp_close(bridge.amqp, on_amqp_closed, NULL) == 0);
}

static void on_stopped(uvs_jobs_amqp_t *amqp, void *arg) {
  (void)amqp;
  (void)arg;
  MUST(uvs_jobs_close(bridge.jobs, UVS_SEC(5), on_jobs_closed, NULL) == 0);
}

static void on_stop(uv_async_t *async) {
  uv_close((uv_handle_t *)async, NULL);
  MUST(uvs_jobs_amqp_stop(bridge.amqp, on_stopped, NULL) == 0);
}

static void on_event(uvs_jobs_amqp_t *amqp, int what, const char *text, void *arg) {
  (void)amqp;
  (void)arg;
  if (what == UVS_AMQP_INTAKE_UP)
    uv_sem_post(&bridge.ready);
  else if (what != UVS_AMQP_UP)
    fprintf(stderr, "bench-amqp: %s\n", text);
}

static void run_bridge(void *arg) {
  uvs_jobs_amqp_map_t map = {"bench.in", "bench.x"};
  uvs_jobs_amqp_intake_t intake;
  uvs_jobs_amqp_options_t o;
  uvs_jobs_options_t jo;
  uv_loop_t loop;
  char text[300];

  (void)arg;
  MUST(uv_loop_init(&loop) == 0);
  MUST(uv_async_init(&loop, &bridge.stop, on_stop) == 0);
  MUST(uvs_open(&loop, NULL, &bridge.s) == 0);
  uvs_jobs_options_init(&jo);
  jo.store = bridge.store;
  MUST(uvs_jobs_open(bridge.s, &jo, &bridge.jobs, text, sizeof text) == 0);
  uvs_jobs_amqp_options_init(&o);
  o.url = url;
  o.on_event = on_event;
  MUST(uvs_jobs_amqp_open(bridge.jobs, &o, &bridge.amqp, text, sizeof text) == 0);
  uvs_jobs_amqp_intake_init(&intake);
  intake.maps = &map;
  intake.n_maps = 1;
  MUST(uvs_jobs_amqp_intake(bridge.amqp, &intake, text, sizeof text) == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  MUST(uv_loop_close(&loop) == 0);
}

static void declare(void) {
  amqp_connection_state_t c = connect_now();

  amqp_exchange_declare(c, 1, amqp_cstring_bytes("bench.x"), amqp_cstring_bytes("topic"), 0, 1, 0,
                        0, amqp_empty_table);
  amqp_queue_declare(c, 1, amqp_cstring_bytes("bench.q"), 0, 1, 0, 0, amqp_empty_table);
  amqp_queue_bind(c, 1, amqp_cstring_bytes("bench.q"), amqp_cstring_bytes("bench.x"),
                  amqp_cstring_bytes("#"), amqp_empty_table);
  MUST(amqp_get_rpc_reply(c).reply_type == AMQP_RESPONSE_NORMAL);
  disconnect(c);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  double raw[ROUNDS], through[ROUNDS];

  MUST(argc >= 3);
  url = argv[1];
  snprintf(bridge.store, sizeof bridge.store, "sqlite:%s/bench-amqp.db", argv[2]);
  if (argc > 3)
    n_messages = strtol(argv[3], NULL, 10);
  MUST(n_messages > 0);
  declare();
  MUST(uv_sem_init(&bridge.ready, 0) == 0);
  MUST(uv_thread_create(&bridge.thread, run_bridge, NULL) == 0);
  uv_sem_wait(&bridge.ready);
  for (int i = 0; i < ROUNDS; i++) { /* in turn, so that a busy machine slows down both */
    raw[i] = measure("bench.x");
    through[i] = measure("bench.in");
    printf("round %d: raw %.0f/s, through the bridge %.0f/s\n", i + 1, raw[i], through[i]);
    fflush(stdout);
  }
  uv_async_send(&bridge.stop);
  uv_thread_join(&bridge.thread);
  qsort(raw, ROUNDS, sizeof *raw, compare);
  qsort(through, ROUNDS, sizeof *through, compare);
  printf("raw publish and consume          %8.0f/s\n", raw[ROUNDS / 2]);
  printf("delayed, through the bridge      %8.0f/s   %.2f x raw\n", through[ROUNDS / 2],
         through[ROUNDS / 2] / raw[ROUNDS / 2]);
  return 0;
}
