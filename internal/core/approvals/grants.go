package approvals

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Grants returns the tenant's grants that hold, the newest first.
func (d *Desk) Grants(ctx context.Context, t contracts.TenantID) ([]*contracts.Grant, error) {
	list := []*contracts.Grant{}
	now := time.Now()
	err := d.grants.List(ctx, string(t)+".>", func(_ contracts.Key, g *contracts.Grant) error {
		if holds(g, now) {
			list = append(list, g)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b *contracts.Grant) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return list, err
}

// Revoke ends a grant, or is an error with [contracts.CodeNotFound] where none of that id holds.
func (d *Desk) Revoke(ctx context.Context, t contracts.TenantID, id contracts.GrantID) error {
	none := contracts.Errorf(contracts.CodeNotFound, "there is no grant %s", id)
	_, err := d.grants.Transition(ctx, contracts.GrantKey(t, id), func(g *contracts.Grant) ([]contracts.Event, error) {
		now := time.Now().UTC()
		if !holds(g, now) {
			return nil, none
		}
		g.Revoked = now
		return nil, nil
	})
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return none
	}
	return err
}

func holds(g *contracts.Grant, now time.Time) bool {
	return g.Revoked.IsZero() && (g.Expires.IsZero() || now.Before(g.Expires))
}

// Granted returns the grant that allows what q asks, "" for none.
func (d *Desk) Granted(ctx context.Context, t contracts.TenantID, q Question, args json.RawMessage) (contracts.GrantID, error) {
	list, err := d.Grants(ctx, t)
	if err != nil {
		return "", err
	}
	now := time.Now()
	for _, g := range list {
		if Covers(g, q.Agent, q.Tool, args, now) {
			return g.ID, nil
		}
	}
	return "", nil
}

// Covers reports whether g allows a call of the tool with these arguments at the time now, in a run of the agent.
func Covers(g *contracts.Grant, agent string, tool contracts.ToolRef, args json.RawMessage, now time.Time) bool {
	if g.Agent != agent || g.Tool != tool.ID || g.Hash != tool.Hash || tool.Hash == "" || !holds(g, now) {
		return false
	}
	if len(g.Args) == 0 {
		return true
	}
	have, err := members(args)
	if err != nil {
		return false
	}
	for name, want := range g.Args {
		v, ok := have[name]
		if !ok {
			return false
		}
		got, err := canonical(v)
		if err != nil || !bytes.Equal(got, want) {
			return false
		}
	}
	return true
}

// members takes a JSON object apart.
func members(object json.RawMessage) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	err := json.Unmarshal(object, &m)
	return m, err
}

// Digest returns the hash of arguments in a canonical form: that of RFC 8785, but for numbers, which stay as they are written, so that two that
// a float does not tell apart are two. Text that is no JSON, or has a name twice in one object, is an error.
func Digest(args json.RawMessage) (contracts.Hash, error) {
	c, err := canonical(args)
	if err != nil {
		return "", err
	}
	return contracts.HashOf(c), nil
}

func canonical(v json.RawMessage) (json.RawMessage, error) {
	c := jsontext.Value(bytes.Clone(v))
	if err := c.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.AllowDuplicateNames(false)); err != nil {
		return nil, fmt.Errorf("arguments in canonical form: %w", err)
	}
	return json.RawMessage(c), nil
}
