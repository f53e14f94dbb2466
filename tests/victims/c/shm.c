// SPDX-License-Identifier: Apache-2.0
/* Shared memory that has no path: another's by number, or one's own. */
#define _GNU_SOURCE
#include "victim.h"

#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>

static int run_shm(int argc, char **argv)
{
	int own, id;
	char *m;

	if (argc < 2)
		return 64;
	own = !strcmp(argv[1], "own");
	id = own ? shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) :
		   (int)number(argv[1]);
	if (id < 0)
		die("shmget");
	m = shmat(id, NULL, own ? 0 : SHM_RDONLY);
	report("shmat", m == (void *)-1 ? -1 : 0);
	if (m == (void *)-1)
		return 1;
	if (own) {
		strcpy(m, "own memory");
		report("shmctl", shmctl(id, IPC_RMID, NULL));
	}
	printf("content: %.64s\n", m);
	return 0;
}

const struct technique shm_techniques[] = {
	{ "shm", run_shm, "ID|own" },
	{ 0 },
};
