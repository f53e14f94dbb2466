/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The fields of kernel types that our programs read, and nothing else. Offsets
 * are relocated at load (preserve_access_index), so the order and the types
 * around them do not matter here.
 */
#ifndef REEVE_KERNEL_H
#define REEVE_KERNEL_H

typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef signed int __s32;
typedef unsigned int __u32;
typedef signed long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define BPF_F_NO_PREALLOC (1U << 0)
#define BPF_LOCAL_STORAGE_GET_F_CREATE (1ULL << 0)

#define SIGKILL 9
#define SIGNAL_GROUP_EXIT 0x00000004 /* linux/sched/signal.h */

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpadded"
#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct super_block {
	__u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
};

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned int flags;
};

struct task_struct {
	struct mm_struct *mm;
	int exit_code;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	__u64 start_boottime;
	struct signal_struct *signal;
};

#pragma clang attribute pop
#pragma clang diagnostic pop

#endif
