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
// Without somebody to ask, what asks is denied with that reason. Patterns are
// about resolved paths; "*", "?", "[a-z]" and "{a,b}" stand inside one component,
// "**" is any number of components, "\" takes a meaning away. What matches a
// directory governs what is below it. Of the patterns of one profile that match,
// the most specific decides: the exact path, then the longer literal beginning,
// then more literal bytes, then the stricter word. What no pattern of the
// profile matches is denied.
//
// Where a denial has to hold whatever more specific pattern opens, it stands in
//
//	[permissions.project-edit.always]
//	"/**/*.kdbx" = "deny"              # deny, hide, ask, read (no changes) or ask-write
//
// Of these rules all that match hold.
//
// Own tasks are /proc/self to a policy, whatever their numbers are, and all
// others /proc/[0-9]*.
//
// The specials stand for what this host has:
//
//	:minimal          loader, libraries, locales, time zones, certificates, name services, basic devices, /proc of own tasks
//	:system           programs, their data and their settings: /usr, /etc, /sys …
//	:toolchains       what stands on the PATH, with its installation prefix, also below the home directory; reeve itself
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
//	":interpreters" = "allow"          # shells, python, node … by the class below
//
// read and write imply that what is there may run; this table narrows that. A
// program that may not run may not be read either, because a loader could run it.
// A rule that names a symbolic link is about where it leads, and policy check says
// so: "/usr/bin/python3" is about /usr/bin/python3.11. It holds for hard links and
// copies too, which are known by inode and content: of the same size, the same
// SHA-256. A copy of which one byte was changed is another program, as is one that
// was compiled anew. What is many programs in one file (busybox, coreutils) is
// judged by what it is called as, and what a dynamic loader is told to run is judged
// as if it ran by itself.
//
// # Commands
//
//	[permissions.project-edit.commands]
//	destructive = "ask"                # loses what cannot be had back: rm -r src, git push --force, DROP TABLE
//	privileged = "deny"                # sudo, systemctl restart, mount, set-user-ID programs
//	publish = "ask"                    # git push, npm publish, gh release create
//	remote = "ask"                     # ssh, scp to a host, docker, kubectl, cloud tools, database clients
//	install = "allow"                  # npm ci, pip install, apt-get install, git clone
//	interpreter = "allow"              # shells, python, node, perl, awk
//	bulk = { files = 50, window = "10s", action = "ask" }
//	[[permissions.project-edit.commands.rule]]
//	program = ["deploy", "deploy.sh"]  # file names, without directories
//	class = "publish"                  # or action = "deny"
//	reason = "deploys to production"
//	[[permissions.project-edit.commands.rule]]
//	program = "git"
//	sub = "push"                       # subcommand: "remote remove" is one of two words
//	operands = ["backup"]              # one operand is like one of these
//	unless = ["-f", "--force"]         # none of these options
//	action = "allow"
//
// A command is judged at its execve, by the program that runs and the words that
// it is given: what a shell, an alias, env or xargs makes of a line needs no
// reading, and "git commit -m 'rm -rf /'" is a commit. Words are read as the program
// reads them: git's options before its subcommand, letters in one word, "--", and
// shortened long options. Scripts and programs are known by their file, python3.11
// as python.
//
// A rule of one's own names program, and any of: sub; flags and also, of each of
// which one option must be there; unless and unless_operands, of which none may;
// operands, last for the last of them, further for those after the first, and behind
// for those behind "--"; values with texts, options of which one must have a value
// like one of the texts, and unless_texts; unless_by, programs that may do it as a
// part of what they do. Operands and texts are words, which may end in "*", or kinds,
// also behind a beginning ("of=:device"):
//
//	:any       any word                       :device    a device that holds data
//	:kept      a path in no scratch folder    :remote    host:path, scheme://host
//	:outside   … and in no workspace          :forced    +ref         :deleting  :ref
//	:root      a workspace, or above it       :sql       DROP, TRUNCATE, DELETE without WHERE
//	:artifact  what a build makes: *.o        :tree      :kept, and a directory stands there
//	:several   a path that may be of more than one file: src, *.go, not main.go
//	:pathspec  such a path by its form, which no branch can have: ., ./x, x/, *
//
// A rule with argv is about one command and nothing beside it: program is then the
// absolute path of the file behind all links, argv all words with the program's name
// first, and cwd, which may be left out, the directory it runs in. It counts before
// other rules of its profile. It is what an approver's "always" writes:
//
//	[[permissions.project-edit.commands.rule]]
//	program = "/usr/bin/git"
//	argv = ["git", "push", "--force", "origin"]
//	cwd = "/home/me/project"
//	action = "allow"
//
// Rules that say an action decide instead of the classes, those of the profile
// itself before those that it extends; of several that match the strictest counts.
// Across layers the stricter wins. What a closed profile does not say is as in the
// built-in default.
//
// Scratch folders are the directories for temporary files and, below a workspace,
// what is called as builds and package managers call theirs (build, target, dist,
// bin, node_modules, __pycache__, .venv …). What the session itself made it may
// delete without a question. Paths are taken as the command has them: one that
// leads through a link that stood there before is judged by its name.
//
// bulk holds what deletes or overwrites more than so many files within a time,
// whichever program does it, from the first that is too many on. Only files count
// that stood there before the session and are not scratch; what git does never
// counts, since its commands that lose something are judged by what they mean. An
// answer holds until the change pauses, or for the session. A file that is moved or
// linked to where it is scratch counts, a directory as many. It is a net and no wall:
// what goes slowly, and what is done to a file that was opened to append to (ftruncate,
// fallocate, a shared mapping, the flag taken off), does not count.
//
// What git writes over in the work tree asks: checkout of paths, restore, reset --hard,
// clean -f. A plain word ("git checkout src") git takes for a branch when there is one,
// and else for a path; here it is taken for a branch, unless its form is that of a file.
//
// What this cannot see: commands that a program does not run as a program, such as
// the built-in ones of busybox's shell, perl -e unlink, SQL on standard input, and
// settings that come from the environment (GIT_CONFIG_COUNT). They are held by the
// files that they touch, and by bulk.
//
// How far it holds: the words of an execve are read once, and the kernel reads them
// again when the call goes on. A task with another thread, or with shared memory,
// can change them in between. As root the kernel compares what the new program was
// told with what was judged, and kills it before its first instruction when that
// differs. As an ordinary user, and for vectors of more than 1,024 bytes, they are
// compared when it makes its first call that is trapped: a
// dynamically linked program makes that call in its loader, before any code of its
// own; a static one runs until it touches a file, a name or an address, and could
// before that write to descriptors that it was given. There a program that runs
// itself with its own words again is not seen to have done so. binfmt_misc's
// interpreters are not compared. The working directory and what a
// path leads to are those at the time of the judgement. What must hold against a
// program that was written to get around this belongs into the other tables: a path
// that is denied is denied whatever the words are.
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
//	families = ["netlink"]   # besides unix, and TCP and UDP over IPv4 and IPv6; netlink
//	                         # and alg, which reach the kernel only, also without a network
//	                         # (netlink's USERSOCK, which reaches programs, is open with "*" alone)
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
//	private_caches = true              # what tools cache goes to a private place; go finds what the host has built
//
// # Exceptions from the built-in layers
//
// Over every profile lie three layers that are built in: reeve's own files, which
// nothing opens; secret files, denied everywhere; and protected configuration in
// the workspaces (.git/hooks and .git/config, CI files, agents' settings, …),
// which may be read and asks to be changed. A person may make exceptions:
//
//	[permissions.project-edit.secrets]
//	"~/project/.env" = "read"          # or "write"
//	[permissions.project-edit.protected.":workspace_roots"]
//	".github" = "write"
//
// An exception holds where it is more specific than the built-in pattern; "/"
// lifts a layer altogether. What is not there is no secret: a file with a
// secret's name may be made, and a regular file that the session itself made is no
// secret of the host: it may be opened, renamed and removed under any name, but not
// run. It stays the session's when it is renamed; what was truncated, overwritten,
// moved or linked does not become it, and what another session made is not this one's,
// nor is what the session outside made one inside. What the host writes into such a file
// may be read until a minute after the session could last begin to change it, and by
// whatever the session has kept open; under the engine lsm for as long as the kernel
// keeps the inode. What a profile says of a file holds for its own as for any. A
// repository that the session itself made is git's to configure, but for live hooks, and only with settings
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
// # Deciding anew, and learning
//
// A [Review] decides a recorded session's operations by another policy, in their
// order and with a [Ledger] for each policy, so that what the session made counts
// again. What was held as one of many changes is taken from the record while the
// limit is the same, and counted anew otherwise. Of a file only those names are
// known that the rules of the session's own policy were about.
//
// A [Learner] proposes what a profile would have to add to allow what sessions
// were denied or asked about: exact paths, a pattern such as "*.json" where three or more of a kind
// were needed in a directory, the directory where they are of no kind, and "*" for
// what differs in versions or hashes only. It never proposes to open the root, a
// home directory or one that all programs share, and not a directory in which a
// pattern of the profile says something else. Secret files, protected
// configuration, what a profile denies by name, services such as docker's and
// surfaces of the kernel are left out unless they are asked for.
//
// # Layers
//
// Sources are laid over one another, and in every plane the stricter wins: the
// envelopes, the user's file, the workspace's own file, and the one named on the
// command line. A profile of the workspace's own file can only narrow, and makes
// no exceptions. See [Load] for which profile applies.
//
// # Envelopes
//
// An envelope is a policy that root wrote, or that was built into the binary. The
// profile that it names with default_permissions = "corp" lies over every
// session's, whichever that runs under, and nothing below widens it:
//
//	[permissions.corp]                 # with extends = ":workspace" nobody gets more than that;
//	signals = "session"                # without, it speaks only of what it names
//	[permissions.corp.filesystem]
//	"/srv/payroll" = "deny"
//	[permissions.corp.env]
//	deny = ["CORP_*"]                  # not set, and not passed by --env either
//	[permissions.corp.secrets]
//	"~/*/.env" = "read"                # others may make this exception; it makes none itself
//
// Where an envelope has a profile, exceptions from the built-in layers hold only as
// far as it lets them be made, and a listed socket in a secret place only if it
// lists it as well.
package policy
