// SPDX-License-Identifier: Apache-2.0
/*
 * Any system call from the command line, one or a batch of them. A word of a
 * call is a number or
 *
 *	s:TEXT   pointer to the string            r:PATH  read-only descriptor
 *	e:TEXT   the same, its NUL the last byte  w:PATH  read-write descriptor
 *	         before an unmapped page          p:PATH  O_PATH descriptor
 *	u:TEXT   without NUL, up to that page     d:PATH  directory descriptor
 *	l:N      string of N bytes "a"            k:F,T,P socket(F, T, P)
 *	x:HEX    pointer to those bytes           self, ppid  process ids
 *	z:N      pointer to N zero bytes          last    result of the last call
 *
 * and in front of the call's number any of: cat (print what the returned
 * descriptor reads), keep (leave it open), flags (print its status and
 * descriptor flags and offset), stat (print its mode, owner and size).
 */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_WORDS 32
#define PAGE	  4096

static long last;
static int opened[MAX_WORDS];
static int nopened;

/* The text placed so that it ends where the mapping ends. */
static char *at_page_end(const char *text, int nul)
{
	size_t n = strlen(text) + (nul ? 1 : 0);
	char *m = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED || n > 2 * PAGE)
		die("mmap");
	if (munmap(m + 2 * PAGE, PAGE))
		die("munmap");
	return memcpy(m + 2 * PAGE - n, text, n);
}

static char *bytes(const char *hex)
{
	size_t n = strlen(hex) / 2;
	char *b = calloc(1, n + 1);

	for (size_t i = 0; i < n; i++) {
		char two[3] = { hex[2 * i], hex[2 * i + 1], 0 };

		b[i] = (char)strtoul(two, NULL, 16);
	}
	return b;
}

static long descriptor(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		report("setup", fd);
	else
		opened[nopened++] = fd;
	return fd;
}

static long open_socket(char *spec)
{
	int family = (int)number(strtok(spec, ","));
	int type = (int)number(strtok(NULL, ","));
	int fd = socket(family, type, (int)number(strtok(NULL, ",")));

	if (fd < 0)
		report("setup", fd);
	else
		opened[nopened++] = fd;
	return fd;
}

static long word(char *w)
{
	char *text = w + 2;

	if (!strcmp(w, "self"))
		return getpid();
	if (!strcmp(w, "ppid"))
		return getppid();
	if (!strcmp(w, "last"))
		return last;
	if (!w[0] || w[1] != ':')
		return number(w);
	switch (w[0]) {
	case 's':
		return (long)strdup(text);
	case 'e':
		return (long)at_page_end(text, 1);
	case 'u':
		return (long)at_page_end(text, 0);
	case 'l': {
		long n = number(text);
		char *b = malloc((size_t)n + 1);

		memset(b, 'a', (size_t)n);
		b[n] = 0;
		return (long)b;
	}
	case 'x':
		return (long)bytes(text);
	case 'z':
		return (long)calloc(1, (size_t)number(text) + 1);
	case 'r':
		return descriptor(text, O_RDONLY | O_NONBLOCK);
	case 'w':
		return descriptor(text, O_RDWR);
	case 'p':
		return descriptor(text, O_PATH | O_NOFOLLOW);
	case 'd':
		return descriptor(text, O_RDONLY | O_DIRECTORY);
	case 'k':
		return open_socket(text);
	}
	fprintf(stderr, "victim: no word %s\n", w);
	exit(64);
}

static void describe(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		report("fstat", -1);
	else
		printf("stat: mode=%o uid=%d gid=%d size=%ld\n", st.st_mode,
		       st.st_uid, st.st_gid, (long)st.st_size);
}

/* Calls whose result is a descriptor: open, creat, openat, openat2. */
static int opens(long nr)
{
	return nr == 2 || nr == 85 || nr == 257 || nr == 437;
}

static int one(int argc, char **argv, const char *echo)
{
	int cat = 0, keep = 0, flags = 0, st = 0, i = 0, n = 0;
	long a[7] = { 0 };
	char what[32];

	for (; i < argc; i++) {
		if (!strcmp(argv[i], "cat"))
			cat = 1;
		else if (!strcmp(argv[i], "keep"))
			keep = 1;
		else if (!strcmp(argv[i], "flags"))
			flags = 1;
		else if (!strcmp(argv[i], "stat"))
			st = 1;
		else
			break;
	}
	if (i == argc)
		return 64;
	nopened = 0;
	snprintf(what, sizeof(what), "call %s", argv[i]);
	for (; i < argc && n < 7; i++)
		a[n++] = word(argv[i]);
	last = syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
	report(echo ? echo : what, last);
	if (flags && last >= 0)
		printf("flags: fl=%o fd=%d at=%ld\n",
		       fcntl((int)last, F_GETFL), fcntl((int)last, F_GETFD),
		       (long)lseek((int)last, 0, SEEK_CUR));
	if (st && last >= 0)
		describe((int)last);
	if (cat && last >= 0)
		show((int)last);
	if ((cat || flags || st || opens(a[0])) && !keep && last >= 0)
		close((int)last);
	for (i = 0; i < nopened && !keep; i++)
		close(opened[i]);
	return last < 0 ? 1 : 0;
}

static int run_call(int argc, char **argv)
{
	return one(argc - 1, argv + 1, NULL);
}

/* Calls from standard input, one a line; each is said again with its answer. */
static int run_batch(int argc, char **argv)
{
	static char line[65536], echo[65536];
	char *words[MAX_WORDS];

	(void)argc;
	(void)argv;
	while (fgets(line, sizeof(line), stdin)) {
		int n = 0;

		line[strcspn(line, "\n")] = 0;
		strcpy(echo, line);
		for (char *w = strtok(line, " \n"); w && n < MAX_WORDS;
		     w = strtok(NULL, " \n"))
			words[n++] = w;
		if (n)
			one(n, words, echo);
	}
	return 0;
}

const struct technique call_techniques[] = {
	{ "call", run_call, "[cat|keep|flags|stat]... NR [WORD]..." },
	{ "batch", run_batch, "< calls, one a line" },
	{ 0 },
};
