package proc

import "golang.org/x/sys/unix"

// lookUp is openat2 of a path-only descriptor. What is not in the kernel's caches is
// looked up where that may wait, else it is EAGAIN.
func (v *View) lookUp(base int, path string, how *unix.OpenHow) (fd int, err error) {
	cached := *how
	cached.Resolve |= resolveCached
	err = unix.EINTR
	for err == unix.EINTR {
		fd, err = unix.Openat2(base, path, &cached)
	}
	if err != unix.EAGAIN || !v.MayBlock || cached == *how {
		return fd, err
	}
	err = v.wait(func() (err error) {
		fd, err = unix.Openat2(base, path, how)
		for i := 0; err == unix.EAGAIN && i < 64; i++ {
			fd, err = unix.Openat2(base, path, how) // a rename raced with ".."
		}
		return err
	})
	return fd, err
}

func (v *View) wait(f func() error) error {
	if v.Wait != nil {
		return v.Wait(f)
	}
	err := f()
	for err == unix.EINTR {
		err = f()
	}
	return err
}
