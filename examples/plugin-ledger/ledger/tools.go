package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/pkg/plugin"
)

// Instructions say to a model what the tools are for.
const Instructions = "A double-entry ledger. Amounts are integers in cents. Every entry moves an amount from one account to another; entries are never changed, only reversed."

// AddTo adds the ledger's tools to a plugin.
func (l *Ledger) AddTo(p *plugin.Plugin) error {
	yes, no := true, false
	reads := &contracts.Annotations{ReadOnlyHint: &yes}
	writes := &contracts.Annotations{ReadOnlyHint: &no, DestructiveHint: &no, IdempotentHint: &yes} // by the id of the call
	for _, t := range []struct {
		tool   plugin.Tool
		handle plugin.Handler
	}{
		{plugin.Tool{
			Name: "list_accounts", Description: "List all accounts of the ledger with their balances.", Annotations: reads,
			OutputSchema: object("accounts", `{"type":"array","items":{"type":"object"}}`),
		}, plugin.Typed(l.accounts)},
		{plugin.Tool{
			Name: "account_balance", Description: "Tell the balance of one account.", Annotations: reads,
			InputSchema: object("account", text), OutputSchema: object("account", text, "balance", `{"type":"integer"}`),
		}, plugin.Typed(l.balance)},
		{plugin.Tool{
			Name: "list_entries", Description: "List the newest entries, of one account or of all.", Annotations: reads,
			InputSchema: object("account?", text, "limit?", `{"type":"integer","minimum":1,"maximum":1000,"default":20}`),
		}, plugin.Typed(l.list)},
		{plugin.Tool{
			Name: "post_entry", Description: "Post an entry: move an amount from one account to another.", Annotations: writes,
			InputSchema: object("from", text, "to", text, "amount", `{"type":"integer","minimum":1,"description":"in cents"}`, "note?", `{"type":"string"}`),
		}, plugin.Typed(l.post)},
		{plugin.Tool{
			Name: "reverse_entry", Description: "Undo an entry by posting its opposite.", Annotations: writes, InputSchema: object("id", text),
		}, plugin.Typed(l.reverse)},
		{plugin.Tool{
			Name: "export_journal", Description: "Export all entries as CSV.", Annotations: reads,
		}, plugin.Typed(l.export)},
		{plugin.Tool{
			Name: "audit_journal", Description: "Check every entry, at a chosen pace, and tell what is odd.", Annotations: reads,
			InputSchema: object("seconds?", `{"type":"number","minimum":0,"maximum":600,"default":0}`),
		}, plugin.Typed(l.audit)},
	} {
		if err := p.Tool(t.tool, t.handle); err != nil {
			return err
		}
	}
	return nil
}

const text = `{"type":"string","minLength":1}`

// object returns the JSON Schema of an object of these properties, names and schemas in turn; a name with '?' is not required.
func object(pairs ...string) json.RawMessage {
	properties, required := map[string]json.RawMessage{}, []string{}
	for i := 0; i < len(pairs); i += 2 {
		name, optional := strings.CutSuffix(pairs[i], "?")
		properties[name] = json.RawMessage(pairs[i+1])
		if !optional {
			required = append(required, name)
		}
	}
	raw, _ := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	return raw
}

type (
	none    struct{}
	balance struct {
		Account string `json:"account"`
		Balance int64  `json:"balance"`
	}
	accounts struct {
		Accounts []balance `json:"accounts"`
	}
	entries struct {
		Entries []Entry `json:"entries"`
	}
)

func (l *Ledger) accounts(context.Context, none) (accounts, error) {
	all, err := l.entries()
	sums := map[string]int64{}
	for _, e := range all {
		sums[e.From] -= e.Amount
		sums[e.To] += e.Amount
	}
	out := accounts{[]balance{}}
	for name, sum := range sums {
		out.Accounts = append(out.Accounts, balance{name, sum})
	}
	slices.SortFunc(out.Accounts, func(a, b balance) int { return cmp.Compare(a.Account, b.Account) })
	return out, err
}

func (l *Ledger) balance(ctx context.Context, in struct{ Account string }) (balance, error) {
	all, err := l.accounts(ctx, none{})
	for _, b := range all.Accounts {
		if b.Account == in.Account {
			return b, nil
		}
	}
	return balance{}, cmp.Or(err, fmt.Errorf("there is no account %q", in.Account))
}

func (l *Ledger) list(_ context.Context, in struct {
	Account string
	Limit   int
}) (entries, error) {
	all, err := l.entries()
	out := entries{[]Entry{}}
	for _, e := range slices.Backward(all) {
		if len(out.Entries) < cmp.Or(in.Limit, 20) && (in.Account == "" || e.From == in.Account || e.To == in.Account) {
			out.Entries = append(out.Entries, e)
		}
	}
	return out, err
}

func (l *Ledger) post(ctx context.Context, in struct {
	From, To, Note string
	Amount         int64
}) (Entry, error) {
	if in.From == in.To {
		return Entry{}, contracts.Errorf(contracts.CodeInvalidArgs, "from and to are the same account")
	}
	return l.append(Entry{string(plugin.CallOf(ctx).ID), time.Now().UTC(), in.From, in.To, in.Amount, in.Note})
}

func (l *Ledger) reverse(_ context.Context, in struct{ ID string }) (Entry, error) {
	all, err := l.entries()
	for _, e := range all {
		if e.ID == in.ID {
			return l.append(Entry{"reversal of " + e.ID, time.Now().UTC(), e.To, e.From, e.Amount, "reverses " + e.ID})
		}
	}
	return Entry{}, cmp.Or(err, fmt.Errorf("there is no entry %q", in.ID))
}

func (l *Ledger) export(context.Context, none) (string, error) {
	all, err := l.entries()
	var b strings.Builder
	b.WriteString("id,at,from,to,amount,note\n")
	for _, e := range all {
		fmt.Fprintf(&b, "%s,%s,%q,%q,%d,%q\n", e.ID, e.At.Format(time.RFC3339), e.From, e.To, e.Amount, e.Note)
	}
	return b.String(), err
}

// audit takes as long as it is told to, and ends at once when nobody waits for it any more.
func (l *Ledger) audit(ctx context.Context, in struct{ Seconds float64 }) (string, error) {
	select {
	case <-time.After(time.Duration(in.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	all, err := l.entries()
	odd := 0
	for _, e := range all {
		if e.Amount <= 0 || e.From == e.To {
			odd++
		}
	}
	return fmt.Sprintf("%d entries, %d of them odd", len(all), odd), err
}
