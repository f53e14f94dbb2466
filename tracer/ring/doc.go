// Package ring is the rings of the kernel's programs as something that outlives
// reeve: a reader that gives a record's place back only when the record is safe,
// the journal that says which are, and what is left of them when reeve was killed.
//
//	kernel's programs ──▶ ring [given back │ read, not acked │ not read] ──▶ reeve
//	                            consumer ──┘                   producer ──┘
//
// # Who holds what
//
//   - Reader (reeve) reads on, and moves the consumer's position, which the kernel
//     sees, only behind records that the bus has acked (Set.Ack, told by the
//     publisher). Until then they take room: a bus that is slow makes the ring full,
//     and the kernel's programs count, or refuse, what finds none.
//   - Journal (a file of the session) states for each message, before it is
//     published, how far into each ring the records up to its last one reach. So
//     which records of a ring are in the stream follows from the sequence number of
//     the stream's last record, and from nothing else.
//   - Init (package spawn) holds the maps, the programs that write into them until the
//     tree is gone, the session's directory and its lock, and
//     lets go of all when reeve says Leave. If reeve is gone without that word, init
//     ends the tree, and then, with nobody left who could write, Save copies what is
//     between consumer and producer into the session's directory.
//   - The next reeve that stores what the session left reads it (Load) and records
//     what the journal does not say to be in the stream.
//
// # Who may race, and what a failure does
//
//   - Ack and Read: the position is moved by Ack alone, under a lock, and only
//     forward; pieces may be acked in any order and count once those before do.
//   - A record that is on the bus, but not acked when reeve dies, is saved by init
//     and known to be in the stream by the journal. One that is journaled, but not
//     on the bus, has a later sequence number than the stream's last one.
//   - The lock: it is the open file's, so the session is alive for others until init
//     has saved what there is; a session that ends in order unlocks it at once.
//   - The journal cannot be written, or is gone: what is recovered may come twice.
//     Save fails or is killed: what it wrote counts, the rest is stated as lost.
//     Recovery is killed: it is done again, and its own records are journaled, too.
//   - Sessions inside: what is recovered of their tasks is told to the outermost, and
//     may be in their own streams as well; which forks, programs and exits are in the
//     outermost's is not known then, so these may come twice.
//   - The kernel's counts of what found no room are looked at five times a second; a
//     ring that is full when it is saved is named, what was counted since is not.
//   - Init is killed together with reeve, or the machine stops: what was in the
//     rings is lost. A tree that lost both lives on, without records: what waits for
//     the gate fails (ENOSYS), and nobody is left to end the rest.
package ring
