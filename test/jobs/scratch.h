/* SPDX-License-Identifier: MIT
 *
 * scratch: a folder for one test program. The folder is removed with everything in it.
 */
#ifndef TEST_JOBS_SCRATCH_H
#define TEST_JOBS_SCRATCH_H

#define SCRATCH_PATH 300

void scratch_make(void);
void scratch_file(char ret[SCRATCH_PATH], const char *name); /* makes an empty file in it */
void scratch_remove(void);

#endif
