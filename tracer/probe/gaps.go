package probe

import "slices"

// Gap is something that an attack could try and an engine does not hold, whatever
// the policy says. What depends on the policy is said by `reeve policy check`.
type Gap struct {
	// Rows are the techniques by the names that the tests have for them.
	Rows []string `json:"rows"`
	What string   `json:"what"`
	// Engines are those that do not hold it.
	Engines []string `json:"engines"`
}

var (
	everyEngine = []string{LSM, UnotifyRoot, Unotify}
	withoutLSM  = []string{UnotifyRoot, Unotify}
)

// gaps is the list, the wider ones first.
var gaps = []Gap{
	{[]string{"F10"}, "names: stat, access, readlink and listings of readable directories show that a denied file is there, its size and times", withoutLSM},
	{[]string{"F10"}, "names: access, readlink and listings of readable directories show that a denied or hidden file is there", []string{LSM}},
	{[]string{"F09"}, "what a program does with what it may read: copies, and what it sends where the network is allowed", everyEngine},
	{[]string{"P36", "N10"}, "a descriptor that somebody outside passes to the session over a socket it may use", withoutLSM},
	{[]string{"N10"}, "a socket that somebody outside passes to the session over a socket it may use; files are judged", []string{LSM}},
	{[]string{"P13", "P14"}, "a hard link or bind mount from before the session: it is judged by the name that it is opened by", everyEngine},
	{[]string{"X16"}, "code that a program makes in its own memory", everyEngine},
	{[]string{"X21"}, "a copy of a denied program with a byte changed, where the session may run what it writes", everyEngine},
	{[]string{"X01", "X14"}, "a denied program below a directory that the session can write, raced to run", []string{Unotify}},
	{[]string{"X02"}, "the words of a static program that another thread changes, before its first guarded call", []string{Unotify}},
	{[]string{"A03", "A04", "P13", "P14", "P20", "P21"}, "what goes around the filter where a policy allows io_uring, namespaces or mounts", withoutLSM},
	{[]string{"N14"}, "network rules by name: addresses are judged", everyEngine},
	{[]string{"K17"}, "reeve and its init killed in the same instant: the tree lives on, and what needs reeve fails", []string{Unotify}},
	{[]string{"K17"}, "reeve and its init killed in the same instant: the tree lives on until root's next run, and what needs reeve fails", []string{UnotifyRoot}},
	{[]string{"K17"}, "reeve and its init killed in the same instant: the tree lives on until root's next run, and what is judged fails; without a BPF file system at /sys/fs/bpf the hooks are gone", []string{LSM}},
	{nil, "the kernel itself: an exploit of it", everyEngine},
}

// Gaps are what an engine does not hold.
func Gaps(engine string) []Gap {
	return slices.DeleteFunc(slices.Clone(gaps), func(g Gap) bool { return !slices.Contains(g.Engines, engine) })
}
