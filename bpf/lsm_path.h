/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The path of an object from the session's root, whatever the task's own root
 * and working directory are: from the object upwards over dentries and mounts.
 *
 * Pointers are followed by loads that the kernel guards (see SEEN), which cannot
 * fault and cost a tenth of bpf_probe_read_kernel. Names may change meanwhile; as
 * d_path does, we see that by rename_lock and begin anew.
 */
#ifndef REEVE_LSM_PATH_H
#define REEVE_LSM_PATH_H

#include "lsm.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

extern const volatile struct session settings;

/* Plain loads from kernel memory, where a bad pointer reads as zero. */
extern void *bpf_rdonly_cast(const void *obj, __u32 type) __ksym;

#define SEEN(type, p) \
	((const type *)bpf_rdonly_cast((const void *)(p), \
				       bpf_core_type_id_kernel(type)))

enum end {
	END_NONE,
	END_ROOT,     /* the session's root */
	END_FOREIGN,  /* another root, or none */
	END_LONG,     /* more than MAX_PATH bytes */
	END_INTERNAL, /* a file system that has no place: pipes, memory files */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* All that changes is in the slot: see struct slot. */
struct walk {
	struct slot *s;
};

/* The kernel's own mounts belong to no namespace: fs/mount.h. */
#define MNT_NS_INTERNAL ((unsigned long)-22)

static __always_inline __u64 mount_of(__u64 mnt)
{
	return mnt - bpf_core_field_offset(struct mount, mnt);
}

static __always_inline int is_root(__u64 dentry)
{
	const struct dentry *d = SEEN(struct dentry, dentry);

	return d->d_inode->i_ino == settings.root_ino &&
	       d->d_sb->s_dev == settings.root_dev;
}

/* At the root of a mount: the session's root, or where it is mounted. */
static __always_inline long cross(struct slot *s)
{
	const struct mount *mount = SEEN(struct mount, s->mount);
	__u64 parent = (__u64)mount->mnt_parent;
	unsigned long ns;

	if ((__u32)mount->mnt_id == settings.root_mount) {
		s->end = END_ROOT;
		return 1;
	}
	ns = (unsigned long)mount->mnt_ns;
	if (ns == MNT_NS_INTERNAL) {
		s->end = END_INTERNAL;
		return 1;
	}
	/* A copy of our mounts, in another namespace, has a copy of our root. */
	if (ns && is_root(s->dentry) &&
	    mount->mnt_ns->ns.inum != settings.root_ns) {
		s->end = END_ROOT;
		return 1;
	}
	if (parent == s->mount) {
		s->end = END_FOREIGN;
		return 1;
	}
	s->dentry = (__u64)mount->mnt_mountpoint;
	s->root = (__u64)mount->mnt_parent->mnt.mnt_root;
	s->mount = parent;
	return 0;
}

static long climb(__u32 i, struct walk *w)
{
	const unsigned char *name;
	const struct dentry *d;
	struct slot *s = w->s;
	__u32 len, at;
	__u64 parent;

	if (s->dentry == s->root)
		return cross(s);
	d = SEEN(struct dentry, s->dentry);
	parent = (__u64)d->d_parent;
	len = d->d_name.len;
	name = d->d_name.name;
	if (parent == s->dentry || !len || len > MAX_NAME) {
		s->end = (unsigned long)SEEN(struct mount, s->mount)->mnt_ns ==
					 MNT_NS_INTERNAL ?
				 END_INTERNAL : END_FOREIGN;
		return 1;
	}
	at = s->at - len - 1;
	if (at < PATH_MIN || at > PATH_END) {
		s->end = END_LONG;
		return 1;
	}
	/* The compiler may not forget these bounds: the verifier wants them. */
	asm volatile("%0 &= 0x1fff" : "+r"(at));
	asm volatile("%0 &= 0xff" : "+r"(len));
	s->path[at] = '/';
	if (bpf_probe_read_kernel(&s->path[at + 1], len, name)) {
		s->end = END_FOREIGN;
		return 1;
	}
	s->at = at;
	s->dentry = parent;
	return 0;
}

static __always_inline __u32 rename_sequence(void)
{
	const volatile struct seqcount *s;

	if (!settings.rename_lock)
		return 0;
	s = SEEN(struct seqcount, settings.rename_lock);
	return s->sequence;
}

#define MAX_WALKS 64
#define MAX_TRIES (1 << 16)

struct finding {
	struct slot *slot;
	__u64 found;
};

/*
 * One try; it counts if no name has changed meanwhile. While one is being
 * changed there is nothing to walk: that takes nanoseconds, or a time slice where
 * the processor that does it is a virtual one.
 */
static long try(__u32 i, struct finding *f)
{
	__u32 seq = rename_sequence();
	struct slot *s = f->slot;
	struct walk w = { .s = s };

	if (seq & 1)
		return 0;
	s->dentry = s->q.dentry;
	s->mount = mount_of(s->q.mnt);
	s->root = (__u64)SEEN(struct mount, s->mount)->mnt.mnt_root;
	s->at = PATH_END;
	s->end = END_NONE;
	bpf_loop(MAX_CLIMB, climb, &w, 0);
	f->found = rename_sequence() == seq;
	return f->found || ++s->walks == MAX_WALKS;
}

/*
 * Put the path of slot i's request together. The root itself is "/". -EAGAIN if
 * names changed at every try.
 *
 * This function and the others that take a slot's number are global: they are
 * verified once, and not for each way that leads to them.
 */
__noinline int find_path(__u32 i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	struct finding f = {};

	if (!s)
		return -EAGAIN;
	s->walks = 0;
	f.slot = s;
	bpf_loop(MAX_TRIES, try, &f, 0);
	if (!f.found)
		return -EAGAIN;
	if (s->end == END_INTERNAL) {
		s->at = PATH_END; /* a name at most, and no path */
	} else if (s->at == PATH_END) {
		s->at = PATH_END - 1;
		s->path[PATH_END - 1] = '/';
	}
	if (s->end == END_NONE)
		s->end = END_LONG;
	return 0;
}

#endif
