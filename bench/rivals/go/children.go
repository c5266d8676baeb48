package main

import (
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const childrenCount = 1000

// cpu is the processor time of this process, or of its children that have been
// waited for.
func cpu(whose int) (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(whose, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// children starts 1,000 of /bin/true and waits for them, so many at a time.
func children(tasks int) error {
	own, err := cpu(syscall.RUSAGE_SELF)
	if err != nil {
		return err
	}
	theirs, err := cpu(syscall.RUSAGE_CHILDREN)
	if err != nil {
		return err
	}
	begun := time.Now()
	jobs := make(chan struct{})
	failed := make(chan error, childrenCount)
	var all sync.WaitGroup
	for i := 0; i < tasks; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for range jobs {
				if err := exec.Command("/bin/true").Run(); err != nil {
					failed <- err
				}
			}
		}()
	}
	for i := 0; i < childrenCount; i++ {
		jobs <- struct{}{}
	}
	close(jobs)
	all.Wait()
	wall := time.Since(begun)
	select {
	case err := <-failed:
		return err
	default:
	}
	ownNow, err := cpu(syscall.RUSAGE_SELF)
	if err != nil {
		return err
	}
	theirsNow, err := cpu(syscall.RUSAGE_CHILDREN)
	if err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e3 / childrenCount }
	show("ms/child", each(wall))
	show("cpu ms/child", each(ownNow-own))
	show("cpu ms/child with its own", each(ownNow-own+theirsNow-theirs))
	return nil
}
