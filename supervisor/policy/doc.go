// Package policy is the policy of a session: it reads policy files, lays them
// over one another, and answers every request of a supervised task with a
// decision, an explanation, or a plan for the kernel's side. It is pure: files,
// the environment and everything known about the machine come in as arguments.
//
// # Files and profiles
//
// A policy file is TOML. It holds profiles, and may name one as its default:
//
//	default_permissions = "project-edit"
//
//	[permissions.project-edit]
//	description = "Edits the project, reaches one server."
//	extends = ":workspace"
//
// extends takes up all that another profile says: one of the same file by its
// name, a built-in one by ":name" (":read-only", ":workspace-edit-no-net",
// ":workspace-edit-net-allowlist", ":privileged-manual", ":observe"), and
// ":workspace" for the built-in default. What the profile itself says replaces
// what the other says of the same pattern. Unknown keys are errors, with the
// place in the file and what was probably meant.
//
// # Files of the session
//
//	[permissions.project-edit.filesystem]
//	"~/data"           = "read"        # and everything below it
//	"/srv/**/*.sqlite" = "deny"
//	":tmp"             = "write"
//	[permissions.project-edit.filesystem.":workspace_roots"]
//	"."        = "write"               # each workspace itself
//	"**/*.pem" = "deny"                # at any depth of it
//
// The words are
//
//	deny       no access
//	hide       no access, and open fails as if there were nothing (stat still sees the name)
//	read       may be read and run
//	write      may be read, run and changed
//	ask        every access asks
//	ask-write  may be read and run; changes ask
//	list       the directory itself may be listed; says nothing about what is below
//
// Until there are approvals, what asks is denied with that reason. Patterns are
// about resolved paths; "*", "?", "[a-z]" and "{a,b}" stand inside one component,
// "**" is any number of components, "\" takes a meaning away. What matches a
// directory governs what is below it. Of the patterns of one profile that match,
// the most specific decides: the exact path, then the longer literal beginning,
// then more literal bytes, then the stricter word. What no pattern of the
// profile matches is denied.
//
// Own tasks are /proc/self to a policy, whatever their numbers are, and all
// others /proc/[0-9]*.
//
// The specials stand for what this host has:
//
//	:minimal          loader, libraries, locales, time zones, certificates, name services, basic devices, /proc of own tasks
//	:system           programs, their data and their settings: /usr, /etc, /sys …
//	:toolchains       what stands on the PATH, with its installation prefix, also below the home directory
//	:caches           tool caches of the host, to be read
//	:user_config      settings of ordinary tools in the home directory
//	:workspace_roots  the workspaces                     (may be a table)
//	:home             the home directory                 (may be a table)
//	:tmp              /tmp, /var/tmp, /dev/shm and the session's own directory (may be a table)
//	:session_tmp      the session's own temporary directory and private tool caches (may be a table)
//
// In /tmp other users' files are kept by their permissions and the sticky bit,
// as without reeve; sockets, tickets and private directories of the same user's
// other programs are kept by the layer of secret files, and other sessions'
// directories by that of reeve's own. Programs that honour TMPDIR never see it.
//
// # Programs
//
//	[permissions.project-edit.exec]
//	"/usr/bin/curl" = "deny"           # allow, ask or deny
//	":memory" = "deny"                 # files without a name, such as memfd
//
// read and write imply that what is there may run; this table narrows that. A
// program that may not run may not be read either, because a loader could run it.
// Rules are about paths: a copy elsewhere is another program.
//
// # Network
//
//	[permissions.project-edit.network]
//	enabled = true
//	mode = "limited"         # full, limited to what is listed, or ask for the rest
//	bind = "loopback"        # none, loopback or any
//	local = "deny"           # loopback services that are not the session's own
//	private = "deny"         # private networks; unset, they are as any other
//	metadata = "deny"        # where clouds hand out credentials
//	families = ["netlink"]   # besides unix, and TCP and UDP over IPv4 and IPv6
//	[permissions.project-edit.network.addresses]
//	"192.0.2.0/24:443" = "allow"       # ADDR, ADDR/BITS, with or without :PORT, "*", "*:PORT"
//	[permissions.project-edit.network.domains]
//	"*.example.com" = "allow"
//	[permissions.project-edit.network.unix_sockets]
//	"/run/docker.sock" = "allow"
//
// Without enabled = true only loopback ports that the session itself listens on
// are reached. Unset, mode is "limited" where anything is allowed by name, and
// "full" otherwise. Names are not enforced yet: where there are rules about
// domains, only what addresses allows is reached. Unix sockets are reached
// where the session made them, in the workspaces, and where they are listed.
//
// # Environment
//
//	[permissions.project-edit.env]
//	inherit = [":default", "MY_*"]     # ":default" is the built-in list
//	deny = [":secrets"]                # tokens, keys, agents' sockets …
//	mask = ["BUILD_ID"]
//	set = { EDITOR = "vi", X = "{tmp}/x" }   # {home}, {tmp}, {cache}
//	private_caches = true              # what tools cache goes to a private place
//
// # Exceptions from the built-in layers
//
// Over every profile lie three layers that are built in: reeve's own files, which
// nothing opens; secret files, denied everywhere; and protected configuration in
// the workspaces (.git/hooks and .git/config, CI files, agents' settings, …),
// which may be read and not changed. A person may make exceptions:
//
//	[permissions.project-edit.secrets]
//	"~/project/.env" = "read"          # or "write"
//	[permissions.project-edit.protected.":workspace_roots"]
//	".github" = "write"
//
// An exception holds where it is more specific than the built-in pattern; "/"
// lifts a layer altogether. What is not there is no secret: a file with a
// secret's name may be made, but not opened again. A repository that the session
// itself made is git's to configure, but for live hooks, and only with settings
// that are known to be data; one that stood there is not moved away, and no .git
// file is made in a directory that stood there. What a directory is called decides
// what a repository is, so a bare repository without .git in its name is not
// protected, nor is one that a .git file in a directory of the session's names:
// set git's safe.bareRepository=explicit on the host, and look before running git
// in, or pushing to, a directory that the session made.
//
// # The rest
//
//	[permissions.x.capabilities]
//	keep = ["chown"]                   # of a session run as root
//	[permissions.x.kernel]
//	allow = ["mount"]                  # surfaces that are otherwise refused
//	[permissions.x.limits]
//	processes = 512
//	memory = "4GiB"                    # open_files, file_size, cpu = "10m", wall = "2h"
//	[permissions.x.approval]
//	timeout = "60s"
//	[permissions.x]
//	signals = "session"                # or "any"
//	record_only = false                # record without holding back
//
// limits and approval may also stand at the top of a file.
//
// # Layers
//
// Sources are laid over one another, and in every plane the stricter wins: the
// envelope, which root owns, the user's file, the workspace's own file, and the
// one named on the command line. A profile of the workspace's own file can only
// narrow, and makes no exceptions. See [Load] for which profile applies.
package policy
