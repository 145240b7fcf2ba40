package contracts

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// A TenantID names one customer of a deployment: 1 to 63 characters of a-z, 0-9
// and '-', beginning with a letter or digit, so that it is one token of a subject, one
// part of a key and a safe label. Make one with [ParseTenantID].
type TenantID string

// LocalTenant is the only tenant of a deployment that configures none.
const LocalTenant TenantID = "local"

// ParseTenantID returns s as a TenantID, or an [Error] with [CodeInvalid].
func ParseTenantID(s string) (TenantID, error) {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || !only(s, "-") {
		return "", Errorf(CodeInvalid, "tenant %q: want 1 to 63 characters of a-z, 0-9 and '-', not beginning with '-'", clip(s))
	}
	return TenantID(s), nil
}

// Ids of runs, calls, bodies, searches and approvals: a prefix, '_' and the base32 form of
// a UUIDv7 (RFC 9562, so ids sort by the time they were made) or of a hash.
type (
	RunID      string // run_…
	CallID     string // call_…
	SearchID   string // srch_…
	BodyID     string // body_…
	ApprovalID string // appr_…
)

// NewRunID, NewCallID and NewSearchID return a fresh id. Safe for concurrent use.
func NewRunID() RunID       { return RunID("run_" + uuid7()) }
func NewCallID() CallID     { return CallID("call_" + uuid7()) }
func NewSearchID() SearchID { return SearchID("srch_" + uuid7()) }

// KeyedCallID returns the id of the call that a principal names with an idempotency
// key: equal keys of one principal in one run give the same call.
func KeyedCallID(run RunID, principal, key string) CallID {
	return callIDOf(run, strconv.Quote(principal)+"\x00"+key)
}

func callIDOf(run RunID, name string) CallID {
	sum := sha256.Sum256([]byte(string(run) + "\x00" + name))
	return CallID("call_" + b32(sum[:16]))
}

// BodyCallID returns the id of the step-th call, from 1, of a body: a body that is run again asks for the same calls.
func BodyCallID(run RunID, body BodyID, step int) CallID {
	return callIDOf(run, string(body)+"\x00"+strconv.Itoa(step))
}

// ParseBodyID returns s as a BodyID, or an [Error] with [CodeInvalid].
func ParseBodyID(s string) (BodyID, error) {
	if err := checkID("body", s); err != nil {
		return "", err
	}
	return BodyID(s), nil
}

// ParseRunID returns s as a RunID, or an [Error] with [CodeInvalid].
func ParseRunID(s string) (RunID, error) {
	if err := checkID("run", s); err != nil {
		return "", err
	}
	return RunID(s), nil
}

// ParseCallID returns s as a CallID, or an [Error] with [CodeInvalid].
func ParseCallID(s string) (CallID, error) {
	if err := checkID("call", s); err != nil {
		return "", err
	}
	return CallID(s), nil
}

func checkID(prefix, s string) error {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != 26 || strings.Trim(rest, base32Digits) != "" {
		return Errorf(CodeInvalid, "%s id %q: want %s_ and 26 characters of a-z and 2-7", prefix, clip(s), prefix)
	}
	return nil
}

// only reports whether s has no characters but a-z, 0-9 and those of extra.
func only(s, extra string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return true
}

// clip shortens untrusted text for an error message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// base32Digits are in the order of their bytes, so that ids sort as what they encode.
const base32Digits = "234567abcdefghijklmnopqrstuvwxyz"

func b32(b []byte) string {
	return base32.NewEncoding(base32Digits).WithPadding(base32.NoPadding).EncodeToString(b)
}

func uuid7() string {
	var b [16]byte
	rand.Read(b[:])
	ms := uint64(time.Now().UnixMilli())
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], ms<<16)
	copy(b[:6], t[:6])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return b32(b[:])
}

// A Hash is the lower-case hex SHA-256 of some content. Content is always
// stored and found together with its tenant: equal hashes of two tenants are
// two objects.
type Hash string

// HashOf returns the hash of b.
func HashOf(b []byte) Hash {
	sum := sha256.Sum256(b)
	return Hash(hex.EncodeToString(sum[:]))
}
