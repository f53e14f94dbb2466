package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A workload is one thing whose cost is compared. It runs in the workspace by
// /bin/sh, and is timed as a whole or prints what one operation took.
type workload struct {
	name string
	unit string
	text string
	// perOp says that the output's each_ns is the measure, not the wall time.
	perOp bool
	// most bounds the number of rounds of a slow one; zero is no bound.
	most int
	// needs are programs without which the workload is left out.
	needs []string
	// aim is the goal, for the table.
	aim string
}

var workloads = []workload{
	{name: "start of true", unit: "ms", text: "exec /bin/true", aim: "≤ +15 ms"},
	{name: "gcc ×20", unit: "ms", needs: []string{"gcc"}, aim: "≤ 1.20×", text: "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do gcc -o a.out a.c || exit 1; done"},
	{
		name: "go build", unit: "ms", most: 3, needs: []string{"go"}, aim: "≤ 1.20×",
		text: "cd gosrc && GOCACHE=$PWD/../gocache GOFLAGS=-p=2 GOPROXY=off GOTOOLCHAIN=local go build -a -o ../prog . && rm ../prog",
	},
	{name: "git clone and status", unit: "ms", needs: []string{"git"}, text: "git clone -q --local repo c && git -C c status --short && git -C c log --oneline > /dev/null && rm -rf c"},
	{name: "python start ×20", unit: "ms", needs: []string{"/usr/bin/python3"}, text: "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /usr/bin/python3 -c pass || exit 1; done"},
	{name: "grep -r /usr/include", unit: "ms", text: "grep -r no_such_word_anywhere /usr/include; test $? = 1"},
	{name: "open and close, read", unit: "µs", perOp: true, text: "./victim loop open 50000 ok.txt", aim: "≤ 25 µs performed, ≤ 12 µs continued"},
	{name: "open and close, write", unit: "µs", perOp: true, text: "./victim loop write 50000 ok.txt", aim: "≤ 25 µs performed, ≤ 12 µs continued"},
	{name: "stat", unit: "µs", perOp: true, text: "./victim loop stat 50000 ok.txt"},
	{name: "vfork and exec", unit: "µs", perOp: true, text: "./victim loop exec 500 ./victim"},
	{name: "connect to itself", unit: "µs", perOp: true, text: "./victim loop connect 5000 -"},
}

func (w workload) missing() string {
	for _, n := range w.needs {
		if _, err := exec.LookPath(n); err != nil {
			return n
		}
	}
	return ""
}

// prepare fills the workspace with what the workloads work on.
func prepare(ws string) error {
	files := map[string]string{
		"ok.txt": "ordinary\n", "a.c": "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(\"x\"); return 0; }\n",
		"gosrc/go.mod":  "module example.com/prog\n\ngo 1.26.0\n",
		"gosrc/main.go": "package main\n\nimport (\n\t\"fmt\"\n\t\"go/parser\"\n\t\"text/template\"\n)\n\nfunc main() { fmt.Println(parser.ParseExpr, template.New) }\n",
	}
	for i := range 1500 {
		files[fmt.Sprintf("repo/d%d/f%d.txt", i%30, i)] = strings.Repeat(fmt.Sprintf("line of %d\n", i), 30)
	}
	for name, text := range files {
		path := filepath.Join(ws, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("sh", "-c", "git init -q -b main . && git add -A && git -c user.name=a -c user.email=a@example.com commit -q -m first")
	cmd.Dir = filepath.Join(ws, "repo")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make repository: %w: %s", err, out)
	}
	return nil
}
