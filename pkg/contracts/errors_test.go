package contracts_test

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// TestCodesAppendOnly compares the table with testdata/codes.txt. A new code gets a
// new last line there. A line that is there is never changed, moved or taken away:
// callers outside depend on it.
func TestCodesAppendOnly(t *testing.T) {
	data, err := os.ReadFile("testdata/codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	var got []string
	for _, c := range contracts.Codes() {
		got = append(got, fmt.Sprintf("%s http=%d mcp=%d exit=%d", c.Code, c.HTTP, c.MCP, c.Exit))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("code %d is %q, want %q: the table is append-only", i+1, got[i], want[i])
		}
	}
	if len(got) < len(want) {
		t.Errorf("the codes %q are gone: the table is append-only", want[len(got):])
	}
	if len(got) > len(want) {
		t.Errorf("add to the end of testdata/codes.txt:\n%s", strings.Join(got[len(want):], "\n"))
	}
}

func TestCodesComplete(t *testing.T) {
	rows := map[string]int{}
	for _, c := range contracts.Codes() {
		rows[string(c.Code)]++
		if c.HTTP < 400 || c.HTTP > 599 || c.MCP >= 0 || (c.Exit != 1 && c.Exit != 2) || c.Text == "" {
			t.Errorf("%+v: want an HTTP status of failure, an MCP code below 0, the exit status 1 or 2, and a text", c)
		}
		if got := contracts.InfoOf(c.Code); got != c {
			t.Errorf("InfoOf(%s) = %+v, want %+v", c.Code, got, c)
		}
	}
	constants := codeConstants(t)
	for _, c := range constants {
		if rows[c] != 1 {
			t.Errorf("the code %q is %d times in Codes, want once", c, rows[c])
		}
	}
	if len(constants) != len(rows) {
		t.Errorf("Codes has %d codes, the source %d constants", len(rows), len(constants))
	}
}

// codeConstants returns the values of all constants of type Code in the package's source.
func codeConstants(t *testing.T) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Code" {
			v, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		return true
	})
	return values
}

func TestInfoOfUnknown(t *testing.T) {
	if got := contracts.InfoOf("of a later version"); got.Code != contracts.CodeInternal {
		t.Errorf("InfoOf of an unknown code = %+v, want that of %s", got, contracts.CodeInternal)
	}
}

func TestCodeOfAndFinal(t *testing.T) {
	denied := contracts.Errorf(contracts.CodePolicyDenied, "no")
	retried := []contracts.Code{
		contracts.CodeInternal, contracts.CodeUnavailable, contracts.CodeTimeout, contracts.CodeRateLimited, contracts.CodeSourceUnavailable,
	}
	for _, tt := range []struct {
		err   error
		code  contracts.Code
		final bool
	}{
		{nil, "", true},
		{io.EOF, contracts.CodeInternal, false},
		{denied, contracts.CodePolicyDenied, true},
		{fmt.Errorf("call x: %w", denied), contracts.CodePolicyDenied, true},
		{errors.Join(io.EOF, denied), contracts.CodePolicyDenied, true},
	} {
		if got := contracts.CodeOf(tt.err); got != tt.code {
			t.Errorf("CodeOf(%v) = %q, want %q", tt.err, got, tt.code)
		}
		if got := contracts.Final(tt.err); got != tt.final {
			t.Errorf("Final(%v) = %v, want %v", tt.err, got, tt.final)
		}
	}
	for _, c := range contracts.Codes() {
		if got, want := contracts.Final(contracts.Errorf(c.Code, "x")), !slices.Contains(retried, c.Code); got != want {
			t.Errorf("Final of %s = %v, want %v", c.Code, got, want)
		}
	}
}

func TestErrorf(t *testing.T) {
	err := contracts.Errorf(contracts.CodeUnavailable, "read %s: %w", "x", io.EOF)
	if !errors.Is(err, io.EOF) || err.Error() != "unavailable: read x: EOF" {
		t.Errorf("Errorf = %q, want it to wrap its operand and begin with its code", err)
	}
	if after := err.After(1500 * time.Millisecond); after.RetryAfter != 1500 || err.RetryAfter != 0 || !errors.Is(after, io.EOF) {
		t.Errorf("After(1.5s) = %+v of %+v, want a copy with 1500", after, err)
	}
}

func TestAsError(t *testing.T) {
	if got := contracts.AsError(nil); got != nil {
		t.Errorf("AsError(nil) = %v, want nil", got)
	}
	denied := contracts.Errorf(contracts.CodePolicyDenied, "no")
	if got := contracts.AsError(fmt.Errorf("secret: %w", denied)); got != denied {
		t.Errorf("AsError = %v, want the error inside", got)
	}
	got := contracts.AsError(errors.New("password of the database"))
	if got.Code != contracts.CodeInternal || strings.Contains(got.Message, "password") || got.Cause == nil {
		t.Errorf("AsError of a foreign error = %+v, want %s, its text kept as the cause only", got, contracts.CodeInternal)
	}
}

// Every code has a status that an outcome can end with, and those that say more than error are these.
func TestStatusOf(t *testing.T) {
	want := map[contracts.Code]contracts.Status{
		contracts.CodeInvalid: contracts.StatusInvalidArgs, contracts.CodeInvalidArgs: contracts.StatusInvalidArgs,
		contracts.CodePolicyDenied: contracts.StatusBlocked, contracts.CodeToolQuarantined: contracts.StatusBlocked, contracts.CodeRateLimited: contracts.StatusRateLimited,
		contracts.CodeUnavailable: contracts.StatusUnavailable, contracts.CodeSourceUnavailable: contracts.StatusUnavailable,
		contracts.CodeToolGone: contracts.StatusUnavailable, contracts.CodeTimeout: contracts.StatusTimeout,
		contracts.CodeCancelled: contracts.StatusCancelled, contracts.CodeRunClosed: contracts.StatusCancelled,
	}
	for _, c := range contracts.Codes() {
		if got := contracts.StatusOf(c.Code); got != cmp.Or(want[c.Code], contracts.StatusError) {
			t.Errorf("the status of %s is %q, want %q", c.Code, got, cmp.Or(want[c.Code], contracts.StatusError))
		}
	}
	if got := contracts.StatusOf("of a later version"); got != contracts.StatusError {
		t.Errorf("the status of an unknown code is %q, want error", got)
	}
}
