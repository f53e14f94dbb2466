// SPDX-License-Identifier: Apache-2.0
/* Limits and scheduling of a task, one's own or another's. */
#define _GNU_SOURCE
#include "victim.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t whose(const char *who)
{
	pid_t pid;

	if (!strcmp(who, "self"))
		return getpid();
	if (!strcmp(who, "parent"))
		return getppid();
	if (strcmp(who, "child"))
		return (pid_t)number(who);
	pid = fork();
	if (pid < 0)
		die("fork");
	while (!pid)
		pause();
	return pid;
}

/* Takes from a process what it may use: cores, files, turns, a processor. */
static int run_limits(int argc, char **argv)
{
	struct rlimit none = { 0, 0 }, few = { 7, 7 };
	cpu_set_t first;
	pid_t pid;

	if (argc < 2)
		return 64;
	pid = whose(argv[1]);
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	report("core", prlimit(pid, RLIMIT_CORE, &none, NULL));
	report("nofile", prlimit(pid, RLIMIT_NOFILE, &few, NULL));
	report("affinity", sched_setaffinity(pid, sizeof(first), &first));
	report("priority", setpriority(PRIO_PROCESS, (id_t)pid, 15));
	if (!strcmp(argv[1], "child")) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return 0;
}

const struct technique sched_techniques[] = {
	{ "limits", run_limits, "PID|self|child|parent" },
	{ 0 },
};
