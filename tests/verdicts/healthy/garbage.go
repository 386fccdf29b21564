// Makes garbage for 2 of each 10 ms.
package main

import (
	"fmt"
	"time"
)

var kept [1024][]byte

func main() {
	fmt.Println("{}")
	for i := 0; ; {
		for end := time.Now().Add(2 * time.Millisecond); time.Now().Before(end); i++ {
			kept[i%len(kept)] = make([]byte, 256)
		}
		time.Sleep(8 * time.Millisecond)
	}
}
