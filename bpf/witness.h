/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the witness programs and package tracer/witness say to each other. A
 * change of any record's meaning or shape is a new WITNESS_VERSION.
 */
#ifndef REEVE_WITNESS_H
#define REEVE_WITNESS_H

#include "kernel.h"

#define WITNESS_VERSION 2

#define MAX_EXPECTED 4	  /* program, interpreter, its interpreter, loader */
#define MAX_FILENAME 4096 /* PATH_MAX, NUL included: never cut */
#define MAX_ARGV 4096

/* Of vectors up to this long, NULs included, every byte is compared. */
#define MAX_TOLD 1024
#define MAX_TELLING 256 /* execs whose vectors are compared at one time */

enum kind {
	KIND_FORK = 1,
	KIND_EXEC = 2,
	KIND_EXIT = 3,
};

/* The causes of a loss: index into the per-CPU counters. */
enum loss {
	LOSS_RING_FORK, /* no room in the ring for a record */
	LOSS_RING_EXEC,
	LOSS_RING_EXIT,
	LOSS_SCOPE,	/* a child could not be marked; its parent was killed */
	LOSS_KILL,	/* a task that had to die could not be sent the signal */
	LOSS_FILENAME,	/* exec's file name could not be read */
	LOSS_ARGV,	/* exec's arguments could not be read */
	LOSS_SCRATCH,	/* bug: no scratch buffer */
	NUM_LOSSES,
};

/* fork_record.flags, exec_record.flags */
#define FORK_UNMARKED (1U << 0)	  /* the child escapes the witness: kill it */
#define EXEC_MISMATCH (1U << 0)	  /* another file than the decided one */
#define EXEC_UNEXPECTED (1U << 1) /* nobody decided on this exec at all */
#define EXEC_KILLED (1U << 2)	  /* SIGKILL sent before its first instruction */
#define EXEC_TOLD (1U << 3)	  /* the right file, and another vector than decided */

struct record_header {
	__u16 version;
	__u16 size; /* of the whole record, bytes */
	enum kind kind;
	__u64 time; /* CLOCK_BOOTTIME, ns */
	__u64 session;
};

struct fork_record {
	struct record_header header;
	__u32 parent_tgid;
	__u32 parent_tid;
	__u32 child_tgid;
	__u32 flags;
	__u64 parent_start; /* start of the process, CLOCK_BOOTTIME, ns */
	__u64 child_start;
};

/* The file name, without NUL, and the arguments follow. */
struct exec_record {
	struct record_header header;
	__u32 tgid;
	__u32 old_tid; /* of the thread that called execve */
	__u64 start;
	__u64 dev; /* of the super block, as the kernel keeps it: see kdev */
	__u64 ino;
	__u32 flags;
	__u32 filename_len; /* bytes after the record */
	__u32 argv_len;	    /* bytes after the file name */
	__u32 argv_full;    /* bytes of the whole vector */
};

struct exit_record {
	struct record_header header;
	__u32 tgid;
	__s32 status; /* as wait(2) will report it */
	__u64 start;
};

/* Mark of a task that is ours. */
struct mark {
	__u64 session;
	__u32 exited; /* of a group leader: the exit was recorded */
	__u32 pad;
};

struct inode_key {
	__u64 dev; /* as the kernel keeps it: major << 20 | minor */
	__u64 ino;
};

struct expectation {
	__u32 count;
	__u32 told; /* the vector is to be compared with the one that is told */
	struct inode_key inodes[MAX_EXPECTED];
};

/* A vector that was judged, with zeros behind it. */
struct telling {
	__u64 size; /* bytes, NULs included */
	__u64 words[MAX_TOLD / 8];
};

/*
 * A record of variable length is put together here, the stack has 512 bytes.
 * The union shows the other records' types to the bindings.
 */
struct scratch {
	union {
		struct exec_record exec;
		struct fork_record fork;
		struct exit_record exit;
	};
	__u8 data[MAX_FILENAME + MAX_ARGV];
	__u64 words[MAX_TOLD / 8];
};

_Static_assert(__builtin_offsetof(struct scratch, data) ==
	       sizeof(struct exec_record), "strings follow the record");

_Static_assert(sizeof(struct record_header) == 24, "record_header");
_Static_assert(sizeof(struct fork_record) == 56, "fork_record");
_Static_assert(sizeof(struct exec_record) == 72, "exec_record");
_Static_assert(sizeof(struct exit_record) == 40, "exit_record");
_Static_assert(sizeof(struct mark) == 16, "mark");
_Static_assert(sizeof(struct expectation) == 72, "expectation");
_Static_assert(sizeof(struct telling) == 1032, "telling");

#endif
