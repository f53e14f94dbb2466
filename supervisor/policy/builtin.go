package policy

import (
	_ "embed"
	"slices"
)

// DefaultProfile is the profile of a session for which none was chosen.
const DefaultProfile = "workspace-edit-no-net"

//go:embed data/profiles/read-only.toml
var readOnlyText string

//go:embed data/profiles/workspace-edit-no-net.toml
var workspaceNoNetText string

//go:embed data/profiles/workspace-edit-net-allowlist.toml
var workspaceAllowlistText string

//go:embed data/profiles/privileged-manual.toml
var privilegedManualText string

//go:embed data/profiles/observe.toml
var observeText string

// builtInNames are the built-in profiles, the narrowest first.
var builtInNames = []string{
	"read-only", "workspace-edit-no-net", "workspace-edit-net-allowlist", "privileged-manual", "observe",
}

var builtInTexts = map[string]string{
	"read-only":                    readOnlyText,
	"workspace-edit-no-net":        workspaceNoNetText,
	"workspace-edit-net-allowlist": workspaceAllowlistText,
	"privileged-manual":            privilegedManualText,
	"observe":                      observeText,
}

// workspaceName is the special that extends the default profile.
const workspaceName = ":workspace"

// BuiltInProfiles names the built-in profiles, the narrowest first.
func BuiltInProfiles() []string { return slices.Clone(builtInNames) }

// BuiltInText is the text of a built-in profile, in the language that files are
// written in; ok is false when there is no such profile.
func BuiltInText(name string) (text string, ok bool) {
	text, ok = builtInTexts[name]
	return text, ok
}

// specialFiles are the specials that a filesystem table takes; specialPlaces
// those of them that are directories, which every table of paths takes and below
// which relative patterns can stand.
var (
	specialPlaces = []string{":workspace_roots", ":home", ":tmp", ":session_tmp"}
	specialFiles  = append([]string{":minimal", ":system", ":toolchains", ":caches", ":user_config"}, specialPlaces...)
)

// envLists are the lists of variables that env tables can name.
var envLists = []string{":default", ":secrets"}

// surfaceNames are the parts of the kernel that a kernel table can allow.
var surfaceNames = []string{
	"mount", "namespace", "chroot", "io_uring", "bpf", "perf_event", "module", "keyring", "userfaultfd", "ptrace",
	"pidfd", "system", "rawio", "fanotify", "handle", "terminal", "unknown",
}

// familyNames are the socket families that a network table can open besides
// unix, and TCP and UDP over IPv4 and IPv6.
var familyNames = []string{"*", "netlink", "packet", "vsock", "alg", "raw", "icmp", "sctp", "mptcp", "can", "bluetooth"}

// kernelFamilies lead to the kernel and no further: they need no network.
var kernelFamilies = []string{"netlink", "alg"}
