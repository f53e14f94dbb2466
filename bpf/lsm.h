/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the LSM programs and package tracer/lsm say to each other. A change of
 * any record's meaning or shape is a new LSM_VERSION.
 */
#ifndef REEVE_LSM_H
#define REEVE_LSM_H

#include "kernel.h"

#define LSM_VERSION 4

#define MAX_PLANES 8
#define MAX_PATH 4095 /* bytes of a path that is judged; PATH_MAX less NUL */
#define MAX_NAME 255  /* NAME_MAX */
#define MAX_CLIMB 2300 /* names and mounts that a path may have */
#define MAX_TEMP 256  /* bytes of the name of the session's directory */
#define MAX_KEEPERS 8
#define KEEPER_WORDS 4 /* a name of them, padded with NUL, as numbers */

/* Ways to touch an object: event.Access of the Go side. */
enum need {
	NEED_READ = 1 << 0,
	NEED_WRITE = 1 << 1,
	NEED_CREATE = 1 << 2,
	NEED_DELETE = 1 << 3,
	NEED_EXEC = 1 << 4,
	NEED_META = 1 << 5,
};

/* An action, event.Action of the Go side: the larger is the stricter. */
enum action {
	ACTION_NONE,
	ACTION_ALLOW,
	ACTION_ASK,
	ACTION_DENY,
};

/*
 * The ways to ask for a path. The outcome of a state has an action of two bits
 * for each, from the lowest bits on, and above them bits that say whether what is
 * refused is said not to exist.
 */
enum way {
	WAY_READ,
	WAY_WRITE,
	WAY_UPDATE, /* reading and writing */
	WAY_EXEC,
	WAY_MAKE, /* writing what this very call makes */
	NUM_WAYS,
};

#define OUT_HIDE (2 * NUM_WAYS) /* the first of NUM_WAYS bits */
#define OUT_TERMINAL (1U << 15) /* refused but to the session's own terminals */
#define OUT_OWN (1U << 16) /* writing passes in a directory of the session's own */
#define OUT_SECRET (1U << 17) /* a file that the session made may be opened */

/*
 * One automaton in the table of cells. A state is the number of the first cell of
 * its row: for each class of bytes the state that follows, and the outcome.
 */
struct plane {
	__u32 need; /* what it can refuse; 0: there is no such plane */
	__u32 classes;
	__u32 from[4]; /* states: see enum from */
};

/* Where a path begins to run. */
enum from {
	FROM_START,
	FROM_SELF, /* after /proc/self: the rest of an own task's entry */
	FROM_TEMP, /* after the session's own directory */
};

/* settings.flags */
enum mode {
	RECORD_ONLY = 1 << 0,	 /* nothing is held but what a plane refuses */
	ANY_SIGNAL = 1 << 1,	 /* tasks outside may be signalled */
	MEMORY_EXEC = 1 << 2,	 /* files without a name may run */
	STRICT = 1 << 3,	 /* what cannot be recorded must not happen */
	RECORD_ALLOWED = 1 << 4, /* allowed operations are recorded, too */
	INNER = 1 << 5,	 /* the session was begun inside another */
};

/*
 * settings.closed: surfaces of the kernel, and classes of
 * calls that only the supervisor makes for a task.
 */
enum surface {
	SURFACE_MOUNT = 1 << 0,
	SURFACE_NAMESPACE = 1 << 1,
	SURFACE_BPF = 1 << 2,
	SURFACE_PERF = 1 << 3,
	SURFACE_MODULE = 1 << 4,
	SURFACE_PTRACE = 1 << 5,
	SURFACE_CHROOT = 1 << 6,
	SURFACE_CONNECT = 1 << 7,
	SURFACE_BIND = 1 << 8,
	SURFACE_SEND = 1 << 9,
	SURFACE_TREE = 1 << 10,
	SURFACE_XATTR = 1 << 11,
	SURFACE_SOCKET = 1 << 12,
};

struct session {
	__u64 session;
	__u64 rename_lock; /* address; 0: names are not changed meanwhile */
	__u64 root_ino;	   /* the session's root directory */
	__u32 root_dev;	   /* as the kernel keeps it */
	__u32 root_mount;  /* id of its mount */
	__u32 root_ns;	   /* inode number of its mount namespace */
	__u32 supervisor;  /* process id: when it ends everything is refused */
	__u32 flags;
	__u32 closed; /* surfaces that a task of the session may not use */
	__u32 cells;  /* in the table: a power of two */
	__u32 temp_len;
	__u64 families; /* bit set of the AF_ numbers that may be made; AF_UNSPEC: NETLINK_USERSOCK */
	__u32 room; /* in the witness's ring, bytes; 0: it is not our concern */
	__u32 fork_room; /* that each of its records takes there */
	__u32 exec_room; /* at most */
	__u32 exit_room;
	struct plane planes[MAX_PLANES];
	/* See lsm_bulk.h: an outcome is 1 for what does not count. */
	struct plane expendable;
	__u64 bulk_window; /* ns */
	__u32 bulk_files;  /* 0: they are not counted here */
	__u32 marks;	   /* the session's own files are marked */
	__u64 keeper[MAX_KEEPERS][KEEPER_WORDS];
	__u8 class[MAX_PLANES][256]; /* byte to class */
	__u8 expendable_class[256];
	__u8 temp[MAX_TEMP];
};

enum kind {
	KIND_ACCESS = 1, /* an operation on a path */
	KIND_SURFACE,	 /* one without */
};

/* What was asked of the kernel. */
enum op {
	LSM_OPEN = 1,
	LSM_CREATE,
	LSM_EXEC,
	LSM_MAP,     /* code is mapped from the file */
	LSM_RECEIVE, /* a descriptor comes from another task */
	LSM_STAT,
	LSM_TRUNCATE,
	LSM_CHMOD,
	LSM_CHOWN,
	LSM_SETXATTR,
	LSM_UNLINK,
	LSM_RMDIR,
	LSM_MKDIR,
	LSM_MKNOD,
	LSM_SYMLINK,
	LSM_LINK,
	LSM_RENAME,
	LSM_SOCKET,
	LSM_CONNECT,
	LSM_BIND,
	LSM_LISTEN,
	LSM_SEND,
	LSM_SIGNAL,
	LSM_PTRACE,
	LSM_MOUNT,
	LSM_NAMESPACE,
	LSM_CHROOT,
	LSM_BPF,
	LSM_PERF,
	LSM_MODULE,
	LSM_CREDS,
};

/* record.why: what stands against an operation, 0 if nothing does. */
enum why {
	WHY_PLANE = 1,	/* a rule: record.plane and .state say which */
	WHY_ASK,	/* a rule that asks, and no grant */
	WHY_LONG,	/* the path is too long */
	WHY_FOREIGN,	/* the path does not lead to the session's root */
	WHY_CHANGING,	/* its names changed at every try */
	WHY_DEVICE,	/* a device outside /dev, or a new one */
	WHY_SETID,	/* a set-user-ID program would be made */
	WHY_TERMINAL,	/* another terminal */
	WHY_MEMORY,	/* a program without a file */
	WHY_WIDENS,	/* under the new name more would be allowed */
	WHY_TREE,	/* a directory, or a link, not made by way of the gate */
	WHY_GATE,	/* not made by way of the gate */
	WHY_SURFACE,	/* a part of the kernel that is closed */
	WHY_STRANGER,	/* a task outside the session */
	WHY_OVER,	/* the supervisor is gone */
	WHY_BUSY,	/* it could not be judged */
	WHY_IDENTITY,	/* a program that changes who it is */
	WHY_BULK,	/* too many files lose what they held */
	NUM_WHYS,
};

/* record.flags */
enum note {
	REC_OWN = 1 << 0, /* own /proc entry or terminal, or a file made by it */
	REC_ANONYMOUS = 1 << 1, /* an object without a path */
	REC_DELETED = 1 << 2, /* the path is what it was */
	REC_MADE = 1 << 3, /* the file is made by this call */
	REC_GRANTED = 1 << 4, /* a grant lifted the question */
	REC_BORN = 1 << 5, /* it may be since the session made the directory */
	REC_LONG = 1 << 6, /* the path is only the end of it */
	REC_OTHER_LONG = 1 << 7, /* so is the other */
};

/*
 * The path follows, and then that of the other name of a rename or link, which is
 * the new one, or the text of a symbolic link; all without NUL.
 */
struct record {
	__u16 version;
	__u16 size; /* of the whole record, bytes */
	enum kind kind;
	__u64 time; /* CLOCK_BOOTTIME, ns */
	__u64 session;
	__u64 start; /* of the process, CLOCK_BOOTTIME, ns */
	__u64 dev;   /* of the super block, as the kernel keeps it */
	__u64 ino;
	__u64 arg; /* open's flags; of a surface: signal, address family, pid … */
	__u32 tgid;
	__u32 tid;
	enum op op;
	enum why why;
	__u32 access;
	__s32 error; /* errno, 0 if allowed */
	__u32 flags;
	__u32 mode; /* st_mode */
	__u32 plane;
	__u32 path_len;
	__u32 other_len;
	__u32 inner; /* the session inside this one that the task is of, or 0 */
};

/* The causes of a loss: index into the per-CPU counters. */
enum lost {
	LOST_URGENT, /* no room in the ring of denials */
	LOST_FLOW,   /* no room in the ring of what is allowed */
	LOST_SCOPE,  /* a child could not be marked, so it was not made */
	LOST_SLOT,   /* no scratch buffer, so it was refused */
	LOST_NAMES,  /* names changed at every try, so it was refused */
	LOST_FORK,   /* no room to record a child, so it was not made */
	LOST_EXEC,   /* no room to record a program, so it was not run */
	NUM_LOST,
};

/*
 * A task that is ours. Where sessions are inside sessions each has programs of
 * its own, and a task is in the scope of all that it is inside of: so what one of
 * them refuses is refused.
 */
struct scope {
	__u64 session;
	__u32 inner;	/* the innermost session's number, 0 if that is ours */
	__u32 warden;	/* of a thread of the process that began our session */
	__u32 counted;	/* in `population` */
	__u32 promised; /* see lsm_room.h: there is room for its process's exit */
};

/* What a task has asked for: see lsm_room.h. Only the task itself changes it. */
struct room {
	__u32 forking; /* there is room for a child and its exit */
	__u32 execing; /* there is for a program */
};

/* What was answered yes: these accesses to one file, by one thread or all. */
struct grant_key {
	__u64 dev;
	__u64 ino;
	__u32 tid; /* 0: every task of the session */
	__u32 pad;
};

struct grant {
	__u32 access;
	__u32 once; /* taken away by the first use */
};

/*
 * What a thread may execute next although the policy asks about it: the answer
 * was yes. It holds until the thread's next one, or its end.
 */
#define MAX_ANNOUNCED 4 /* program, interpreter, its interpreter, loader */
struct announcement {
	__u32 count;
	__u32 pad;
	struct {
		__u64 dev;
		__u64 ino;
	} files[MAX_ANNOUNCED];
};

/* One operation on one path: what is asked. */
struct request {
	__u64 dentry; /* the object, or the name that it gets */
	__u64 mnt;    /* the mount through which it is seen */
	enum op op;
	__u32 need;  /* what must be allowed */
	__u32 made;  /* the file is made by this call */
	__u32 flags; /* REC_ */
	__u32 quiet; /* record it only if it is refused */
	__u32 mode;  /* of what is there; 0: of the dentry's inode */
	__u32 tmpfile;
	__u32 whole; /* ask every plane, and join what they say in verdict.joined */
	__u32 look;  /* only that */
	enum why why; /* refuse it for this in any case, with `error` */
	__u32 error;
	__u32 loses; /* it counts as the loss of a file, if it does by its path */
	__u32 own;   /* the session made the directory that it is in */
	__u32 mine;  /* the session made the file */
	__u32 answered; /* somebody said yes to the file */
	__u32 pad;
	__u64 arg;  /* of the record */
	__u64 text; /* of a symbolic link: a string of the kernel's, or 0 */
};

/* A question to the automata about a part of the path, and the answer. */
struct verdict {
	__u32 at;
	__u32 end;
	enum from from;
	enum way way;
	__u32 need; /* planes that cannot refuse it are not asked; all with ALL */
	enum action action;
	__u32 plane;
	__u32 hide;
	__u32 terminal; /* it is a terminal that some session may own */
	__u32 joined;	/* the strictest of all planes that were asked, as an outcome */
	__u32 own;	/* request.own */
	__u32 born;	/* something would stand against it but for that */
	__u32 mine;	/* request.mine */
	__u32 pad;
};

#define NEED_ALL (NEED_READ | NEED_WRITE | NEED_EXEC)

/* What comes of it. */
struct ruling {
	enum why why;
	__u32 error; /* errno, 0: allowed */
	__u32 plane;
	__u32 flags;
};

#define PATH_SIZE 8192 /* a power of two, for the verifier */
#define PATH_END 4608  /* where each path ends, and a little is left behind it */
#define PATH_MIN (PATH_END - MAX_PATH)

/*
 * What one operation works on: its path is put together from the end backwards,
 * with room for the record before it. Hooks may be preempted by one another on a
 * processor, so it has several, and each is taken. It is memory of a map and not
 * of the stack so that the verifier knows no values: it would follow each.
 */
#define SLOTS 4
struct slot {
	__u64 busy;
	struct request q;
	struct verdict v;
	struct ruling g;
	__u32 at;  /* where the path begins, so far */
	__u32 end; /* enum end: where it leads */
	__u32 walks; /* how often it was looked for */
	__u32 other; /* bytes behind the path that belong to the record */
	__u64 dentry; /* where the walk is */
	__u64 mount;
	__u64 root; /* dentry of the mount's root */
	union {
		/* Each record stands before its path. From PATH_END on there is room for another. */
		__u8 path[PATH_SIZE + 2 * (MAX_PATH + 1)];
		/* For the bindings only, which see no other types. */
		struct {
			struct record record;
			enum need need;
			enum mode mode;
			enum surface surface;
			enum note note;
		} words;
	};
};

_Static_assert(sizeof(struct record) == 104, "record");
_Static_assert(sizeof(struct record) < PATH_MIN, "room before the path");
_Static_assert(sizeof(struct plane) == 24, "plane");
_Static_assert(sizeof(struct grant_key) == 24, "grant_key");
_Static_assert(sizeof(struct scope) == 24, "scope");

#endif
