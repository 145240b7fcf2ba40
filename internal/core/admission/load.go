package admission

import (
	"cmp"
	"context"
	"fmt"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Load returns what is known of a source of tenant t, by its record.
func Load(ctx context.Context, l *catalogue.Library, t contracts.TenantID, rec *contracts.SourceRecord) (k Known, err error) {
	of := contracts.SourceAdmission{}
	if rec.Admission != nil {
		of = *rec.Admission
	}
	if h := cmp.Or(of.Listing, rec.Listing); h != "" {
		listing, err := l.Listing(ctx, t, h)
		if err != nil {
			return k, fmt.Errorf("read the listing of %s: %w", rec.Source, err)
		}
		k.Listing = listing.Listing
	}
	if of.Remarks != "" {
		if k.Remarks, err = l.Admissions(ctx, t, of.Remarks); err != nil {
			return k, fmt.Errorf("read the admissions of %s: %w", rec.Source, err)
		}
	}
	return k, nil
}

// Store stores the listing and what there is to say of it, and has the record name them.
func (r *Review) Store(ctx context.Context, l *catalogue.Library, t contracts.TenantID, mode contracts.AdmissionMode, rec *contracts.SourceRecord) (err error) {
	of := r.Count
	of.Mode = mode
	if of.Listing, err = l.PutListing(ctx, t, r.Listing); err != nil {
		return err
	}
	if len(r.Remarks.Tools) > 0 {
		if of.Remarks, err = l.PutAdmissions(ctx, t, r.Remarks); err != nil {
			return err
		}
	}
	rec.Listing, rec.Tools, rec.Admission = of.Listing, len(r.Listing.Tools), &of
	return nil
}
