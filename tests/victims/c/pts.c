// SPDX-License-Identifier: Apache-2.0
/* Terminals: another's, one's own, and one that is made. */
#define _GNU_SOURCE
#include "victim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opens the terminal at PATH and writes there. */
static int run_terminal(int argc, char **argv)
{
	int fd;

	if (argc < 2)
		return 64;
	fd = open(argv[1], O_RDWR | O_NOCTTY | O_NONBLOCK);
	report("terminal", fd);
	if (fd < 0)
		return 1;
	report("inject", write(fd, "injected\r\n", 10));
	return 0;
}

/* Makes a terminal, opens its other side by name, and passes a word through. */
static int run_pty(int argc, char **argv)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	char buf[16] = { 0 };

	(void)argc;
	(void)argv;
	report("master", master);
	if (master < 0 || grantpt(master) || unlockpt(master))
		die("pty");
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	report("slave", slave);
	if (slave < 0)
		return 1;
	if (write(master, "word\n", 5) == 5 && read(slave, buf, 15) > 0)
		printf("passed: %s", buf);
	return 0;
}

/* Opens the terminal that it stands on again, by its name and as /dev/tty. */
static int run_reopen(int argc, char **argv)
{
	char name[64] = { 0 };

	(void)argc;
	(void)argv;
	if (readlink("/proc/self/fd/0", name, sizeof(name) - 1) < 0)
		die("readlink");
	report("by name", open(name, O_RDWR));
	report("by descriptor", open("/proc/self/fd/0", O_RDWR));
	report("as tty", open("/dev/tty", O_RDWR));
	return 0;
}

const struct technique pts_techniques[] = {
	{ "terminal", run_terminal, "PATH" },
	{ "pty", run_pty, "" },
	{ "reopen-terminal", run_reopen, "" },
	{ 0 },
};
