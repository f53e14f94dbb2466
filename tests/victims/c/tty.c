// SPDX-License-Identifier: Apache-2.0
/* The terminal: what may be pushed into it, and what it tells us. */
#include "victim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

/* Bits above the low word are ignored by the kernel, not by a naive filter. */
#define HIGH_BIT (1UL << 32)

static int run_ioctl(int argc, char **argv)
{
	static char arg[64] = "\n";
	unsigned long cmd = 0;
	int queued = -1;
	long ret;

	if (argc < 2)
		return 64;
	if (!strncmp(argv[1], "sti", 3))
		cmd = TIOCSTI;
	else if (!strncmp(argv[1], "linux", 5))
		cmd = TIOCLINUX;
	else if (!strncmp(argv[1], "cons", 4))
		cmd = TIOCCONS;
	if (strstr(argv[1], "-high"))
		cmd |= HIGH_BIT;
	if (cmd == TIOCLINUX || cmd == (TIOCLINUX | HIGH_BIT))
		arg[0] = 6; /* TIOCL_GETSHIFTSTATE: asks, changes nothing */
	ret = syscall(SYS_ioctl, 0, cmd, arg);
	report(argv[1], ret);
	ioctl(0, FIONREAD, &queued); /* whole lines, as if they were typed */
	printf("queued %d\n", queued);
	return ret < 0;
}

static volatile sig_atomic_t resized;

static void on_winch(int sig)
{
	(void)sig;
	resized = 1;
}

/* Prints its size, waits for the next one, prints that. */
static int run_winch(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_winch };
	struct winsize w = { 0 };
	sigset_t block, old;

	(void)argc;
	(void)argv;
	sigemptyset(&block);
	sigaddset(&block, SIGWINCH);
	sigprocmask(SIG_BLOCK, &block, &old);
	sigaction(SIGWINCH, &sa, NULL);
	ioctl(0, TIOCGWINSZ, &w);
	printf("size %dx%d\n", w.ws_col, w.ws_row);
	fflush(stdout);
	while (!resized)
		sigsuspend(&old);
	ioctl(0, TIOCGWINSZ, &w);
	printf("resized %dx%d\n", w.ws_col, w.ws_row);
	return 0;
}

const struct technique tty_techniques[] = {
	{ "ioctl", run_ioctl, "sti|linux|cons[-high]" },
	{ "winch", run_winch, "" },
	{ 0 },
};
