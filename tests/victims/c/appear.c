// SPDX-License-Identifier: Apache-2.0
/* A program whose name is there only now and then. */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	  4096
#define RAN	  20 /* exit status of `victim ran` from the denied side */
#define NO_MEMORY 77 /* the name was not there */
#define NOT_RUN	  78

static char *page;
static int text;

/*
 * Maps the file that holds the name over a hole and takes it away again: the
 * name is whole from the first moment on.
 */
static void *come_and_go(void *arg)
{
	unsigned int turn = 1;

	(void)arg;
	for (;;) {
		turn = turn * 1103515245 + 12345;
		if (mmap(page, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, text,
			 0) != page)
			die("mmap");
		moved();
		for (volatile unsigned int i = 0; i < (turn >> 16) % 2000; i++)
			;
		munmap(page, PAGE);
		for (volatile unsigned int i = 0; i < (turn >> 8) % 60000; i++)
			;
	}
	return NULL;
}

static void hold_name(const char *notes, const char *program)
{
	text = open(notes, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (text < 0 || write(text, program, strlen(program) + 1) < 0 ||
	    ftruncate(text, PAGE))
		die("notes");
	/* A hole of one page between two that stay: nothing else fits in. */
	page = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (page == MAP_FAILED || munmap(page += PAGE, PAGE))
		die("hole");
}

/* Runs N times the name in a page that another thread maps and unmaps. */
static int run_appear(int argc, char **argv)
{
	char *args[] = { "tool", "ran", NULL }, *env[] = { NULL };
	long i, n, absent = 0, not_run = 0, reached = 0;

	if (argc < 4)
		return 64;
	n = number(argv[1]);
	contested(); /* which maps a page, too */
	hold_name(argv[2], argv[3]);
	spawn_thread(come_and_go, NULL);
	for (i = 0; under_way(i, n); i++) {
		int status = 0;
		pid_t pid = vfork();

		if (pid < 0)
			die("vfork");
		if (!pid) {
			execve(page, args, env);
			_exit(errno == EFAULT ? NO_MEMORY : NOT_RUN);
		}
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MEMORY)
			absent++;
		else if (WIFEXITED(status) && WEXITSTATUS(status) == RAN)
			reached++;
		else
			not_run++;
	}
	printf("attempts=%ld opened=0 reached=%ld absent=%ld not_run=%ld\n", i,
	       reached, absent, not_run);
	return 0;
}

const struct technique appear_techniques[] = {
	{ "exec-appear", run_appear, "N NOTES PROGRAM" },
	{ 0 },
};
