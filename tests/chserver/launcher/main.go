// Command launcher is a ClickHouse server for tests: it loads chdb's library, a
// whole ClickHouse, into a process of its own and opens ClickHouse's own native
// and HTTP listeners on 127.0.0.1. It writes the two ports to descriptor 3 and ends
// with its standard input.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/ebitengine/purego"
)

func main() {
	lib := flag.String("lib", "", "path of libchdb.so")
	dir := flag.String("path", "", "directory for the data")
	tcp := flag.String("tcp-port", "0", "port of the native protocol")
	http := flag.String("http-port", "0", "port of the HTTP interface")
	flag.Parse()
	if err := serve(*lib, *dir, *tcp, *http); err != nil {
		fmt.Fprintln(os.Stderr, "launcher:", err)
		os.Exit(1)
	}
}

// serve is clickhouse-local's main, which chdb exports, with statements that
// open the listeners and then read standard input until it ends.
func serve(lib, dir, tcp, http string) error {
	handle, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return fmt.Errorf("load %s: %w", lib, err)
	}
	var clickhouseLocal func(argc int32, argv **byte) uintptr
	purego.RegisterLibFunc(&clickhouseLocal, handle, "chdb_query_cmdline")
	args := []string{
		"clickhouse", "--path=" + dir, "--listen_host=127.0.0.1",
		"--tcp_port=" + tcp, "--http_port=" + http,
		"--query", `SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP;
			SELECT getServerPort('tcp_port'), getServerPort('http_port')
			INTO OUTFILE '/dev/fd/3' APPEND FORMAT TSV;
			SELECT * FROM file('-', 'LineAsString') FORMAT Null`,
	}
	argv := make([]*byte, 0, len(args)+1)
	for _, s := range args {
		argv = append(argv, &append([]byte(s), 0)[0])
	}
	argv = append(argv, nil)
	clickhouseLocal(int32(len(args)), &argv[0])
	runtime.KeepAlive(argv)
	return nil
}
