// SPDX-License-Identifier: Apache-2.0

// Sleeps below functions of its own, until it is killed.
package main

import (
	"syscall"
	"time"
)

type sleeper struct{ sum int }

//go:noinline
func (s *sleeper) sleep() {
	s.sum += syscall.Getppid()
	time.Sleep(time.Millisecond)
}

//go:noinline
func outer(s *sleeper) {
	s.sleep()
}

func main() {
	for {
		outer(&sleeper{})
	}
}
