/* SPDX-License-Identifier: MIT
 *
 * amqp_none: `uvsched amqp` in a program that was built without rabbitmq-c.
 */
#include "commands.h"
#include "text.h"

int cli_amqp(int argc, char **argv) {
  (void)argc, (void)argv;
  cli_complain("this program was built without rabbitmq-c, so it has no bridge: install SQLite and "
               "rabbitmq-c with their headers (libsqlite3-dev, librabbitmq-dev), and build uvsched "
               "again");
  return CLI_FAILED;
}
