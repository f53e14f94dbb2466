/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What judge.bpf.c is asked and answers. */
#ifndef REEVE_JUDGE_H
#define REEVE_JUDGE_H

#include "lsm.h"

struct question {
	__u64 ns; /* how long all of it took */
	__u32 times;
	__u32 need;
	__u32 made;
	__u32 whole;
	__u32 record; /* write a record each time */
	enum why why;
	__s32 error;
	__u32 plane;
	__u32 joined;
	__u32 len; /* of the path */
	__u32 expendable; /* whether the path is, see lsm_bulk.h */
	__u32 own; /* it is in a directory that the session made */
	__u32 mine; /* the session made it */
	__u32 pad;
	__u8 path[MAX_PATH + 1];
};

/* The path follows. */
struct found {
	__u64 ns;
	__u32 tgid;
	__u32 fd;
	__u32 end; /* enum end */
	__u32 len;
};

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpadded"
#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop
#pragma clang diagnostic pop

#endif
