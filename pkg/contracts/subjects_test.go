package contracts_test

import (
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestSubjectsRoundTrip(t *testing.T) {
	for _, s := range eventSamples(t) {
		_, e, err := contracts.DecodeEvent(s.subject, s.data)
		if err != nil {
			t.Fatal(err)
		}
		subject := e.Subject(tenant)
		if subject != s.subject {
			t.Errorf("%s: Subject() = %q, want %q of its pattern", s.file, subject, s.subject)
		}
		got, err := contracts.ParseSubject(subject)
		if err != nil {
			t.Errorf("ParseSubject(%q): %v", subject, err)
			continue
		}
		want := contracts.Subject{Tenant: tenant, Type: s.typ.Type, Run: contracts.RunID(s.fields["{run}"])}
		for _, p := range []string{"{call}", "{body}", "{approval}", "{search}", "{id}", "{source}"} {
			want.ID += s.fields[p]
		}
		if got != want {
			t.Errorf("ParseSubject(%q) = %+v, want %+v", subject, got, want)
		}
	}
}

func TestParseSubjectRefuses(t *testing.T) {
	for _, s := range []string{
		"", "tc", "tc.acme", "tc.acme.run", "tc.acme.run." + string(run), "tc.acme.run.run_x.closed", "tc.acme.run..closed",
		"tc.*.run." + string(run) + ".closed", "tc.>.run." + string(run) + ".closed", "tc.Acme.run." + string(run) + ".closed",
		"xx.acme.run." + string(run) + ".closed", "tc.acme.other.x.closed", "tc.acme.source.mcp-a", "tc.acme.source.mcp-a.b.listed",
		"tc.acme.run." + string(run) + ".call.x", "tc.acme.run." + string(run) + ".call.x.y.z",
	} {
		if got, err := contracts.ParseSubject(s); contracts.CodeOf(err) != contracts.CodeInvalid || got != (contracts.Subject{}) {
			t.Errorf("ParseSubject(%q) = %+v, %v, want nothing and %s", s, got, err, contracts.CodeInvalid)
		}
	}
}

func FuzzParseSubject(f *testing.F) {
	for _, e := range []contracts.Event{contracts.RunClosed{Run: run}, contracts.CallFinished{Run: run, Call: call}, contracts.Searched{Run: run, Search: "srch_x"}} {
		f.Add(e.Subject(tenant))
	}
	f.Add("tc.*.run.>.closed")
	f.Fuzz(func(t *testing.T, subject string) {
		s, err := contracts.ParseSubject(subject)
		if err != nil {
			return
		}
		if _, err := contracts.ParseTenantID(string(s.Tenant)); err != nil || !strings.HasPrefix(subject, "tc."+string(s.Tenant)+".") {
			t.Errorf("ParseSubject(%q) has the tenant %q", subject, s.Tenant)
		}
		if s.Run != "" {
			if _, err := contracts.ParseRunID(string(s.Run)); err != nil {
				t.Errorf("ParseSubject(%q) has the run %q", subject, s.Run)
			}
		}
	})
}

// matches reports whether a subject of NATS passes a filter.
func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i := range f {
		switch {
		case f[i] == ">":
			return len(s) > i
		case i >= len(s) || f[i] != "*" && f[i] != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}

// TestFilters has every filter pass just the events that it is for.
func TestFilters(t *testing.T) {
	const runs = "run.requested run.planned run.revised run.ready run.failed run.closed"
	const calls = "call.requested call.running call.waiting call.finished"
	const bodies = "body.requested body.waiting body.finished"
	const approvals = "approval.requested approval.decided approval.ended"
	const sources = "source.listed source.failed source.reviewed source.decided"
	for _, tt := range []struct{ filter, types string }{
		{contracts.AllEvents, runs + " search describe " + calls + " " + bodies + " " + approvals + " " + sources},
		{contracts.RunEvents(tenant, run), runs + " search describe " + calls + " " + bodies + " " + approvals},
		{contracts.RunStates(tenant, run), runs},
		{contracts.CallStates(tenant, run, call), calls},
		{contracts.BodyStates(tenant, run, body), bodies},
		{contracts.AllRunRequested, "run.requested"},
		{contracts.AllRunPlanned, "run.planned"},
		{contracts.AllRunRevised, "run.revised"},
		{contracts.AllRunClosed, "run.closed"},
		{contracts.AllRunFailed, "run.failed"},
		{contracts.AllApprovalsDecided, "approval.decided"},
		{contracts.AllApprovalsEnded, "approval.ended"},
		{contracts.RunEvents("other", run), ""},
		{contracts.RunEvents(tenant, contracts.NewRunID()), ""},
		{contracts.CallStates(tenant, run, contracts.NewCallID()), ""},
		{contracts.BodyStates(tenant, run, contracts.BodyOf(call)), ""},
	} {
		for _, s := range eventSamples(t) {
			want := strings.Contains(" "+tt.types+" ", " "+s.typ.Type+" ")
			if got := matches(tt.filter, s.subject); got != want {
				t.Errorf("filter %s passes %s = %v, want %v", tt.filter, s.subject, got, want)
			}
		}
	}
}

// TestDispatchSubject holds the partitions of some tenants: another mapping would strand what waits.
func TestDispatchSubject(t *testing.T) {
	for in, want := range map[contracts.TenantID]string{
		"local": "dispatch.8.local", "acme": "dispatch.15.acme", "a": "dispatch.12.a", "b-2": "dispatch.14.b-2",
	} {
		if got := contracts.DispatchSubject(in); got != want {
			t.Errorf("DispatchSubject(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestRunExpiry(t *testing.T) {
	timer, due := contracts.RunExpiryTimer(tenant, run)
	checkTokens(t, "timer", timer, 4)
	if !matches("timer.>", timer) || !matches(contracts.AllRunExpiriesDue, due) {
		t.Errorf("RunExpiryTimer = %s, %s, want one under timer and one that %s passes", timer, due, contracts.AllRunExpiriesDue)
	}
	if gotTenant, gotRun, err := contracts.ParseRunExpiry(due); gotTenant != tenant || gotRun != run || err != nil {
		t.Errorf("ParseRunExpiry(%q) = %s, %s, %v", due, gotTenant, gotRun, err)
	}
	for _, s := range []string{"", timer, due + ".x", "due.run.acme", "due.run.*." + string(run), "due.run.acme.*", "due.run.A." + string(run)} {
		if _, _, err := contracts.ParseRunExpiry(s); contracts.CodeOf(err) != contracts.CodeInvalid {
			t.Errorf("ParseRunExpiry(%q): %v, want %s", s, err, contracts.CodeInvalid)
		}
	}
}

func TestAsk(t *testing.T) {
	subject := contracts.AskSubject(tenant, contracts.VerbDescribe)
	checkTokens(t, "subject", subject, 3)
	if !matches(contracts.AllAsks(contracts.VerbDescribe), subject) || matches(contracts.AllAsks(contracts.VerbSearch), subject) {
		t.Errorf("AllAsks does not tell %s from others", subject)
	}
	if got, err := contracts.AskTenant(subject); got != tenant || err != nil {
		t.Errorf("AskTenant(%q) = %s, %v", subject, got, err)
	}
	for _, s := range []string{"", "ask", "ask.acme", "ask.*.search", "ask.A.search", "ask.acme.search.x", "tc.acme.search"} {
		if got, err := contracts.AskTenant(s); contracts.CodeOf(err) != contracts.CodeInvalid {
			t.Errorf("AskTenant(%q) = %q, %v, want %s", s, got, err, contracts.CodeInvalid)
		}
	}
}

func TestCancelSubject(t *testing.T) {
	for filter, s := range map[string]string{
		contracts.AllCancels: contracts.CancelSubject(tenant, call), contracts.AllBodyCancels: contracts.BodyCancelSubject(tenant, body),
	} {
		checkTokens(t, "subject", s, 4)
		for _, other := range []string{contracts.AllCancels, contracts.AllBodyCancels} {
			if got := matches(other, s); got != (other == filter) {
				t.Errorf("%s passes %s = %v", other, s, got)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	source := contracts.SourceID{Kind: contracts.SourceMCP, Owner: "calendar"}
	for got, want := range map[contracts.Key]string{
		contracts.RunKey(tenant, run):                       "acme." + string(run),
		contracts.CallKey(tenant, run, call):                "acme." + string(run) + "." + string(call),
		contracts.BodyKey(tenant, run, body):                "acme." + string(run) + "." + string(body),
		contracts.SourceKey(tenant, source):                 "acme.mcp-calendar",
		contracts.PolicyKey(tenant, contracts.PolicyFile):   "acme.file",
		contracts.PolicyKey("local", contracts.PolicyAPI):   "local.api",
		contracts.RunKey("a-b", contracts.RunID("run_abc")): "a-b.run_abc",
	} {
		if string(got) != want {
			t.Errorf("key = %s, want %s", got, want)
		}
		if tenant, _, _ := strings.Cut(want, "."); string(got.Tenant()) != tenant {
			t.Errorf("Key(%s).Tenant() = %s, want %s", got, got.Tenant(), tenant)
		}
	}
}
