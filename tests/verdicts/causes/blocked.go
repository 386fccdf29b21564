// SPDX-License-Identifier: Apache-2.0

// Reads a pipe in a system call, while it holds a lock that another goroutine wants.
package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

var lock sync.Mutex

func hold(pipe int) {
	buffer := make([]byte, 64)
	for {
		lock.Lock()
		syscall.Read(pipe, buffer)
		lock.Unlock()
	}
}

func want() {
	for {
		lock.Lock()
		lock.Unlock()
	}
}

func main() {
	pipe, err := syscall.Open(os.Args[1], syscall.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	go hold(pipe)
	fmt.Println("{}")
	want()
}
