package trials

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

//go:embed node.mjs
var nodeProgram string

// A Node runs each body in a Node process of its own, for comparison. It is a [Runner].
type Node struct {
	Path    string
	Version string
	Flags   []string // that switch its permission model on, where it has one
}

// FindNode looks for Node at path, or where the system finds it for "". Its error wraps [exec.ErrNotFound] where there is none.
func FindNode(ctx context.Context, path string) (*Node, error) {
	if path == "" {
		path = "node"
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return nil, fmt.Errorf("find node: %w", err)
	}
	n := &Node{Path: found}
	for _, flags := range [][]string{{"--permission"}, {"--experimental-permission", "--no-warnings"}, nil} {
		out, err := exec.CommandContext(ctx, found, append(flags, "--version")...).Output()
		if err == nil {
			n.Version, n.Flags = strings.TrimSpace(string(out)), flags
			return n, nil
		}
	}
	return nil, fmt.Errorf("%s does not tell its version", found)
}

// Run implements [Runner]. Of limits it knows the time only.
func (n *Node) Run(ctx context.Context, _ string, b engine.Body, d engine.Door) engine.Ending {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.Path, append(append([]string{}, n.Flags...), "--input-type=module", "--eval", nodeProgram)...)
	cmd.Env = []string{}
	in, err := cmd.StdinPipe()
	if err != nil {
		return unavailable(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return unavailable(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return unavailable(err)
	}
	end, err := talk(ctx, b, d, in, out)
	if err := errors.Join(err, in.Close(), cmd.Wait()); err != nil {
		if ctx.Err() != nil {
			return engine.Ending{Failure: &engine.Failure{Code: engine.CodeTimeout, Message: err.Error()}}
		}
		return unavailable(fmt.Errorf("%w: %s", err, said.String()))
	}
	end.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return end
}

func unavailable(err error) engine.Ending {
	return engine.Ending{Failure: &engine.Failure{Code: engine.CodeUnavailable, Message: "node: " + err.Error()}}
}

// A said is a line that Node writes.
type said struct {
	Ask     int             `json:"ask"`
	Op      engine.Op       `json:"op"`
	Args    json.RawMessage `json:"args"`
	Log     *string         `json:"log"`
	Value   json.RawMessage `json:"value"`
	Failure *engine.Failure `json:"failure"`
}

// talk gives Node the body, answers what it asks, and hears how it ends.
func talk(ctx context.Context, b engine.Body, d engine.Door, in io.Writer, out io.Reader) (engine.Ending, error) {
	to := json.NewEncoder(in)
	if err := to.Encode(map[string]string{"code": b.Code}); err != nil {
		return engine.Ending{}, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case a := <-d.Answers():
				_ = to.Encode(a) // a Node that is gone is noticed by who reads from it
			case <-ended:
				return
			}
		}
	}()
	for lines := bufio.NewReaderSize(out, 64<<10); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return engine.Ending{}, err
		}
		var s said
		if err := json.Unmarshal(line, &s); err != nil {
			return engine.Ending{}, err
		}
		switch {
		case s.Ask > 0:
			d.Ask(engine.Ask{ID: s.Ask, Op: s.Op, Args: s.Args})
		case s.Log != nil:
			d.Log(engine.Log{Level: "log", Text: *s.Log})
		case s.Failure != nil:
			s.Failure.Code = engine.CodeException
			return engine.Ending{Failure: s.Failure}, nil
		default:
			return engine.Ending{Value: s.Value}, nil
		}
	}
}
