/* SPDX-License-Identifier: MIT
 *
 * jobs_none: `uvsched jobs` in a program that was built without the library of jobs.
 */
#include "commands.h"
#include "text.h"

int cli_jobs(int argc, char **argv) {
  (void)argc, (void)argv;
  cli_complain("this program was built without SQLite, so it has no jobs: install sqlite3 with its "
               "headers (libsqlite3-dev), and build uvsched again");
  return CLI_FAILED;
}
