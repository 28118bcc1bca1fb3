package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stopping are the signals that ask a command to end. SIGHUP comes from a
// terminal that was closed; under nohup it is ignored and stays so.
func stopping() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}

// interruptible answers a context that ends with the first of these signals,
// for commands that end by themselves.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, stopping()...)
}

// stopSignals answers a context that ends with the first signal, and one that
// ends with the second. SIGHUP is never the second: a terminal and its shell
// both send one.
func stopSignals(ctx context.Context) (first, second context.Context, release func()) {
	first, endFirst := context.WithCancel(ctx)
	second, endSecond := context.WithCancel(ctx)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, stopping()...)
	go func() {
		for {
			select {
			case s := <-signals:
				if first.Err() == nil {
					endFirst()
				} else if s != syscall.SIGHUP {
					endSecond()
				}
			case <-second.Done():
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(signals)
		endFirst()
		endSecond()
	}
}

// stopAt answers a context that ends with the second signal, or when what ran
// at the first has had its time.
func stopAt(first, second context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	stop, cancel := context.WithCancel(second)
	context.AfterFunc(first, func() {
		late := time.AfterFunc(timeout, cancel)
		context.AfterFunc(stop, func() { late.Stop() })
	})
	return stop, cancel
}
