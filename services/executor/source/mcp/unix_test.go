//go:build unix

package mcp

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func stopProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// A killed parent takes its servers along. The test starts itself as that parent.
func TestServersEndWithUs(t *testing.T) {
	const parent = "TOOLCRIB_TEST_PARENT"
	if os.Getenv(parent) != "" {
		cfg, counter := odd(t, "-keep-running")
		dial(t, cfg)
		os.Stdout.WriteString("server " + strconv.Itoa(pids(counter)[0]) + "\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServersEndWithUs$")
	cmd.Env = append(os.Environ(), parent+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, convErr := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "server ")))
	if err != nil || convErr != nil {
		t.Fatalf("the parent said %q: %v", line, err)
	}
	if !running(pid) {
		t.Fatal("the server does not run")
	}
	cmd.Process.Kill()
	eventually(t, "the server is gone", func() bool { return !running(pid) })
}
