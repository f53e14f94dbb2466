package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// tableInodes is PortInodes by the tables of /proc/net.
func tableInodes(proto string, port uint16) ([]uint64, error) {
	var out []uint64
	for _, table := range []string{proto, proto + "6"} {
		f, err := os.Open("/proc/net/" + table)
		if errors.Is(err, fs.ErrNotExist) && table != proto {
			continue // no IPv6 here
		}
		if err != nil {
			return nil, fmt.Errorf("look for ports: %w", err)
		}
		out, err = portsIn(f, proto, port, out)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("look for ports in /proc/net/%s: %w", table, err)
		}
	}
	return out, nil
}

// portsIn reads the lines "sl: local:port remote:port state … inode …" after the
// first, numbers but the inode in hexadecimal.
func portsIn(f *os.File, proto string, port uint16, out []uint64) ([]uint64, error) {
	sc := bufio.NewScanner(f)
	sc.Scan()
	for sc.Scan() {
		words := strings.Fields(sc.Text())
		if len(words) < 10 {
			return nil, fmt.Errorf("a line of %d words, want 10", len(words))
		}
		_, hex, _ := strings.Cut(words[1], ":")
		local, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			return nil, err
		}
		state, err := strconv.ParseUint(words[3], 16, 8)
		if err != nil {
			return nil, err
		}
		if uint16(local) != port || proto == "tcp" && state != tcpListen {
			continue
		}
		ino, err := strconv.ParseUint(words[9], 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, ino)
	}
	return out, sc.Err()
}

// UnixInodes are the inodes of all unix sockets of this network namespace.
func UnixInodes() (map[uint64]bool, error) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	live := map[uint64]bool{}
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		if f := strings.Fields(sc.Text()); len(f) > 6 {
			ino, _ := strconv.ParseUint(f[6], 10, 64)
			live[ino] = true
		}
	}
	return live, sc.Err()
}
