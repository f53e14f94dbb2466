package session

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// User is who a command runs as.
type User struct {
	Name     string
	UID, GID int
	// Groups are the supplementary groups; nil for the current user, who keeps
	// those that the process has.
	Groups []int
	// Home is resolved; empty when there is no such directory.
	Home string
	// Entry is the home directory as the user database names it, of LookupUser.
	Entry string
	// Shell is the login shell, where it is known.
	Shell string
}

// CurrentUser is the user reeve runs as. A user without an entry in the user
// database is known by number alone. $HOME counts, as it does for every program.
func CurrentUser(getenv func(string) string) User {
	u := User{UID: os.Geteuid(), GID: os.Getegid()}
	u.Name = strconv.Itoa(u.UID)
	home := getenv("HOME")
	if entry, err := user.LookupId(u.Name); err == nil {
		u.Name = entry.Username
		if home == "" {
			home = entry.HomeDir
		}
	}
	u.Shell = getenv("SHELL")
	u.Home = resolvedDir(home)
	return u
}

// LookupUser is the user that --user names, by name or number. Only root can
// become somebody else.
func LookupUser(name string) (User, error) {
	entry, err := user.Lookup(name)
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		if byID, idErr := user.LookupId(name); idErr == nil {
			entry, err = byID, nil
		}
	}
	if err != nil {
		return User{}, withHint(fmt.Errorf("look up user %q: %w", name, err), "name a user of this machine, see `getent passwd`")
	}
	u := User{Name: entry.Username, Home: resolvedDir(entry.HomeDir), Entry: entry.HomeDir}
	if u.UID, err = strconv.Atoi(entry.Uid); err != nil {
		return User{}, fmt.Errorf("look up user %q: %w", name, err)
	}
	if u.GID, err = strconv.Atoi(entry.Gid); err != nil {
		return User{}, fmt.Errorf("look up user %q: %w", name, err)
	}
	ids, err := entry.GroupIds()
	if err != nil {
		return User{}, fmt.Errorf("look up groups of user %q: %w", name, err)
	}
	u.Groups = make([]int, 0, len(ids))
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return User{}, fmt.Errorf("look up groups of user %q: %w", name, err)
		}
		u.Groups = append(u.Groups, n)
	}
	return u, nil
}

// resolvedDir is a directory by its resolved path, or "" when it is none.
func resolvedDir(dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return ""
	}
	return path
}
