package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/pkg/plugin"
)

func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, ctx := New(path), t.Context()
	for range 2 { // the second is the same call again
		e, err := l.append(Entry{ID: "call_1", From: "cash", To: "rent", Amount: 70_000})
		if err != nil || e.ID != "call_1" {
			t.Fatal(e, err)
		}
	}
	check := func(account string, want int64) {
		t.Helper()
		if got, err := New(path).balance(ctx, struct{ Account string }{account}); got.Balance != want || err != nil {
			t.Errorf("balance of %s = %d, %v, want %d", account, got.Balance, err, want)
		}
	}
	check("cash", -70_000)
	check("rent", 70_000)
	for range 2 {
		if e, err := l.reverse(ctx, struct{ ID string }{"call_1"}); err != nil || e.From != "rent" || e.Amount != 70_000 {
			t.Errorf("reversal %+v, %v", e, err)
		}
	}
	check("cash", 0)
	if got, err := l.list(ctx, struct {
		Account string
		Limit   int
	}{"rent", 1}); err != nil || len(got.Entries) != 1 || got.Entries[0].From != "rent" {
		t.Errorf("the newest entry is %+v, %v", got, err)
	}
	if csv, err := l.export(ctx, none{}); err != nil || strings.Count(csv, "\n") != 3 {
		t.Errorf("export = %q, %v, want a head and two lines", csv, err)
	}
	if said, err := l.audit(ctx, struct{ Seconds float64 }{}); err != nil || said != "2 entries, 0 of them odd" {
		t.Errorf("audit = %q, %v", said, err)
	}
	if _, err := l.balance(ctx, struct{ Account string }{"nobody"}); err == nil {
		t.Error("an account that is not there has a balance")
	}
	if _, err := l.post(ctx, struct {
		From, To, Note string
		Amount         int64
	}{From: "a", To: "a", Amount: 1}); contracts.CodeOf(err) != contracts.CodeInvalidArgs {
		t.Errorf("an entry from an account to itself: %v", err)
	}
	if err := os.WriteFile(path, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.accounts(ctx, none{}); err == nil {
		t.Error("a broken journal is read")
	}
}

func TestTools(t *testing.T) {
	if err := New("x").AddTo(plugin.New(nil, plugin.Config{Name: "ledger"})); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a ledger without entries has a file: %v", err)
	}
}
