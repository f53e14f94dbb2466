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
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_INODE_STORAGE = 28,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define BPF_F_NO_PREALLOC (1U << 0)
#define BPF_F_RDONLY_PROG (1U << 7)
#define BPF_LOCAL_STORAGE_GET_F_CREATE (1ULL << 0)

#define EPERM 1
#define ENOENT 2
#define EAGAIN 11
#define EACCES 13
#define EXDEV 18
#define ENAMETOOLONG 36

#define S_IFMT 00170000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFLNK 0120000
#define S_ISUID 0004000
#define S_ISGID 0002000

#define SB_NOUSER (1UL << 31) /* linux/fs.h */

#define CLONE_THREAD 0x00010000 /* uapi/linux/sched.h */
#define BPF_RB_AVAIL_DATA 0	 /* uapi/linux/bpf.h */

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
	unsigned long s_flags;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__u16 i_mode;
	__u32 i_rdev;
};

struct qstr {
	__u32 len;
	const unsigned char *name;
};

struct hlist_bl_node {
	struct hlist_bl_node **pprev;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
};

struct seqcount {
	unsigned int sequence;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct ns_common {
	unsigned int inum;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	struct mnt_namespace *mnt_ns;
	int mnt_id;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	unsigned int f_flags;
	unsigned int f_mode;
};

typedef struct {
	unsigned int val;
} kuid_t;

typedef struct {
	unsigned int val;
} kgid_t;

struct cred {
	kuid_t euid;
	kgid_t egid;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
	struct cred *cred;
};

struct vm_area_struct {
	struct file *vm_file;
	unsigned long vm_flags;
};

struct kernel_siginfo;
struct socket;
struct sockaddr;

struct msghdr {
	void *msg_name;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long arg_start;
	unsigned long arg_end;
};

struct tty_driver {
	int major;
	int minor_start;
};

struct tty_struct {
	int index;
	struct tty_driver *driver;
};

struct signal_struct {
	atomic_t live;
	struct tty_struct *tty;
	int group_exit_code;
	unsigned int flags;
};

struct task_struct {
	struct mm_struct *mm;
	int exit_code;
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	__u64 start_boottime;
	struct signal_struct *signal;
	const struct cred *cred;
};

#pragma clang attribute pop
#pragma clang diagnostic pop

#endif
