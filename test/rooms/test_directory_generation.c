/* SPDX-License-Identifier: MIT
 *
 * The tests of the directory, built with -DUVS__GENERATION_BITS=3.
 */
#include "test_directory.c"

_Static_assert(UVS__GENERATION_BITS == 3, "this program is for the build with three bits");
