// Package lsm is the judge of the engine "lsm": BPF programs at the hooks of the
// security modules that run the compiled policy on the object which the kernel
// resolved, for every task of one session (bpf/lsm.bpf.c). It makes tables of a
// policy's automata, loads and attaches the programs, marks the session's first
// task, tells the hooks what the gate knows, and reads their records. It needs
// root, and `bpf` among the kernel's security modules.
//
// # What the hooks hold alone
//
// Opens of files for reading and writing, files that open makes, descriptors
// from outside, code that is mapped, and stat of what is hidden, by the very
// automata that the supervisor decides with. Only what they cannot judge alone
// is notified; see package gate's handling Hook.
//
// What the policy asks about is refused by a hook unless a grant answers it: where
// somebody is asked the class of such opens is notified instead, where nobody is
// nothing of it needs to be. Then the hooks also count the files that were there
// before and are opened to be overwritten, and what is one too many is refused at
// the open itself (Rules.Bulk, bpf/lsm_bulk.h); deletions, which the supervisor makes,
// are counted to the same total (Engine.Lose). Files and directories that the session
// made are marked at their inodes (bpf/lsm_own.h), by which the supervisor knows its
// files, too (Engine.Made). An inode that the kernel has forgotten and reads anew is a
// stranger's: it counts, and is protected. Two who open one file at once may both count.
//
// # What they are a floor for
//
// Programs: the gate is asked about every execve, and file_open refuses what the
// policy does not let run, whatever the arguments have become. Changes of names
// and of metadata, and sockets: the supervisor makes those calls for the task, so
// a task that comes to these hooks has found another way, as through io_uring;
// there the hooks refuse whatever they cannot judge for sure. Namespaces,
// mounts, bpf and their like are closed unless the policy opens them.
//
// # Hooks that there is no need for
//
//   - inode_setattr, for times: every call that sets them (utime, utimes, futimesat,
//     utimensat, a null path included) is notified under every policy, foreign
//     numbers of them are killed, and a ring of io_uring has no such operation; see
//     TestRingOps, which fails where a kernel's rings can do more than was read
//     through. The hook itself has no mount, so no path, and the kernel calls it for
//     much else. Modes, owners and lengths have hooks of their own.
//   - bprm_check_security: every file that an execve reads as a program (what was
//     asked for, interpreters of scripts and of binfmt_misc, the loader) is opened
//     for it, by whatever descriptor or name, and file_open holds that.
//   - unix_stream_connect and unix_may_send come after socket_connect and
//     socket_sendmsg, which see every connect and every message that names an
//     address, those of a ring among them, and refuse what the gate does not make
//     itself. A message that names none goes where a connect went. (sendmmsg leaves
//     out the second of two messages to one address, after the first was let be.)
//
// A hook that sees a file mapped as code can ask nobody either. What somebody was asked
// about and said yes to, to read it or to run it, may be mapped by whoever has it open
// (Engine.Answered): what may be read may as well be copied to memory and run there.
// What a rule about programs asks about asks before it is read, so nothing else comes to
// be open.
//
// Grants are for files: thread, device, inode. A destination needs none, since the
// gate makes the connection that was answered yes, with the address that it read.
//
// # Records
//
// Denials have a ring of their own, so that a flood of what is allowed cannot
// crowd them out; forks, programs and exits are in the witness's. What finds no
// room is counted by cause and reported; a denial stays one. With Config.Strict an
// allowed operation that finds no room is refused with EAGAIN, and so are a fork
// and an exec that the witness could not record: each process keeps the room for
// its own exit from its fork on, which so is never lost.
//
// With Config.Numbers a record stays in its ring until it is on the bus, so that
// none is lost with this process (package ring). A path of more than 4,095 bytes is
// refused unless nothing is held at all; the record then has the end of it, and says
// so (Access.PathLong). What takes room is then what the
// bus has not acknowledged yet, besides what was not read: a bus that comes up late,
// or is slow, fills the rings as a slow reader does.
//
// # Sessions inside a session
//
// Each has programs and maps of its own beside those of the sessions outside
// (Config.Inner), and a task is in the scope of all that it is inside of. The
// kernel asks one after another, the youngest first, and ends with the first that
// refuses: so a task may do what all of them allow. Refusals are recorded by who
// refuses, what is allowed by the outermost, and every record names the innermost
// session (Engine.Hand). A closed surface that is closed outside already needs no
// program inside. The process that begins a session is in it, and out of reach for
// what it starts.
//
// # What they do not hold, or hold more strictly
//
//   - What a repository that the session itself made may do to its protected files
//     only the gate knows. Git's own way (exclusive making, renames) goes by way of
//     it, and the files that say where a repository is are allowed in directories
//     that the session made (Outcome.Own); any other plain open for writing of such
//     a file is refused here.
//   - A socket that another program passes to the session is not judged; files are.
//   - A session that may mount can give a directory another path.
//   - With io_uring allowed, an overlay cannot copy up files that have extended
//     attributes, as these are refused.
//   - When this process is killed, nothing is allowed any more; nor when init is killed
//     with it, while what Engine.Pin pinned is there. What is in the rings
//     then is stored by the next reeve, unless init is killed as well, or the machine
//     stops. Refusals of paths that come after it are recorded as they are, exits of
//     processes that are ended for it are not: the witness is gone.
//   - The kernel takes 38 programs at one hook, so 38 sessions at once, those inside
//     others among them. One more is refused: ErrCrowded.
//   - A terminal that the session outside made belongs to one inside only where it
//     is its controlling terminal.
//
// The programs need Linux 6.12 (as tried; some of what they call is newer than 6.1),
// CONFIG_BPF_LSM with bpf among the modules, and CONFIG_KALLSYMS_ALL.
package lsm
