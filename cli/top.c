/* SPDX-License-Identifier: MIT
 *
 * top: what a console (uvsched/console.h) shows, in a terminal.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "args.h"
#include "commands.h"
#include "http.h"
#include "json.h"
#include "text.h"

#define ROWS_ONCE 20
#define ROWS_MAX 200
#define ROOM 32         /* bytes of a cell */
#define CULPRITS_MAX 64 /* those behind them are not looked at */
#define NUMBER_MAX 1e18 /* larger numbers are shown as this one */
#define REFRESH_MS 1000

static const char help[] =
    "usage: uvsched top URL [--once] [--sort KEY] [-n ROWS]\n"
    "\n"
    "Shows the tasks of a running program that serves a console (uvsched/console.h), such as\n"
    "http://127.0.0.1:7788/.\n"
    "\n"
    "  --once       print once, as plain text, and exit; also if stdout is not a terminal\n"
    "  --sort KEY   late (default), name, due, runs or failures\n"
    "  -n ROWS      with --once: how many tasks; default 20, at most 200\n"
    "  --help       this text\n"
    "\n"
    "Keys: l late, n name, d due, r runs, f failures, o the other way round, q quit.\n"
    "If the console asks for its token, set the environment variable UVSCHED_TOKEN.\n";

static const char keys[] = "lndrf";
static const char *const sorts[] = {"late", "name", "due", "runs", "failures"};

struct view {
  struct cli_url url;
  const char *token;
  int sort;
  bool reversed;
  int rows;
};

/* ---- text ---- */

/* At most 7 characters: 1.23 ms, -12.3 s. */
static const char *duration(double ns, char ret[ROOM]) {
  static const struct {
    const char *name;
    double ns;
  } units[] = {{"d", 864e11}, {"h", 36e11}, {"m", 6e10}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}};
  double size = ns < 0 ? -ns : ns;

  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (size >= units[i].ns) {
      double n = ns / units[i].ns;

      snprintf(ret, ROOM, "%.*f%s",
               size / units[i].ns < 10    ? 2
               : size / units[i].ns < 100 ? 1
                                          : 0,
               n, units[i].name);
      return ret;
    }
  }
  snprintf(ret, ROOM, "%.0fns", ns);
  return ret;
}

/* At most 7 characters: 123456, 12.3M. No count is negative. */
static const char *amount(double n, char ret[ROOM]) {
  if (n < 1e6)
    snprintf(ret, ROOM, "%.0f", n < 0 ? 0 : n);
  else if (n < 1e12)
    snprintf(ret, ROOM, "%.*f%c", n < 1e7 || (n >= 1e9 && n < 1e10) ? 2 : 1,
             n < 1e9 ? n / 1e6 : n / 1e9, n < 1e9 ? 'M' : 'G');
  else
    snprintf(ret, ROOM, "%.0e", n);
  return ret;
}

static double value_of(const char *value) {
  double n = cli_json_number(value);

  return n > NUMBER_MAX ? NUMBER_MAX : n < -NUMBER_MAX ? -NUMBER_MAX : n;
}

static double number(const char *object, const char *key) {
  return value_of(cli_json_member(object, key));
}

static const char *text(const char *object, const char *key, char ret[ROOM]) {
  cli_json_text(cli_json_member(object, key), ret, ROOM);
  return ret;
}

/* ---- the head ---- */

/* The culprits with the most lateness come first. */
static void print_culprits(const char *stats) {
  double printed = 2 * NUMBER_MAX;

  printf("late because of:");
  for (int i = 0; i < 4; i++) {
    const char *most = NULL, *list = cli_json_member(stats, "culprits");
    char a[ROOM], b[ROOM];
    double most_ns = 0;
    int n = 0;

    for (const char *c = cli_json_first(list); c != NULL && n < CULPRITS_MAX;
         c = cli_json_next(c), n++) {
      double sum_ns = number(c, "sum_ns");

      if (sum_ns > most_ns && sum_ns < printed) {
        most = c;
        most_ns = sum_ns;
      }
    }
    if (most == NULL) {
      printf(i == 0 ? " nothing" : "");
      break;
    }
    printf("%s %s %s", i == 0 ? "" : ",", text(most, "name", a), duration(most_ns, b));
    printed = most_ns;
  }
  putchar('\n');
}

static void print_head(const struct view *v, const char *stats) {
  const char *counts = cli_json_member(stats, "counts"), *late = cli_json_member(stats, "late");
  const char *held = cli_json_member(stats, "held_up");
  char a[ROOM], b[ROOM], c[ROOM], d[ROOM];

  printf("uvsched %.23s at %.40s: %s%s\n", text(stats, "name", a), v->url.authority,
         text(stats, "state", b),
         cli_json_is_true(cli_json_member(stats, "paused")) ? ", paused" : "");
  printf("tasks: %s waiting, %s ready, %s running; oldest ready %s\n",
         amount(number(counts, "waiting"), a), amount(number(counts, "ready"), b),
         amount(number(counts, "running"), c), duration(number(stats, "oldest_ready_ns"), d));
  printf("runs: %s, %s failed, %s missed", amount(number(counts, "runs"), a),
         amount(number(counts, "failed_runs"), b), amount(number(counts, "missed"), c));
  printf("; runners: %s of %s busy\n", amount(number(counts, "runners"), a),
         amount(number(stats, "concurrency"), b));
  printf("late: p50 %s, p99 %s, max %s", duration(number(late, "p50_ns"), a),
         duration(number(late, "p99_ns"), b), duration(number(late, "max_ns"), c));
  printf("; loop held up: max %s\n", duration(number(held, "max_ns"), d));
  print_culprits(stats);
}

/* ---- the tasks ---- */

static void print_task(const char *task) {
  const char *due = cli_json_member(task, "due_in_ns");
  char name[ROOM], state[ROOM], cell[5][ROOM], culprit[ROOM];

  text(task, "name", name);
  if (name[0] == 0)
    text(task, "id", name);
  text(task, "state", state);
  if (cli_json_is_true(cli_json_member(task, "paused")))
    snprintf(state, sizeof state, "paused");
  text(task, "culprit", culprit);
  printf("%-23.23s %-7.7s %8s %7s %6s %7s %7s%s%s\n", name, state,
         cli_json_is_null(due) ? "never" : duration(value_of(due), cell[0]),
         amount(number(task, "runs"), cell[1]), amount(number(task, "failures"), cell[2]),
         number(task, "late_ns") > 0 ? duration(number(task, "late_ns"), cell[3]) : "-",
         number(task, "p99_late_ns") > 0 ? duration(number(task, "p99_late_ns"), cell[4]) : "-",
         culprit[0] == 0 ? "" : " ", culprit);
}

static void print_tasks(const struct view *v, const char *tasks, bool colours) {
  char more[ROOM];
  int n = 0;

  cli_set_colour(colours, CLI_BOLD);
  printf("%-23s %-7s %8s %7s %6s %7s %7s %s\n", "NAME", "STATE", "DUE IN", "RUNS", "FAILED", "LATE",
         "P99", "BECAUSE");
  cli_set_colour(colours, CLI_PLAIN);
  for (const char *t = cli_json_first(cli_json_member(tasks, "tasks")); t != NULL && n < v->rows;
       t = cli_json_next(t), n++)
    print_task(t);
  if (number(tasks, "matched") > n)
    printf("(%s more)\n", amount(number(tasks, "matched") - n, more));
}

/* Fetches and prints. False: `why` says why not. */
static bool show(const struct view *v, bool clear, bool colours, char *why, size_t size) {
  bool up = (v->sort == 1 || v->sort == 2) != v->reversed;
  const char *stats = NULL, *tasks = NULL;
  char path[100], *texts[2] = {NULL, NULL};

  snprintf(path, sizeof path, "/tasks.json?sort=%s&order=%s&limit=%d", sorts[v->sort],
           up ? "asc" : "desc", v->rows);
  texts[0] = cli_http_get(&v->url, "/stats.json", v->token, why, size);
  if (texts[0] != NULL)
    texts[1] = cli_http_get(&v->url, path, v->token, why, size);
  if (texts[1] != NULL) {
    stats = cli_json_read(texts[0]);
    tasks = cli_json_read(texts[1]);
    if (stats == NULL || tasks == NULL)
      snprintf(why, size, "%s did not answer as a console of uvsched", v->url.authority);
  }
  if (stats != NULL && tasks != NULL) {
    if (clear)
      fputs("\033[H\033[J", stdout);
    print_head(v, stats);
    putchar('\n');
    print_tasks(v, tasks, colours);
  }
  free(texts[0]);
  free(texts[1]);
  return stats != NULL && tasks != NULL;
}

/* ---- the terminal ---- */

static struct termios before;
static volatile sig_atomic_t stopped;

static void on_signal(int signum) {
  (void)signum;
  stopped = 1;
}

static void enter_terminal(void) {
  struct sigaction act = {.sa_handler = on_signal};
  struct termios raw;

  tcgetattr(STDIN_FILENO, &before);
  raw = before;
  raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  fputs("\033[?1049h\033[?25l", stdout); /* the other screen, no cursor */
  sigaction(SIGINT, &act, NULL);
  sigaction(SIGTERM, &act, NULL);
  sigaction(SIGHUP, &act, NULL);
}

static void leave_terminal(void) {
  fputs("\033[?25h\033[?1049l", stdout);
  fflush(stdout);
  tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void read_size(struct view *v) {
  struct winsize w;

  v->rows = ROWS_ONCE;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 10)
    v->rows = w.ws_row - 9 > ROWS_MAX ? ROWS_MAX : w.ws_row - 9;
}

static void take_key(struct view *v, char key) {
  const char *at = key == 0 ? NULL : strchr(keys, key);

  if (key == 'q')
    stopped = 1;
  if (key == 'o')
    v->reversed = !v->reversed;
  if (at == NULL)
    return;
  v->sort = (int)(at - keys);
  v->reversed = false;
}

static void run_terminal(struct view *v) {
  char why[400];

  enter_terminal();
  while (!stopped) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;

    read_size(v);
    if (!show(v, true, cli_has_colours(), why, sizeof why)) {
      fputs("\033[H\033[J", stdout);
      cli_write_plain(stdout, why);
      putchar('\n');
    }
    printf("\nsort: %s%s   l late  n name  d due  r runs  f failures  o order  q quit",
           sorts[v->sort], v->reversed ? " (other way round)" : "");
    fflush(stdout);
    if (poll(&in, 1, REFRESH_MS) > 0 &&
        (read(STDIN_FILENO, &key, 1) != 1 || (take_key(v, key), false)))
      stopped = 1; /* the terminal is gone */
  }
  leave_terminal();
}

/* ---- the command ---- */

int cli_top(int argc, char **argv) {
  struct view v = {.token = getenv("UVSCHED_TOKEN"), .rows = ROWS_ONCE};
  const char *url = NULL, *sort = NULL, *rows = NULL, *wrong;
  bool once = false, wants_help = false;
  const struct cli_option options[] = {{"--once", NULL, &once},
                                       {"--sort", &sort, NULL},
                                       {"-n", &rows, NULL},
                                       {"--help", NULL, &wants_help},
                                       {"-h", NULL, &wants_help}};
  char why[400];
  int words = cli_read_args(argc, argv, options, sizeof options / sizeof options[0], &url, 1);

  if (words < 0)
    return CLI_USAGE;
  if (wants_help) {
    fputs(help, stdout);
    return 0;
  }
  if (words != 1)
    return cli_usage_error("top", words == 0 ? "the URL of a console is missing"
                                             : "there is more than one URL");
  wrong = cli_url_read(url, &v.url);
  if (wrong != NULL)
    return cli_usage_error("top", "%s", wrong);
  if (sort != NULL) {
    v.sort = cli_read_choice("top", "--sort", sort, "late name due runs failures");
    if (v.sort < 0)
      return CLI_USAGE;
  }
  if (rows != NULL && !cli_read_number("top", "-n", rows, ROWS_MAX, &v.rows))
    return CLI_USAGE;
  if (v.token != NULL && v.token[strcspn(v.token, "\r\n")] != 0)
    return cli_usage_error("top", "UVSCHED_TOKEN has a line break");
  if (!once && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO)) {
    run_terminal(&v);
    return 0;
  }
  if (show(&v, false, false, why, sizeof why))
    return 0;
  cli_complain("%s", why);
  return CLI_FAILED;
}
