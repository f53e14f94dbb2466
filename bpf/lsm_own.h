/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the session made. The mark goes with the kernel's inode: what is read from
 * disk anew has none, so that less is allowed. The supervisor marks the directories
 * that it makes for a task.
 */
#ifndef REEVE_LSM_OWN_H
#define REEVE_LSM_OWN_H

#include "lsm.h"

#include <bpf/bpf_helpers.h>

extern const volatile struct session settings;

/*
 * Files that the session made, or whose content is its own since it replaced it, and
 * directories that it made.
 */
struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} own_inodes SEC(".maps");

static __always_inline int is_own(struct inode *inode)
{
	return settings.marks && inode &&
	       bpf_inode_storage_get(&own_inodes, inode, 0, 0);
}

static __always_inline void make_own(struct inode *inode)
{
	__u32 one = 1;

	if (settings.marks && inode)
		bpf_inode_storage_get(&own_inodes, inode, &one,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
}

#endif
