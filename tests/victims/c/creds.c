// SPDX-License-Identifier: Apache-2.0
/* Credentials that change where nobody looks for it. */
#define _GNU_SOURCE
#include "victim.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static uid_t uid;
static char **program;

/* The raw calls: the library would change every thread of the process. */
static void *become(void *arg)
{
	(void)arg;
	if (uid) {
		if (syscall(SYS_setgroups, 0, NULL) ||
		    syscall(SYS_setresgid, uid, uid, uid) ||
		    syscall(SYS_setresuid, uid, uid, uid))
			die("setresuid");
	}
	execv(program[0], program);
	die("exec");
}

/*
 * A thread that is not the leader becomes UID and then PROGRAM, which has the
 * leader's number from then on and the thread's user.
 */
static int run_thread_uid(int argc, char **argv)
{
	if (argc < 3)
		return 64;
	uid = (uid_t)number(argv[1]);
	program = argv + 2;
	/* The leader was seen before. */
	for (int i = 0; i < 10; i++)
		close(open("/proc/self/exe", O_RDONLY));
	spawn_thread(become, NULL);
	for (;;)
		pause();
}

const struct technique creds_techniques[] = {
	{ "thread-uid", run_thread_uid, "UID PROGRAM [ARG]..." },
	{ 0 },
};
