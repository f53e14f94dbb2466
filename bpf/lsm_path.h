/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The path of an object from the session's root, whatever the task's own root
 * and working directory are: from the object upwards over dentries and mounts.
 *
 * Pointers are followed by bpf_probe_read_kernel (BPF_CORE_READ) or by loads that
 * the kernel guards, neither of which can fault. Names may change meanwhile; as
 * d_path does, we see that by rename_lock and begin anew.
 */
#ifndef REEVE_LSM_PATH_H
#define REEVE_LSM_PATH_H

#include "lsm.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

extern const volatile struct session settings;

/* A plain load from kernel memory, where a bad pointer reads as zero. */
extern void *bpf_rdonly_cast(const void *obj, __u32 type) __ksym;

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

struct walk {
	struct dentry *dentry;
	struct mount *mount;
	struct dentry *root; /* of the mount */
	__u8 *path;	     /* of a slot */
	__u32 at;	     /* where the path begins in it, so far */
	__u32 end;
};

/* The kernel's own mounts belong to no namespace: fs/mount.h. */
#define MNT_NS_INTERNAL ((unsigned long)-22)

static __always_inline struct mount *mount_of(const struct vfsmount *mnt)
{
	return (void *)mnt - bpf_core_field_offset(struct mount, mnt);
}

static __always_inline int is_root(struct dentry *d)
{
	return BPF_CORE_READ(d, d_inode, i_ino) == settings.root_ino &&
	       BPF_CORE_READ(d, d_sb, s_dev) == settings.root_dev;
}

/* At the root of a mount: the session's root, or where it is mounted. */
static __always_inline long cross(struct walk *w)
{
	struct mount *mount = w->mount;
	struct mount *parent = BPF_CORE_READ(mount, mnt_parent);
	unsigned long ns;

	if ((__u32)BPF_CORE_READ(mount, mnt_id) == settings.root_mount) {
		w->end = END_ROOT;
		return 1;
	}
	ns = (unsigned long)BPF_CORE_READ(mount, mnt_ns);
	if (ns == MNT_NS_INTERNAL) {
		w->end = END_INTERNAL;
		return 1;
	}
	/* A copy of our mounts, in another namespace, has a copy of our root. */
	if (ns && is_root(w->dentry) &&
	    BPF_CORE_READ((struct mnt_namespace *)ns, ns.inum) !=
		    settings.root_ns) {
		w->end = END_ROOT;
		return 1;
	}
	if (parent == mount) {
		w->end = END_FOREIGN;
		return 1;
	}
	w->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
	w->mount = parent;
	w->root = BPF_CORE_READ(parent, mnt.mnt_root);
	return 0;
}

static long climb(__u32 i, struct walk *w)
{
	struct dentry *parent, *d = w->dentry;
	struct mount *mount = w->mount;
	const unsigned char *name;
	__u32 len, at;

	if (d == w->root)
		return cross(w);
	d = bpf_rdonly_cast(d, bpf_core_type_id_kernel(struct dentry));
	parent = d->d_parent;
	len = d->d_name.len;
	name = d->d_name.name;
	if (parent == d || !len || len > MAX_NAME) {
		w->end = (unsigned long)BPF_CORE_READ(mount, mnt_ns) ==
					 MNT_NS_INTERNAL ?
				 END_INTERNAL : END_FOREIGN;
		return 1;
	}
	at = w->at - len - 1;
	if (at < PATH_MIN || at > PATH_END) {
		w->end = END_LONG;
		return 1;
	}
	/* The compiler may not forget these bounds: the verifier wants them. */
	asm volatile("%0 &= 0x1fff" : "+r"(at));
	asm volatile("%0 &= 0xff" : "+r"(len));
	w->path[at] = '/';
	if (bpf_probe_read_kernel(&w->path[at + 1], len, name)) {
		w->end = END_FOREIGN;
		return 1;
	}
	w->at = at;
	w->dentry = parent;
	return 0;
}

static __always_inline __u32 rename_sequence(void)
{
	__u32 seq = 0;

	if (settings.rename_lock)
		bpf_probe_read_kernel(&seq, sizeof(seq),
				      (const void *)settings.rename_lock);
	return seq;
}

#define MAX_WALKS 64
#define MAX_TRIES (1 << 16)

struct finding {
	struct dentry *dentry;
	struct mount *mount;
	struct walk *walk;
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
	struct mount *mount = f->mount;
	__u32 seq = rename_sequence();
	struct walk *w = f->walk;

	if (seq & 1)
		return 0;
	w->dentry = f->dentry;
	w->mount = mount;
	w->root = BPF_CORE_READ(mount, mnt.mnt_root);
	w->at = PATH_END;
	w->end = END_NONE;
	bpf_loop(MAX_CLIMB, climb, w, 0);
	f->found = rename_sequence() == seq;
	return f->found || ++f->slot->walks == MAX_WALKS;
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
	struct walk w = {};
	struct finding f = { .walk = &w };

	if (!s)
		return -EAGAIN;
	w.path = s->path;
	s->walks = 0;
	f.slot = s;
	f.dentry = (struct dentry *)s->q.dentry;
	f.mount = mount_of((struct vfsmount *)s->q.mnt);
	bpf_loop(MAX_TRIES, try, &f, 0);
	if (!f.found)
		return -EAGAIN;
	if (w.end == END_INTERNAL) {
		w.at = PATH_END; /* a name at most, and no path */
	} else if (w.at == PATH_END) {
		w.at = PATH_END - 1;
		s->path[PATH_END - 1] = '/';
	}
	s->at = w.at;
	s->end = w.end == END_NONE ? END_LONG : w.end;
	return 0;
}

#endif
