package executor

import (
	"context"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/admission"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// mostNews bounds the tools that one event names.
const mostNews = 100

// review writes the listing that runs may use of what a source offers into its record.
func (d *discoverer) review(ctx context.Context, s *source, rec *contracts.SourceRecord, offered *contracts.Listing) ([]contracts.Event, error) {
	if s.admission == "" {
		hash, err := d.library.PutListing(ctx, s.tenant, offered)
		rec.Listing, rec.Tools = hash, len(offered.Tools)
		return nil, err
	}
	known, err := admission.Load(ctx, d.library, s.tenant, rec)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		d.log.Error("what was admitted is lost: the tools of the source are taken as new", "tenant", string(s.tenant), "source", s.id.String(), "err", err)
		known, err = admission.Known{}, nil
	}
	if err != nil {
		return nil, err
	}
	return d.compare(ctx, s, rec, known, offered)
}

// reviewAgain does the same with what the source offered last, where that was reviewed by another setting.
func (d *discoverer) reviewAgain(ctx context.Context, s *source, rec *contracts.SourceRecord) ([]contracts.Event, error) {
	if rec.Listing == "" || s.admission == "" || rec.Admission != nil && rec.Admission.Mode == s.admission {
		return nil, nil
	}
	known, err := admission.Load(ctx, d.library, s.tenant, rec)
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, nil // the next round says it
	}
	if err != nil {
		return nil, err
	}
	return d.compare(ctx, s, rec, known, known.Offered())
}

func (d *discoverer) compare(ctx context.Context, s *source, rec *contracts.SourceRecord, known admission.Known, offered *contracts.Listing) ([]contracts.Event, error) {
	now := time.Now().UTC()
	r := known.Compare(s.admission, offered, d.flags, now)
	if err := r.Store(ctx, d.library, s.tenant, s.admission, rec); err != nil || len(r.News) == 0 {
		return nil, err
	}
	d.log.Warn("tools of a source are new, changed or suspicious", "tenant", string(s.tenant), "source", s.id.String(), "tools", len(r.News), "quarantined", r.Count.Quarantined)
	told := r.News[:min(len(r.News), mostNews)]
	return []contracts.Event{contracts.ToolsReviewed{At: now, Source: s.id, Mode: s.admission, Tools: told, More: len(r.News) - len(told)}}, nil
}

// flags returns what is suspicious about a tool.
func (d *discoverer) flags(t *contracts.Tool) []contracts.Flag {
	flags, ok := d.flagged.Get(t.Hash)
	if !ok {
		flags = d.scanner.Flags(t)
		d.flagged.Add(t.Hash, flags)
	}
	return flags
}

// admit answers [contracts.VerbAdmit]: the decision holds for every call that is made after its answer.
func (d *discoverer) admit(ctx context.Context, t contracts.TenantID, q contracts.AdmitRequest) (*contracts.AdmitAnswer, error) {
	if q.State != contracts.ToolAdmitted && q.State != contracts.ToolQuarantined {
		return nil, contracts.Errorf(contracts.CodeInvalid, "state: is %q; want %s or %s", string(q.State), contracts.ToolAdmitted, contracts.ToolQuarantined)
	}
	if len(q.Tools) == 0 || len(q.Tools) > contracts.AdmitMost {
		return nil, contracts.Errorf(contracts.CodeInvalid, "tools: are %d; want 1 to %d", len(q.Tools), contracts.AdmitMost)
	}
	s := d.configured[contracts.SourceKey(t, q.Source)]
	if s == nil {
		return nil, contracts.Errorf(contracts.CodeNotFound, "there is no source %q", q.Source)
	}
	if s.admission == "" {
		return nil, contracts.Errorf(contracts.CodeInvalid, "tools: those of %s are built in and need no admission; a policy can deny them", q.Source)
	}
	rec, err := d.sources.Transition(ctx, s.key, func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
		known, err := admission.Load(ctx, d.library, t, rec)
		if err != nil {
			return nil, err
		}
		known, tools, err := known.Decide(q)
		if err != nil {
			return nil, err
		}
		now, usable := time.Now().UTC(), rec.Listing != ""
		r := known.Compare(s.admission, known.Offered(), d.flags, now)
		if err := r.Store(ctx, d.library, t, s.admission, rec); err != nil {
			return nil, err
		}
		if !usable { // it was listed by another configuration
			rec.Listing, rec.Tools = "", 0
		}
		return []contracts.Event{contracts.ToolsDecided{At: now, Source: s.id, State: q.State, Tools: tools, By: q.By}}, nil
	})
	if err != nil {
		return nil, err
	}
	rec.Unsent, rec.Settings = nil, ""
	return &contracts.AdmitAnswer{Source: *rec}, nil
}
