/* SPDX-License-Identifier: MIT
 *
 * A shop confirms each order 15 days after it took the order, although the shop is killed twice. A
 * day takes 50 ms here.
 *
 *   orders                    the story: opens the shop, and kills it with SIGKILL
 *   orders shop FILE NUMBER   the shop: takes orders, beginning with this number
 *
 * Each kill comes after a letter was sent and before its job has ended. So that job runs again, and
 * its letter is sent twice. All other letters are sent once, and none is missing. */
#include <signal.h>
#include <sys/wait.h>
#include <uvsched/jobs.h>

#include "expect.h"
#include "scratch.h"

#define ORDERS 20
#define DAY_MS 50
#define DAY_NS UVS_MS(DAY_MS)

/* ----------------------------------------------------------------- the shop --- */

static struct {
  uvs_t *s;
  uvs_jobs_t *jobs;
  int number; /* of the next order */
  uv_timer_t customer;
  uv_signal_t evening;
} shop;

/* Pool thread. Sends the letter, and then works for another day. */
static int confirm(uvs_job_t *job) {
  uv_timeval64_t now;
  double days;

  EXPECT(uv_gettimeofday(&now) == 0);
  days = (double)(UVS_SEC(now.tv_sec) + UVS_US(now.tv_usec) - job->put_ns) / DAY_NS;
  EXPECT(days >= 15); /* never early */
  printf("confirmed %.*s %.1f\n", (int)job->payload_size, (const char *)job->payload, days);
  uv_sleep(DAY_MS);
  return 0;
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *result, size_t n, void *arg);

static void take_order(uv_timer_t *timer) {
  uvs_job_spec_t spec;
  char number[12];

  (void)timer;
  snprintf(number, sizeof number, "%d", shop.number);
  uvs_job_spec_init(&spec);
  spec.name = "confirm-order";
  spec.id = number; /* if a customer sends the same order again, it is still one job */
  spec.delay_ns = 15 * DAY_NS;
  spec.payload = number;
  spec.payload_size = strlen(number);
  EXPECT(uvs_jobs_put(shop.jobs, &spec, on_put, NULL) == 0);
}

/* Loop thread. The job is on the disk, so the shop may tell the customer that it took the order. */
static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *result, size_t n, void *arg) {
  (void)jobs, (void)n, (void)arg;
  EXPECT(result->status == 0 || result->status == UVS_JOB_EXISTS);
  printf("taken %d\n", shop.number);
  if (shop.number++ < ORDERS)
    uv_timer_start(&shop.customer, take_order, 2 * DAY_MS, 0);
}

static void on_jobs_closed(uvs_jobs_t *jobs, void *arg) {
  (void)jobs, (void)arg;
  uvs_close(shop.s, NULL);
}

static void close_shop(uv_signal_t *evening, int signum) {
  (void)signum;
  uv_close((uv_handle_t *)evening, NULL);
  uv_close((uv_handle_t *)&shop.customer, NULL);
  EXPECT(uvs_jobs_close(shop.jobs, UVS_SEC(60), on_jobs_closed, NULL) == 0);
}

static int keep_shop(const char *file, int number) {
  uv_loop_t *loop = uv_default_loop();
  uvs_jobs_options_t o;
  uvs_job_handler_t h;
  char store[300], why[200];

  setvbuf(stdout, NULL, _IOLBF, 0);
  snprintf(store, sizeof store, "sqlite:%s", file);
  uvs_jobs_options_init(&o);
  o.store = store;
  uvs_job_handler_init(&h);
  h.concurrency = 1;
  shop.number = number;
  EXPECT(uvs_open(loop, NULL, &shop.s) == 0);
  if (uvs_jobs_open(shop.s, &o, &shop.jobs, why, sizeof why) != 0) {
    fprintf(stderr, "orders: %s\n", why);
    return 1;
  }
  EXPECT(uvs_jobs_handle(shop.jobs, "confirm-order", confirm, NULL, &h) == 0);
  EXPECT(uv_timer_init(loop, &shop.customer) == 0);
  EXPECT(uv_signal_init(loop, &shop.evening) == 0);
  EXPECT(uv_signal_start(&shop.evening, close_shop, SIGTERM) == 0);
  if (number <= ORDERS)
    take_order(&shop.customer);
  uv_run(loop, UV_RUN_DEFAULT);
  return uv_loop_close(loop) != 0;
}

/* ---------------------------------------------------------------- the story --- */

static struct {
  uint64_t began_ns;
  int taken, confirmed, again;
  int letters[ORDERS + 1]; /* for each order */
} story;

static void tell(const char *what, int order, const char *more) {
  printf("day %5.1f   ", (double)(uv_hrtime() - story.began_ns) / DAY_NS);
  printf(what, order);
  printf("%s\n", more);
}

/* Reads a line of the shop. Returns the number of the order that was confirmed, or 0. */
static int hear(const char *line) {
  char more[80] = "";
  double days;
  int order;

  if (sscanf(line, "taken %d", &order) == 1) {
    EXPECT(order == ++story.taken);
    tell("order %d is taken", order, more);
    return 0;
  }
  EXPECT(sscanf(line, "confirmed %d %lf", &order, &days) == 2 && order >= 1 && order <= ORDERS);
  snprintf(more, sizeof more, ", after %.1f days%s", days,
           story.letters[order] > 0 ? ", once more" : "");
  tell("         order %d is confirmed", order, more);
  if (story.letters[order]++ == 0)
    story.confirmed++;
  else
    story.again++;
  return order;
}

/* Opens the shop, and sends it a signal when this many orders are confirmed. */
static void run_shop(const char *file, int until, int signum) {
  char self[1000], number[12], line[100];
  size_t size = sizeof self;
  int fds[2], order, status, sent = 0;
  FILE *says;
  pid_t pid;

  EXPECT(uv_exepath(self, &size) == 0 && pipe(fds) == 0);
  snprintf(number, sizeof number, "%d", story.taken + 1);
  fflush(stdout);
  pid = fork();
  EXPECT(pid >= 0);
  if (pid == 0) {
    dup2(fds[1], STDOUT_FILENO);
    close(fds[0]);
    close(fds[1]);
    execl(self, self, "shop", file, number, (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  says = fdopen(fds[0], "r");
  while (fgets(line, sizeof line, says) != NULL) {
    order = hear(line);
    if (sent || story.confirmed < until || (signum == SIGTERM && story.taken < ORDERS))
      continue;
    EXPECT(kill(pid, signum) == 0);
    sent = 1;
    if (signum == SIGKILL)
      tell("the shop is KILLED while it works on order %d", order, "");
  }
  fclose(says);
  EXPECT(waitpid(pid, &status, 0) == pid && sent);
  EXPECT(signum == SIGKILL ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv) {
  char folder[200], file[240];

  if (argc == 4)
    return keep_shop(argv[2], atoi(argv[3]));
  setvbuf(stdout, NULL, _IOLBF, 0);
  make_scratch(folder, sizeof folder);
  snprintf(file, sizeof file, "%s/shop.db", folder);
  printf("A shop confirms each order 15 days after it took the order. A day takes %d ms here.\n\n",
         DAY_MS);
  story.began_ns = uv_hrtime();
  tell("the shop opens", 0, "");
  run_shop(file, 5, SIGKILL);
  uv_sleep(10 * DAY_MS);
  tell("the shop opens again", 0, "");
  run_shop(file, 12, SIGKILL);
  uv_sleep(10 * DAY_MS);
  tell("the shop opens again", 0, "");
  run_shop(file, ORDERS, SIGTERM);
  tell("the shop closes", 0, "");

  printf("\n%d orders taken, shop killed twice, %d confirmed, %d of them twice (their jobs were"
         " running at the kills)\n",
         story.taken, story.confirmed, story.again);
  EXPECT(story.taken == ORDERS && story.confirmed == ORDERS);
  EXPECT(story.again <= 2); /* one job at a time, and two kills */
  remove_scratch(folder);
  return 0;
}
