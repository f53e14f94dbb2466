// Command opens is a victim with Go's runtime: many threads, preemption by
// signal, a collector that never rests.
//
//	opens cat PATH          print the file
//	opens loop N PATH       open it N times while the collector runs
//	opens root DIR NAME...  open each name through os.Root, print what came of it
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

func main() {
	if len(os.Args) < 3 {
		os.Exit(64)
	}
	switch os.Args[1] {
	case "cat":
		os.Exit(cat(os.Args[2]))
	case "loop":
		n, err := strconv.Atoi(os.Args[2])
		if err != nil || len(os.Args) < 4 {
			os.Exit(64)
		}
		loop(n, os.Args[3])
	case "root":
		root(os.Args[2], os.Args[3:])
	default:
		os.Exit(64)
	}
}

func outcome(err error) string {
	if err == nil {
		return "ret=0 errno=0"
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		return fmt.Sprintf("ret=-1 errno=%d", int(no))
	}
	return "error: " + err.Error()
}

func cat(path string) int {
	f, err := os.Open(path)
	fmt.Println("open:", outcome(err))
	if err != nil {
		return 1
	}
	defer f.Close()
	if _, err := io.Copy(os.Stdout, f); err != nil {
		fmt.Println("read:", outcome(err))
		return 1
	}
	return 0
}

// loop opens path n times from several goroutines. One more allocates and
// collects, so that preemption signals hit threads that wait in open(2).
func loop(n int, path string) {
	var opened, failed atomic.Int64
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = make([]byte, 1<<20)
				runtime.GC()
			}
		}
	}()
	const workers = 4
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				f, err := os.Open(path)
				if err != nil {
					failed.Add(1)
					continue
				}
				opened.Add(1)
				f.Close()
			}
		})
	}
	wg.Wait()
	close(done)
	fmt.Printf("opened=%d failed=%d\n", opened.Load(), failed.Load())
}

func root(dir string, names []string) {
	r, err := os.OpenRoot(dir)
	fmt.Println("root:", outcome(err))
	if err != nil {
		return
	}
	defer r.Close()
	for _, name := range names {
		f, err := r.Open(name)
		fmt.Printf("%s: %s\n", name, outcome(err))
		if err == nil {
			f.Close()
		}
	}
}
