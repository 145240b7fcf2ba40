package contracts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HookReplay is how far the time of a webhook may be from the receiver's.
const HookReplay = 5 * time.Minute

// A HookKey signs webhooks as Standard Webhooks have it, or verifies them. It is a secret, and prints as nothing. Make one with [ParseHookKey].
type HookKey struct{ key []byte }

// Format writes a placeholder for every verb.
func (k HookKey) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(key)") }

const hookKeyPrefix = "whsec_"

// ParseHookKey reads a key: whsec_ and 24 to 64 bytes in base64. The error holds nothing of s.
func ParseHookKey(s string) (HookKey, error) {
	encoded, ok := strings.CutPrefix(s, hookKeyPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return HookKey{}, errors.New("is no key of a webhook; want whsec_ and then 24 to 64 bytes in base64")
	}
	return HookKey{key}, nil
}

// Sign returns the signature of a webhook that is sent at that time, of which the seconds count: "v1," and a base64 text.
func (k HookKey) Sign(id string, at time.Time, body []byte) string {
	return "v1," + base64.StdEncoding.EncodeToString(k.sum(id, strconv.FormatInt(at.Unix(), 10), body))
}

func (k HookKey) sum(id, at string, body []byte) []byte {
	h := hmac.New(sha256.New, k.key)
	h.Write([]byte(id + "." + at + "."))
	h.Write(body)
	return h.Sum(nil)
}

// VerifyHook returns an error unless a request with this header and body was signed with the key, and not more than [HookReplay] from now. It is for receivers. One that must
// not be asked twice by whoever listens in keeps the ids, [HookIDHeader], for twice that time and refuses one that comes again.
func VerifyHook(key HookKey, header http.Header, body []byte, now time.Time) error {
	id, at := header.Get(HookIDHeader), header.Get(HookTimeHeader)
	seconds, err := strconv.ParseInt(at, 10, 64)
	switch {
	case len(key.key) == 0:
		return errors.New("webhook: there is no key")
	case id == "" || err != nil:
		return fmt.Errorf("webhook: want the headers %s and %s", HookIDHeader, HookTimeHeader)
	case seconds < now.Add(-HookReplay).Unix() || seconds > now.Add(HookReplay).Unix():
		return errors.New("webhook: the time of the request is too far from now")
	}
	want := key.sum(id, at, body)
	for _, s := range strings.Fields(header.Get(HookSignatureHeader)) {
		encoded, v1 := strings.CutPrefix(s, "v1,")
		got, err := base64.StdEncoding.DecodeString(encoded)
		if v1 && err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return errors.New("webhook: no signature is right")
}
