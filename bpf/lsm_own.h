/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the session made. The mark goes with the kernel's inode: what is read from
 * disk anew has none, so that less is allowed, and a later file with the same number
 * has none either. The supervisor marks the directories that it makes for a task.
 */
#ifndef REEVE_LSM_OWN_H
#define REEVE_LSM_OWN_H

#include "lsm.h"

#include <bpf/bpf_helpers.h>

extern const volatile struct session settings;

enum own {
	OWN_CONTENT = 1 << 0, /* its content, or the directory, is the session's */
	OWN_MADE = 1 << 1, /* the file did not exist before the session made it */
};

/*
 * Files that the session made, or whose content is its own since it replaced it, and
 * directories that it made.
 */
struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, enum own);
} own_inodes SEC(".maps");

static __always_inline int is_own(struct inode *inode)
{
	return settings.marks && inode &&
	       bpf_inode_storage_get(&own_inodes, inode, 0, 0);
}

static __always_inline void make_own(struct inode *inode, enum own how)
{
	enum own *mark;

	if (!settings.marks || !inode)
		return;
	mark = bpf_inode_storage_get(&own_inodes, inode, &how,
				     BPF_LOCAL_STORAGE_GET_F_CREATE);
	/* Of those who race each writes what is true, and at worst less. */
	if (mark)
		*mark |= how;
}

/* Whether a regular file was made by the session, not only written. */
static __always_inline int is_made(struct inode *inode)
{
	enum own *mark;

	if (!settings.marks || (inode->i_mode & S_IFMT) != S_IFREG)
		return 0;
	mark = bpf_inode_storage_get(&own_inodes, inode, 0, 0);
	return mark && *mark & OWN_MADE;
}

#endif
