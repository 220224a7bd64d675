/* SPDX-License-Identifier: MIT
 *
 * Requests, answers and the whole content of a store as text, to compare stores and to print what
 * differs.
 */
#ifndef TEST_DESCRIBE_H
#define TEST_DESCRIBE_H

#include <stdio.h>

#include "jobs/store.h"

void describe_question(FILE *to, const struct uvs__request *r);
/* Describes only what store.h promises, so neither rows nor the cursors of pages. */
void describe_answer(FILE *to, const struct uvs__request *r);

/* Writes the lines of a text in the order of their bytes, each once. Lists of a server have no
 * order, other pages, and may have a job twice. */
void describe_sorted(FILE *to, char *text);

/* Everything that requests can read, line by line. */
void describe_store(FILE *to, struct uvs__store *store, bool sorted);

/* Frees what the answer has in arenas, and claimed jobs. */
void free_answer(struct uvs__request *r);

#endif
