// Goroutines that make system calls, some levels deep.
package main

import (
	"os"
	"syscall"
	"time"
)

//go:noinline
func call(depth int, file *os.File, bytes []byte) int {
	if depth > 0 {
		return call(depth-1, file, bytes) + 1
	}
	read, _ := file.Read(bytes)
	return read + syscall.Getppid()
}

func work() {
	file, err := os.Open("/dev/zero")
	if err != nil {
		panic(err)
	}
	bytes := make([]byte, 16)
	for n := 0; ; n++ {
		call(n%7, file, bytes)
		if n%50 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func main() {
	go work()
	work()
}
