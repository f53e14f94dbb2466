/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What has no path: other tasks, sockets, and the parts of the kernel that a
 * supervised tree has no business with. settings.closed says what is closed:
 * parts of the kernel, and classes of calls that the supervisor makes for a
 * task, so that a task which comes here has found another way.
 * All fail towards refusal.
 */

#define AF_UNSPEC 0
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define AF_NETLINK 16
#define NETLINK_USERSOCK 2
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define PTRACE_MODE_NOAUDIT 0x04 /* linux/ptrace.h */

/* Refuse if a surface is closed. */
static __always_inline int closed(__u32 bit, enum op op, enum why why,
				   __u64 arg)
{
	if (!ours())
		return 0;
	if (over)
		why = WHY_OVER;
	else if (!(settings.closed & bit))
		return 0;
	return refuse_surface(op, why, arg);
}

/* Sent by user space: the kernel does not ask here about its own signals. */
SEC("lsm/task_kill")
int BPF_PROG(reeve_task_kill, struct task_struct *task,
	     struct kernel_siginfo *info, int sig, const struct cred *cred,
	     int ret)
{
	if (ret || !ours() || settings.flags & ANY_SIGNAL || !stranger(task))
		return ret;
	return refuse_surface(LSM_SIGNAL, WHY_STRANGER,
			      (__u64)sig << 32 | (__u32)task->tgid);
}

/* Where the surface is open it is so among the session's own tasks. */
SEC("lsm/ptrace_access_check")
int BPF_PROG(reeve_ptrace_access_check, struct task_struct *child,
	     unsigned int mode, int ret)
{
	int open = !(settings.closed & SURFACE_PTRACE) &&
		   settings.flags & (ANY_SIGNAL | RECORD_ONLY);

	if (ret || open || !ours() || !stranger(child))
		return ret;
	if (mode & PTRACE_MODE_NOAUDIT) /* it is only shown less in /proc */
		return -EPERM;
	return refuse_surface(LSM_PTRACE, WHY_STRANGER,
			      (__u64)mode << 32 | (__u32)child->tgid);
}

/* A family or a protocol that the policy does not open; see gate's socket. */
static __always_inline int open_family(int family, int type, int protocol)
{
	if (family == AF_UNIX)
		return 1;
	if ((family == AF_INET || family == AF_INET6) &&
	    ((type == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP)) ||
	     (type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP))))
		return 1;
	/* It reaches other programs. No socket is of AF_UNSPEC, so its bit is free. */
	if (family == AF_NETLINK && protocol == NETLINK_USERSOCK &&
	    !(settings.families >> AF_UNSPEC & 1))
		return 0;
	return family >= 0 && family < 64 && settings.families >> family & 1;
}

SEC("lsm/socket_create")
int BPF_PROG(reeve_socket_create, int family, int type, int protocol, int kern,
	     int ret)
{
	if (ret || kern || open_family(family, type, protocol))
		return ret;
	return closed(SURFACE_SOCKET, LSM_SOCKET, WHY_SURFACE, family);
}

SEC("lsm/socket_connect")
int BPF_PROG(reeve_socket_connect, struct socket *sock,
	     struct sockaddr *address, int addrlen, int ret)
{
	return ret ? ret : closed(SURFACE_CONNECT, LSM_CONNECT, WHY_GATE, 0);
}

SEC("lsm/socket_bind")
int BPF_PROG(reeve_socket_bind, struct socket *sock, struct sockaddr *address,
	     int addrlen, int ret)
{
	return ret ? ret : closed(SURFACE_BIND, LSM_BIND, WHY_GATE, 0);
}

SEC("lsm/socket_listen")
int BPF_PROG(reeve_socket_listen, struct socket *sock, int backlog, int ret)
{
	return ret ? ret : closed(SURFACE_BIND, LSM_LISTEN, WHY_GATE, 0);
}

/* A message that names where it goes; others go where connect was judged. */
SEC("lsm/socket_sendmsg")
int BPF_PROG(reeve_socket_sendmsg, struct socket *sock, struct msghdr *msg,
	     int size, int ret)
{
	if (ret || !BPF_CORE_READ(msg, msg_name))
		return ret;
	return closed(SURFACE_SEND, LSM_SEND, WHY_GATE, 0);
}

SEC("lsm/sb_mount")
int BPF_PROG(reeve_sb_mount, const char *dev_name, const struct path *path,
	     const char *type, unsigned long flags, void *data, int ret)
{
	return ret ? ret : closed(SURFACE_MOUNT, LSM_MOUNT, WHY_SURFACE, flags);
}

SEC("lsm/move_mount")
int BPF_PROG(reeve_move_mount, const struct path *from, const struct path *to,
	     int ret)
{
	return ret ? ret : closed(SURFACE_MOUNT, LSM_MOUNT, WHY_SURFACE, 0);
}

SEC("lsm/sb_umount")
int BPF_PROG(reeve_sb_umount, struct vfsmount *mnt, int flags, int ret)
{
	return ret ? ret : closed(SURFACE_MOUNT, LSM_MOUNT, WHY_SURFACE, flags);
}

SEC("lsm/sb_pivotroot")
int BPF_PROG(reeve_sb_pivotroot, const struct path *old_path,
	     const struct path *new_path, int ret)
{
	return ret ? ret : closed(SURFACE_MOUNT, LSM_MOUNT, WHY_SURFACE, 0);
}

SEC("lsm/path_chroot")
int BPF_PROG(reeve_path_chroot, const struct path *path, int ret)
{
	return ret ? ret : closed(SURFACE_CHROOT, LSM_CHROOT, WHY_SURFACE, 0);
}

SEC("lsm/userns_create")
int BPF_PROG(reeve_userns_create, const struct cred *cred, int ret)
{
	return ret ? ret :
		     closed(SURFACE_NAMESPACE, LSM_NAMESPACE, WHY_SURFACE, 0);
}

/* Linux 6.15 has one more argument, so the incoming result is not looked at. */
SEC("lsm/bpf")
int BPF_PROG(reeve_bpf, int cmd)
{
	return closed(SURFACE_BPF, LSM_BPF, WHY_SURFACE, cmd);
}

/* Linux 6.16 has an argument less, so the incoming result is not looked at. */
SEC("lsm/perf_event_open")
int BPF_PROG(reeve_perf_event_open)
{
	return closed(SURFACE_PERF, LSM_PERF, WHY_SURFACE, 0);
}

SEC("lsm/kernel_load_data")
int BPF_PROG(reeve_kernel_load_data, int id, _Bool contents, int ret)
{
	return ret ? ret : closed(SURFACE_MODULE, LSM_MODULE, WHY_SURFACE, id);
}

SEC("lsm/kernel_read_file")
int BPF_PROG(reeve_kernel_read_file, struct file *file, int id, _Bool contents,
	     int ret)
{
	return ret ? ret : closed(SURFACE_MODULE, LSM_MODULE, WHY_SURFACE, id);
}

/* Attributes have no path here: only by way of the gate. */
SEC("lsm/inode_setxattr")
int BPF_PROG(reeve_inode_setxattr)
{
	return closed(SURFACE_XATTR, LSM_SETXATTR, WHY_GATE, 0);
}

SEC("lsm/inode_removexattr")
int BPF_PROG(reeve_inode_removexattr)
{
	return closed(SURFACE_XATTR, LSM_SETXATTR, WHY_GATE, 0);
}
