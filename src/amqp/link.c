/* SPDX-License-Identifier: MIT */
#include "amqp/link.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>

#include "amqp/headers.h"

#define CONNECT_S 5
#define ANSWER_S 10
#define HEARTBEAT_S 30
#define FRAME_MAX 131072
#define WAIT_MIN_MS 50u
#define WAIT_MAX_MS 5000u

/* --------------------------------------------------------------------- life --- */

int uvs__link_init(struct uvs__link *l, const struct uvs__amqp_address *address,
                   const char *purpose) {
  int rc;

  memset(l, 0, sizeof *l);
  l->address = address;
  l->purpose = purpose;
  l->fd = -1;
  rc = uv_mutex_init(&l->lock);
  if (rc != 0)
    return rc;
  rc = uv_pipe(l->wake, UV_NONBLOCK_PIPE, UV_NONBLOCK_PIPE);
  if (rc != 0)
    uv_mutex_destroy(&l->lock);
  return rc;
}

void uvs__link_destroy(struct uvs__link *l) {
  uvs__link_drop(l, false);
  close(l->wake[0]);
  close(l->wake[1]);
  uv_mutex_destroy(&l->lock);
}

void uvs__link_busy(struct uvs__link *l) {
  /* Relaxed: the loop thread only compares it with the time, seconds later. */
  atomic_store_explicit(&l->busy_ns, uv_hrtime(), memory_order_relaxed);
}

void uvs__link_idle(struct uvs__link *l) {
  atomic_store_explicit(&l->busy_ns, 0, memory_order_relaxed);
}

/* ------------------------------------------------------------------- errors --- */

void uvs__link_close_text(uint16_t code, amqp_bytes_t text, char *ret, size_t size) {
  snprintf(ret, size, "%u %.*s", (unsigned)code, text.len > 250 ? 250 : (int)text.len,
           text.bytes == NULL ? "" : (const char *)text.bytes);
  for (char *p = ret; *p != '\0'; p++)
    if ((unsigned char)*p < ' ' || *p == 0x7f)
      *p = '?';
}

static void failed(struct uvs__link *l, const char *what, int status) {
  snprintf(l->error, sizeof l->error, "%s: %s", what, amqp_error_string2(status));
}

/* The broker closes the connection. 320 (the broker shuts down) and 541 (the broker fails) were not
 * caused by this program. */
static void closed_by_broker(struct uvs__link *l, const amqp_connection_close_t *close) {
  l->refused = close->reply_code != AMQP_CONNECTION_FORCED && close->reply_code < 530;
  uvs__link_close_text(close->reply_code, close->reply_text, l->error, sizeof l->error);
}

bool uvs__link_sent(struct uvs__link *l, int status) {
  if (status >= 0)
    return true;
  failed(l, "the connection was lost", status);
  return false;
}

int uvs__link_answer(struct uvs__link *l, amqp_channel_t channel, const char *what) {
  amqp_rpc_reply_t r = amqp_get_rpc_reply(l->state);
  const amqp_channel_close_t *close = r.reply.decoded;
  amqp_channel_close_ok_t ok;

  memset(&ok, 0, sizeof ok);
  if (r.reply_type == AMQP_RESPONSE_NORMAL)
    return 0;
  if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && r.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
    int code = close->reply_code;

    uvs__link_close_text(close->reply_code, close->reply_text, l->error, sizeof l->error);
    if (!uvs__link_sent(l, amqp_send_method(l->state, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok)))
      return -1;
    return code;
  }
  if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && r.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
    closed_by_broker(l, r.reply.decoded);
  else
    failed(l, what,
           r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION ? r.library_error
                                                           : AMQP_STATUS_UNEXPECTED_STATE);
  return -1;
}

/* ------------------------------------------------------------------ connect --- */

static amqp_table_entry_t entry(const char *name, amqp_field_value_t value) {
  amqp_table_entry_t e = {uvs__amqp_text(name), value};

  return e;
}

static bool log_in(struct uvs__link *l) {
  const struct amqp_connection_info *info = &l->address->info;
  amqp_table_entry_t capabilities[4], properties[3];
  amqp_field_value_t yes, table;
  amqp_table_t all = {3, properties};
  amqp_rpc_reply_t r;

  memset(&yes, 0, sizeof yes);
  memset(&table, 0, sizeof table);
  yes.kind = AMQP_FIELD_KIND_BOOLEAN;
  yes.value.boolean = 1;
  capabilities[0] = entry("consumer_cancel_notify", yes);
  capabilities[1] = entry("connection.blocked", yes);
  capabilities[2] = entry("publisher_confirms", yes);
  capabilities[3] = entry("basic.nack", yes);
  table.kind = AMQP_FIELD_KIND_TABLE;
  table.value.table.num_entries = 4;
  table.value.table.entries = capabilities;
  properties[0] = entry("product", uvs__amqp_string("uvsched"));
  properties[1] = entry("connection_name", uvs__amqp_string(l->purpose));
  properties[2] = entry("capabilities", table);
  r = amqp_login_with_properties(l->state, info->vhost, 0, FRAME_MAX, HEARTBEAT_S, &all,
                                 AMQP_SASL_METHOD_PLAIN, info->user, info->password);
  if (r.reply_type == AMQP_RESPONSE_NORMAL)
    return true;
  if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && r.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
    closed_by_broker(l, r.reply.decoded);
  else
    failed(l, "cannot log in",
           r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION ? r.library_error
                                                           : AMQP_STATUS_UNEXPECTED_STATE);
  return false;
}

static amqp_socket_t *make_socket(struct uvs__link *l) {
  amqp_socket_t *socket;

  if (!l->address->info.ssl)
    return amqp_tcp_socket_new(l->state);
  socket = amqp_ssl_socket_new(l->state);
  if (socket == NULL)
    return NULL;
  amqp_ssl_socket_set_verify_peer(socket, 1);
  amqp_ssl_socket_set_verify_hostname(socket, 1);
  amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
  if (amqp_ssl_socket_set_cacert(socket, l->address->ca_file) != AMQP_STATUS_OK) {
    snprintf(l->error, sizeof l->error, "the certificates of %.200s cannot be read",
             l->address->ca_file);
    return NULL;
  }
  return socket;
}

static bool open_socket(struct uvs__link *l) {
  struct timeval connect = {CONNECT_S, 0}, answer = {ANSWER_S, 0};
  amqp_socket_t *socket;
  int rc;

  failed(l, "cannot connect", AMQP_STATUS_NO_MEMORY);
  l->state = amqp_new_connection();
  if (l->state == NULL)
    return false;
  socket = make_socket(l);
  if (socket == NULL)
    return false;
  amqp_set_handshake_timeout(l->state, &connect);
  amqp_set_rpc_timeout(l->state, &answer);
  rc = amqp_socket_open_noblock(socket, l->address->info.host, l->address->info.port, &connect);
  if (rc != AMQP_STATUS_OK) {
    failed(l, "cannot connect", rc);
    return false;
  }
  uv_mutex_lock(&l->lock);
  l->fd = amqp_get_sockfd(l->state);
  uv_mutex_unlock(&l->lock);
  return true;
}

bool uvs__link_connect(struct uvs__link *l) {
  bool connected;

  l->refused = false;
  uvs__link_busy(l);
  connected = open_socket(l) && log_in(l);
  uvs__link_idle(l);
  if (!connected)
    uvs__link_drop(l, false);
  return connected;
}

void uvs__link_drop(struct uvs__link *l, bool politely) {
  struct timeval brief = {1, 0};

  if (l->state == NULL)
    return;
  if (politely) {
    uvs__link_busy(l);
    amqp_set_rpc_timeout(l->state, &brief);
    amqp_connection_close(l->state, AMQP_REPLY_SUCCESS);
    uvs__link_idle(l);
  }
  uv_mutex_lock(&l->lock);
  l->fd = -1;
  uv_mutex_unlock(&l->lock);
  amqp_destroy_connection(l->state);
  l->state = NULL;
}

/* --------------------------------------------------------------------- wait --- */

void uvs__link_wake(struct uvs__link *l) {
  ssize_t n = write(l->wake[1], "", 1);

  (void)n; /* a full pipe wakes the thread, too */
}

void uvs__link_break(struct uvs__link *l) {
  uv_mutex_lock(&l->lock);
  if (l->fd >= 0)
    shutdown(l->fd, SHUT_RDWR);
  uv_mutex_unlock(&l->lock);
}

void uvs__link_wait(struct uvs__link *l, bool broker, int timeout_ms) {
  struct pollfd fds[2] = {{l->wake[0], POLLIN, 0}, {-1, POLLIN, 0}};
  char bytes[64];

  if (broker && l->state != NULL) {
    if (amqp_frames_enqueued(l->state) || amqp_data_in_buffer(l->state))
      timeout_ms = 0;
    fds[1].fd = amqp_get_sockfd(l->state);
  }
  if (poll(fds, 2, timeout_ms) > 0 && fds[0].revents != 0)
    while (read(l->wake[0], bytes, sizeof bytes) > 0)
      ;
}

int uvs__link_next(struct uvs__link *l, amqp_frame_t *ret) {
  static const struct timeval now = {0, 0};
  int rc = amqp_simple_wait_frame_noblock(l->state, ret, &now);

  if (rc == AMQP_STATUS_TIMEOUT)
    return 0;
  if (rc != AMQP_STATUS_OK) {
    failed(l, "the connection was lost", rc);
    return -1;
  }
  if (ret->frame_type == AMQP_FRAME_METHOD &&
      ret->payload.method.id == AMQP_CONNECTION_CLOSE_METHOD) {
    amqp_connection_close_ok_t ok;

    memset(&ok, 0, sizeof ok);
    closed_by_broker(l, ret->payload.method.decoded);
    amqp_send_method(l->state, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
    return -1;
  }
  return 1;
}

void uvs__link_release(struct uvs__link *l, amqp_channel_t channel) {
  amqp_maybe_release_buffers_on_channel(l->state, channel);
}

int uvs__backoff_next(struct uvs__backoff *b) {
  unsigned wait = b->wait_ms == 0 ? WAIT_MIN_MS : b->wait_ms;
  unsigned random = 0;

  b->wait_ms = wait * 2 > WAIT_MAX_MS ? WAIT_MAX_MS : wait * 2;
  (void)uv_random(NULL, NULL, &random, sizeof random, 0, NULL);
  return (int)(wait - random % (wait / 4 + 1));
}
