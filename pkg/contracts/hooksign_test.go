package contracts_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The example that the reference implementations of Standard Webhooks are tested with.
const (
	hookSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hookID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	hookTime      = 1614265330
	hookBody      = `{"test": 2432232314}`
	hookSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func TestHookSignature(t *testing.T) {
	key, err := contracts.ParseHookKey(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	if got := key.Sign(hookID, time.Unix(hookTime, 999), []byte(hookBody)); got != hookSignature {
		t.Errorf("Sign = %s, want %s", got, hookSignature)
	}
	other, err := contracts.ParseHookKey("whsec_" + strings.Repeat("AAAA", 8))
	if err != nil {
		t.Fatal(err)
	}
	wrong := other.Sign(hookID, time.Unix(hookTime, 0), []byte(hookBody))
	at := func(d time.Duration) time.Time { return time.Unix(hookTime, 0).Add(d) }
	for _, tt := range []struct {
		what                      string
		id, time, signature, body string
		now                       time.Time
		ok                        bool
	}{
		{"as sent", hookID, "1614265330", hookSignature, hookBody, at(0), true},
		{"one of several", hookID, "1614265330", wrong + " v2,x " + hookSignature, hookBody, at(0), true},
		{"at the end of the window", hookID, "1614265330", hookSignature, hookBody, at(5 * time.Minute), true},
		{"replayed", hookID, "1614265330", hookSignature, hookBody, at(5*time.Minute + time.Second), false},
		{"from the future", hookID, "1614265330", hookSignature, hookBody, at(-5*time.Minute - time.Second), false},
		{"made younger", hookID, "1614265331", hookSignature, hookBody, at(0), false},
		{"a time that overflows", hookID, "9223372036854775807", hookSignature, hookBody, at(0), false},
		{"another id", hookID + "x", "1614265330", hookSignature, hookBody, at(0), false},
		{"another body", hookID, "1614265330", hookSignature, hookBody + " ", at(0), false},
		{"another key", hookID, "1614265330", wrong, hookBody, at(0), false},
		{"another version", hookID, "1614265330", "v2" + hookSignature[2:], hookBody, at(0), false},
		{"no base64", hookID, "1614265330", "v1,*", hookBody, at(0), false},
		{"no signature", hookID, "1614265330", "", hookBody, at(0), false},
		{"no id", "", "1614265330", hookSignature, hookBody, at(0), false},
		{"no time", hookID, "", hookSignature, hookBody, at(0), false},
	} {
		h := http.Header{}
		h.Set("webhook-id", tt.id)
		h.Set("webhook-timestamp", tt.time)
		h.Set("webhook-signature", tt.signature)
		if err := contracts.VerifyHook(key, h, []byte(tt.body), tt.now); (err == nil) != tt.ok {
			t.Errorf("%s: VerifyHook = %v, want ok %v", tt.what, err, tt.ok)
		}
	}
	empty := http.Header{}
	empty.Set("webhook-id", hookID)
	empty.Set("webhook-timestamp", strconv.Itoa(hookTime))
	empty.Set("webhook-signature", contracts.HookKey{}.Sign(hookID, at(0), []byte(hookBody)))
	if err := contracts.VerifyHook(contracts.HookKey{}, empty, []byte(hookBody), at(0)); err == nil {
		t.Error("VerifyHook takes what was signed with no key")
	}
	if s := fmt.Sprintf("%v %+v %#v %s", key, key, key, key); strings.Contains(s, "49") {
		t.Errorf("a key prints as %s", s)
	}
}

func TestParseHookKey(t *testing.T) {
	for _, s := range []string{
		"", "whsec_", hookSecret[6:], "whsec_c2hvcnQ=", "whsec_" + strings.Repeat("AAAA", 22), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_", hookSecret + "\n ",
	} {
		if _, err := contracts.ParseHookKey(s); err == nil || s != "" && strings.Contains(err.Error(), s) && s != "whsec_" {
			t.Errorf("ParseHookKey(%q) = %v, want an error without it", s, err)
		}
	}
}
