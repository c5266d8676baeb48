package main

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// timeoutContext is a limit of one second around something that is ready.
func timeoutContext(s span) float64 {
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if ctx.Err() != nil {
				panic("too early")
			}
			cancel()
		}
	}
	return median(m.samples)
}

// timeoutTimer is the least that Go can do: a timer that is stopped.
func timeoutTimer(s span) float64 {
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			if !time.AfterFunc(time.Second, func() {}).Stop() {
				panic("too early")
			}
		}
	}
	return median(m.samples)
}

// cancels: goroutines that wait for their context are cancelled and waited for,
// one after another.
func cancels(s span) float64 {
	type task struct {
		cancel context.CancelFunc
		done   chan struct{}
	}
	m := fixedMeter(s, ready)
	for n := m.next(); n > 0; n = m.next() {
		var parking atomic.Uint64
		tasks := make([]task, n)
		for i := range tasks {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			tasks[i] = task{cancel, done}
			go func() {
				parking.Add(1)
				<-ctx.Done()
				close(done)
			}()
		}
		for parking.Load() < n {
			runtime.Gosched()
		}
		m.restart()
		for _, task := range tasks {
			task.cancel()
			<-task.done
		}
	}
	return median(m.samples)
}
