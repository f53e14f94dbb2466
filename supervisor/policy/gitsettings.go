package policy

import (
	"slices"
	"strings"
)

// gitSettings are the settings that a session may give its own repositories:
// what git itself writes, and what people set that is only data. A section that
// ends in ".*" is one with a subsection; the key "*" stands for all. Everything
// else is refused: git has more than a hundred variables whose values it runs
// (an alias may be "grep -O./x"), and gains some with every release.
var gitSettings = readGitSettings(map[string]string{
	"core": `repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol safecrlf
		sparsecheckout sparsecheckoutcone abbrev compression loosecompression bigfilethreshold whitespace quotepath commentchar commentstring
		trustctime checkstat preloadindex untrackedcache splitindex multipackindex commitgraph packedrefstimeout filesreflocktimeout
		packedgitwindowsize packedgitlimit deltabasecachelimit fsync fsyncmethod fsyncobjectfiles createobject notesref
		warnambiguousrefs usereplacerefs checkroundtripencoding hidedotfiles sharedrepository fsmonitor worktree`,
	"extensions":  "objectformat compatobjectformat worktreeconfig partialclone preciousobjects refstorage relativeworktrees noop noop-v1",
	"remote":      "pushdefault",
	"remote.*":    "url pushurl fetch push mirror tagopt prune prunetags partialclonefilter promisor skipdefaultupdate skipfetchall followremotehead",
	"branch":      "autosetupmerge autosetuprebase sort",
	"branch.*":    "remote pushremote merge rebase description",
	"submodule":   "active recurse fetchjobs propagatebranches alternatelocation alternateerrorstrategy",
	"submodule.*": "url active branch path update ignore shallow fetchrecursesubmodules",
	"user":        "name email signingkey useconfigonly",
	"author":      "name email",
	"committer":   "name email",
	"init":        "defaultbranch defaultobjectformat",
	"commit":      "gpgsign verbose status cleanup",
	"tag":         "gpgsign sort forcesignannotated",
	"push":        "default followtags autosetupremote pushoption recursesubmodules gpgsign useforceifincludes negotiate",
	"pull":        "rebase ff",
	"fetch": `prune prunetags parallel fsckobjects recursesubmodules unpacklimit writecommitgraph showforcedupdates output all
		negotiationalgorithm`,
	"rebase": "autosquash autostash updaterefs stat missingcommitscheck abbreviatecommands reschedulefailedexec forkpoint rebasemerges backend",
	"merge": `conflictstyle ff log renames renamelimit directoryrenames renormalize stat autostash branchdesc defaulttoupstream verbosity
		suppressdest`,
	"diff": `algorithm renames renamelimit mnemonicprefix noprefix context interhunkcontext colormoved colormovedws submodule
		indentheuristic ignoresubmodules wserrorhighlight relative autorefreshindex suppressblankempty dirstat statgraphwidth`,
	"diff.*":  "xfuncname funcname binary wordregex",
	"status":  "*",
	"color":   "*",
	"color.*": "*",
	"column":  "*",
	"advice":  "*",
	"log":     "date decorate abbrevcommit follow graphcolors initialdecorationset excludedecoration diffmerges showroot mailmap",
	"blame":   "showroot showemail date blankboundary coloring ignorerevsfile markunblamablelines markignoredlines",
	"grep":    "linenumber column patterntype extendedregexp threads fullname",
	"stash":   "showpatch showstat showincludeuntracked",
	"gc": `auto autopacklimit autodetach aggressivedepth aggressivewindow packrefs pruneexpire worktreepruneexpire reflogexpire
		reflogexpireunreachable rerereresolved rerereunresolved writecommitgraph logexpiry bigpackthreshold cruftpacks maxcruftsize`,
	"gc.*": "reflogexpire reflogexpireunreachable",
	"pack": `window depth windowmemory compression deltacachesize deltacachelimit threads indexversion packsizelimit usebitmaps
		writebitmaps writebitmaphashcache writebitmaplookuptable writereverseindex readreverseindex usesparse preferbitmaptips
		allowpackreuse`,
	"repack":        "usedeltabaseoffset packkeptobjects usedeltaislands writebitmaps updateserverinfo",
	"index":         "version threads sparse recordendofindexentries recordoffsettable skiphash",
	"maintenance":   "auto autodetach strategy",
	"maintenance.*": "enabled schedule auto",
	"commitgraph":   "generationversion maxnewfilters readchangedpaths",
	"feature":       "manyfiles experimental",
	"sparse":        "expectfilesoutsideofpatterns",
	"checkout":      "defaultremote guess workers thresholdforparallelism",
	"worktree":      "guessremote userelativepaths",
	"clean":         "requireforce",
	"apply":         "whitespace ignorewhitespace",
	"am":            "keepcr threeway",
	"rerere":        "enabled autoupdate",
	"notes":         "displayref rewriteref rewritemode mergestrategy",
	"interactive":   "singlekey",
	"i18n":          "commitencoding logoutputencoding",
	"versionsort":   "suffix",
	"transfer":      "fsckobjects unpacklimit",
	"receive":       "denycurrentbranch denynonfastforwards denydeletes fsckobjects unpacklimit autogc advertiseatomic advertisepushoptions",
	"uploadpack":    "allowfilter allowanysha1inwant allowtipsha1inwant allowreachablesha1inwant allowrefinwant keepalive",
	"protocol":      "version",
	"lfs":           "repositoryformatversion concurrenttransfers locksverify",
	"lfs.*":         "access locksverify",
	"pager":         "*",
})

func readGitSettings(table map[string]string) map[string][]string {
	out := make(map[string][]string, len(table))
	for section, keys := range table {
		out[section] = strings.Fields(keys)
	}
	return out
}

// known reports whether a setting is one that a session may make.
func (s *gitSetting) known() bool {
	section := s.section
	if s.sub != "" || s.quoted {
		section += ".*"
	}
	keys := gitSettings[section]
	return slices.Contains(keys, s.key) || slices.Contains(keys, "*")
}

// gitWords are the only values of settings of which others would run programs or
// open the repository to other users.
var gitWords = map[string][]string{
	"core.fsmonitor": {"true", "false"}, "pager": {"true", "false"}, "core.sharedrepository": {"true", "false", "0", "1", "group", "umask"},
	"submodule.*.update": {"checkout", "rebase", "merge", "none"}, "remote.*.tagopt": {"--tags", "--no-tags"},
	"extensions.refstorage": {"files", "reftable"},
}

// words are the only values that a setting may have, nil for any.
func (s *gitSetting) words() []string {
	name := s.section + "." + s.key
	if s.section == "pager" {
		name = "pager"
	} else if s.sub != "" || s.quoted {
		name = s.section + ".*." + s.key
	}
	return gitWords[name]
}

// leads reports whether git takes the value for the address or the name of a
// repository, or hands it to another program as a word of its own.
func (s *gitSetting) leads() bool {
	switch s.section {
	case "remote", "branch", "submodule":
		return slices.Contains([]string{"url", "pushurl", "pushdefault", "remote", "pushremote", "path"}, s.key)
	}
	return s.key == "signingkey" || s.key == "partialclone" || s.key == "defaultremote"
}

// gitSchemes are the schemes of addresses that git follows without a program of
// somebody else's: for any other it runs git-remote-<scheme>.
var gitSchemes = []string{"http", "https", "ssh", "git", "file", "ftp", "ftps", "git+ssh", "ssh+git"}

// runsTransport reports whether git would run a program to follow an address:
// "ext::sh -c …" and every other <helper>::<address> or <helper>://<address>. An
// address that begins with "-" would be an option of the program that follows it.
func runsTransport(url string) bool {
	url = strings.TrimSpace(url)
	if strings.HasPrefix(url, "-") || strings.Contains(url, "://-") {
		return true
	}
	if helper, _, ok := strings.Cut(url, "::"); ok && !strings.ContainsAny(helper, "/[@") {
		return true
	}
	scheme, _, ok := strings.Cut(url, "://")
	return ok && !strings.Contains(scheme, "/") && !slices.Contains(gitSchemes, strings.ToLower(scheme))
}
