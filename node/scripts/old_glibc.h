/* SPDX-License-Identifier: MIT
 *
 * For prebuilt files. glibc 2.34 moved libpthread's names and gave them its own version; by that
 * name the file would not load where glibc is older, though the function is there. Node 18 itself
 * asks for 2.28. */
#if defined(__x86_64__)
__asm__(".symver pthread_setname_np, pthread_setname_np@GLIBC_2.12");
#elif defined(__aarch64__)
__asm__(".symver pthread_setname_np, pthread_setname_np@GLIBC_2.17");
#endif
