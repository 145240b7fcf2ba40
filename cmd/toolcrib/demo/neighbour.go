package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A Neighbour is a process of the demo that Toolcrib reaches and does not start, as the services and plugins of a company are.
type Neighbour struct {
	cmd  *exec.Cmd
	read chan struct{} // closed when all that it said was read
}

// stopWithin is how long a neighbour has to end by itself.
const stopWithin = 15 * time.Second

// StartDepot starts the depot, a hidden command of the binary self, and returns the URL of its document.
func StartDepot(ctx context.Context, self, key string) (n *Neighbour, url string, err error) {
	n, said, err := neighbour(ctx, self, "depot", "--key", key)
	if err != nil {
		return nil, "", err
	}
	lines := bufio.NewScanner(said)
	for url == "" && lines.Scan() {
		url, _ = strings.CutPrefix(lines.Text(), "depot ready http=")
	}
	n.drain(said)
	if url == "" {
		return nil, "", errors.Join(errors.New("the depot does not say where it is"), n.Stop())
	}
	return n, url, nil
}

// StartLedger starts the ledger, a hidden command of the binary self. It looks for the NATS server until it is there.
func StartLedger(ctx context.Context, self, nats, passwordFile, journal string) (*Neighbour, error) {
	n, said, err := neighbour(ctx, self, "ledger", "--nats", nats, "--user", "local."+LedgerName, "--password-file", passwordFile, "--journal", journal)
	if err == nil {
		n.drain(said)
	}
	return n, err
}

func neighbour(ctx context.Context, self string, args ...string) (*Neighbour, io.Reader, error) {
	n := &Neighbour{cmd: exec.CommandContext(ctx, self, args...), read: make(chan struct{})}
	n.cmd.Cancel = func() error { return n.cmd.Process.Signal(os.Interrupt) }
	n.cmd.WaitDelay = stopWithin
	said, err := n.cmd.StderrPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("start the %s: %w", args[0], err)
	}
	return n, said, nil
}

// drain reads on, so that the process is never held up by what it says.
func (n *Neighbour) drain(said io.Reader) {
	go func() {
		io.Copy(io.Discard, said)
		close(n.read)
	}()
}

// Stop ends the process and waits for it. The error says that it did not end well.
func (n *Neighbour) Stop() error {
	n.cmd.Process.Signal(os.Interrupt)
	select {
	case <-n.read:
	case <-time.After(stopWithin):
		n.cmd.Process.Kill()
		<-n.read
	}
	return n.cmd.Wait()
}
