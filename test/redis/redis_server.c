/* SPDX-License-Identifier: MIT */
#include "redis_server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uv.h>

#define ANSWERS_S 60 /* a server that does not answer for so long is broken */

static struct redis_server *all;
static redisReply *last_reply;

static void fail(const char *what) {
  fprintf(stderr, "redis_server: %s\n", what);
  abort();
}

void redis_server_need(void) {
  if (system("command -v redis-server >/dev/null 2>&1") == 0)
    return;
  puts("skipped: redis-server is not installed\nPass: 0, fail: 0, skip: 1.");
  exit(0);
}

int free_port(void) {
  struct sockaddr_in address;
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  uv_ip4_addr("127.0.0.1", 0, &address);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &size) != 0)
    fail("no free port");
  close(fd);
  return ntohs(address.sin_port);
}

/* --------------------------------------------------------------------- asking --- */

static bool try_connect(struct redis_server *s) {
  struct timeval limit = {ANSWERS_S, 0};

  if (s->c != NULL)
    redisFree(s->c);
  s->c = redisConnectWithTimeout("127.0.0.1", s->port, limit);
  if (s->c == NULL || s->c->err != 0)
    return false;
  redisSetTimeout(s->c, limit);
  return true;
}

/* Once more if the connection was lost: a server that is promoted closes all. */
static const redisReply *ask(struct redis_server *s, const char *format, va_list arguments) {
  if (last_reply != NULL)
    freeReplyObject(last_reply);
  last_reply = NULL;
  for (int i = 0; i < 2 && last_reply == NULL; i++) {
    va_list copy;

    if ((s->c == NULL || s->c->err != 0) && !try_connect(s))
      fail("cannot connect");
    va_copy(copy, arguments);
    last_reply = redisvCommand(s->c, format, copy);
    va_end(copy);
  }
  if (last_reply == NULL) {
    fprintf(stderr, "%s: %s\n", format, s->c->errstr);
    fail("no reply");
  }
  return last_reply;
}

const redisReply *redis_ask(struct redis_server *s, const char *format, ...) {
  const redisReply *reply;
  va_list arguments;

  va_start(arguments, format);
  reply = ask(s, format, arguments);
  va_end(arguments);
  return reply;
}

long long redis_ask_number(struct redis_server *s, const char *format, ...) {
  const redisReply *reply;
  va_list arguments;

  va_start(arguments, format);
  reply = ask(s, format, arguments);
  va_end(arguments);
  return reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}

/* ------------------------------------------------------------------ the process --- */

static void kill_all(void) {
  for (struct redis_server *s = all; s != NULL; s = s->next)
    if (s->pid > 0)
      kill(s->pid, SIGKILL);
  while (all != NULL)
    redis_server_stop(all);
}

/* Waits until the server says PONG. False: the process has ended, for its port was taken. */
static bool wait_for_answer(struct redis_server *s) {
  for (int i = 0; i < ANSWERS_S * 100; i++) {
    redisReply *reply = try_connect(s) ? redisCommand(s->c, "PING") : NULL;
    bool good = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    bool refused = reply != NULL && strncmp(reply->str, "NOAUTH", 6) == 0;

    if (reply != NULL)
      freeReplyObject(reply);
    if (good || refused)
      return true;
    if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
      s->pid = 0;
      return false;
    }
    usleep(10000);
  }
  fail("the server does not answer");
  return false;
}

static void run(struct redis_server *s) {
  char port[16], *words[64] = {"redis-server"};
  pid_t parent = getpid();
  int n = 1;

  snprintf(port, sizeof port, "%d", s->port);
  if (s->sentinel) {
    static char file[300];

    snprintf(file, sizeof file, "%s/sentinel.conf", s->folder);
    words[n++] = file;
    words[n++] = "--sentinel";
  } else {
    char *const usual[] = {
        "--port",        port,      "--bind",      "127.0.0.1", "--unixsocket", s->socket,
        "--dir",         s->folder, "--save",      "",          "--appendonly", "yes",
        "--appendfsync", "always",  "--daemonize", "no",        "--loglevel",   "warning"};

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
      words[n++] = usual[i];
    for (int i = 0; i < s->n_options; i++)
      words[n++] = s->options[i];
  }
  s->pid = fork();
  if (s->pid < 0)
    fail("fork");
  if (s->pid > 0)
    return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  if (chdir(s->folder) != 0)
    _exit(1);
  freopen("log", "a", stdout);
  dup2(1, 2);
  execvp(words[0], words);
  _exit(1);
}

static void write_sentinel_file(const struct redis_server *s, const struct redis_server *master) {
  char path[300];
  FILE *f;

  snprintf(path, sizeof path, "%s/sentinel.conf", s->folder);
  f = fopen(path, "w");
  if (f == NULL)
    fail("no sentinel.conf");
  fprintf(f,
          "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor jobs 127.0.0.1 %d 1\n"
          "sentinel down-after-milliseconds jobs 1000\nsentinel failover-timeout jobs 3000\n",
          s->port, s->folder, master->port);
  fclose(f);
}

static struct redis_server *make(void) {
  struct redis_server *s = calloc(1, sizeof *s);
  size_t size = sizeof s->folder - 20;

  if (s == NULL || uv_os_tmpdir(s->folder, &size) != 0)
    fail("no folder");
  strcat(s->folder, "/uvs-redis-XXXXXX");
  if (mkdtemp(s->folder) == NULL)
    fail("no folder");
  snprintf(s->socket, sizeof s->socket, "%s/redis.sock", s->folder);
  if (all == NULL)
    atexit(kill_all);
  s->next = all;
  all = s;
  return s;
}

struct redis_server *redis_server_start(const char *options) {
  struct redis_server *s = make();
  const char *at = options == NULL ? "" : options;

  while (*at != '\0') {
    size_t length = strcspn(at, " ");

    if (s->n_options == 20 || length >= sizeof s->options[0])
      fail("too many options");
    memcpy(s->options[s->n_options++], at, length);
    at += length + (at[length] == ' ');
  }
  do {
    s->port = free_port();
    run(s);
  } while (!wait_for_answer(s));
  return s;
}

struct redis_server *redis_sentinel_start(const struct redis_server *master) {
  struct redis_server *s = make();

  s->sentinel = true;
  do {
    s->port = free_port();
    write_sentinel_file(s, master);
    run(s);
  } while (!wait_for_answer(s));
  return s;
}

static void end_process(struct redis_server *s, int signal) {
  if (s->pid == 0)
    return;
  kill(s->pid, signal);
  waitpid(s->pid, NULL, 0);
  s->pid = 0;
  if (s->c != NULL)
    redisFree(s->c);
  s->c = NULL;
}

void redis_server_kill(struct redis_server *s) {
  end_process(s, SIGKILL);
}

void redis_server_restart(struct redis_server *s) {
  run(s);
  if (!wait_for_answer(s))
    fail("the server does not start again");
}

void redis_server_restart_loading(struct redis_server *s) {
  run(s);
  while (!try_connect(s))
    usleep(1000);
}

void redis_server_pause(struct redis_server *s) {
  kill(s->pid, SIGSTOP);
}

void redis_server_resume(struct redis_server *s) {
  kill(s->pid, SIGCONT);
}

void redis_server_stop(struct redis_server *s) {
  struct redis_server **at = &all;
  char command[300];

  end_process(s, SIGKILL);
  while (*at != s)
    at = &(*at)->next;
  *at = s->next;
  snprintf(command, sizeof command, "rm -rf '%s'", s->folder);
  if (system(command) != 0)
    fail("the folder cannot be removed");
  if (last_reply != NULL)
    freeReplyObject(last_reply);
  last_reply = NULL;
  free(s);
}
