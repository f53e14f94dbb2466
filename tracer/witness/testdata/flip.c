/*
 * Executes, again and again, a path that a second process keeps changing under
 * the kernel's hands. Before each execve the child says its pid and waits for
 * leave, so that what it may execute can be announced.
 *
 *   flip COUNT GOOD BAD   pids to descriptor 3, leave from descriptor 4
 *
 * Built with -DPROGRAM=letter it is what is executed: it writes that letter to
 * descriptor 5.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PROGRAM
int main(void)
{
	char c = PROGRAM;

	return write(5, &c, 1) != 1;
}
#else
int main(int argc, char **argv)
{
	int count = atoi(argv[1]);
	volatile char *path;
	size_t len = strlen(argv[2]); /* GOOD and BAD differ in the last byte */
	char *args[] = { "flipped", NULL };
	pid_t flipper;

	path = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	strcpy((char *)path, argv[2]);
	flipper = fork();
	if (flipper == 0) {
		for (;;) {
			path[len - 1] = argv[3][len - 1];
			for (volatile int i = 0; i < 200; i++)
				;
			path[len - 1] = argv[2][len - 1];
			for (volatile int i = 0; i < 200; i++)
				;
		}
	}
	for (int i = 0; i < count; i++) {
		pid_t pid = vfork();
		char go;

		if (pid == 0) {
			int self = getpid();

			if (write(3, &self, sizeof(self)) != sizeof(self) ||
			    read(4, &go, 1) != 1)
				_exit(9);
			execve((char *)path, args, NULL);
			_exit(8);
		}
		waitpid(pid, NULL, 0);
	}
	kill(flipper, SIGKILL);
	waitpid(flipper, NULL, 0);
	return 0;
}
#endif
