/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim: one program of many techniques. Each technique tries one thing that
 * a supervised task might try, and prints what the kernel answered, so that a
 * run under supervision can be compared with a run without.
 */
#ifndef VICTIM_H
#define VICTIM_H

#include <stddef.h>

/* One technique: argv[0] is its name, its arguments follow. */
struct technique {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
};

/* Each file ends with its table; a row without a name ends a table. */
extern const struct technique abi_techniques[];
extern const struct technique appear_techniques[];
extern const struct technique call_techniques[];
extern const struct technique creds_techniques[];
extern const struct technique exec_techniques[];
extern const struct technique flip_techniques[];
extern const struct technique limits_techniques[];
extern const struct technique loop_techniques[];
extern const struct technique net_techniques[];
extern const struct technique paths_techniques[];
extern const struct technique peers_techniques[];
extern const struct technique procs_techniques[];
extern const struct technique pts_techniques[];
extern const struct technique sched_techniques[];
extern const struct technique shm_techniques[];
extern const struct technique sockets_techniques[];
extern const struct technique stalls_techniques[];
extern const struct technique swap_techniques[];
extern const struct technique tty_techniques[];
extern const struct technique uring_techniques[];

/* report prints "what: ret=N errno=E"; errno is stated for failures only. */
void report(const char *what, long ret);

/* show prints the first bytes of what fd reads, as "content: ...". */
void show(int fd);

/* holds is 1 when the first bytes of fd contain the marker of a secret. */
int holds_secret(int fd);

/* die prints the failed call and its errno, and exits with 70. */
void die(const char *what) __attribute__((noreturn));

/* number reads a decimal, octal or hexadecimal argument. */
long number(const char *s);

/* spawn_thread starts fn(arg) as a thread that nobody joins. */
void spawn_thread(void *(*fn)(void *), void *arg);

/*
 * A race of N attempts is none if the other side does not move meanwhile, as a
 * thread may not that has not begun yet, or whose calls are slower. One that is
 * contested goes on until it has moved between MEETINGS of the attempts, too.
 */
#define MEETINGS 50

/* contested is called before the other side, a task of ours, is made. */
void contested(void);

/* moved counts a move of the other side, done or refused. */
void moved(void);

/* under_way says whether attempt I is to be made, of N at least. */
int under_way(long i, long n);

/* SECRET_MARKER stands in every file that must not be read. */
#define SECRET_MARKER "TOKEN="

#endif
